"""What Odradek is, said in one way wherever it is said."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import odradek
from odradek.cli.all_commands import commands_for

ROOT = Path(__file__).parents[2]


def readme() -> str:
    """The first part of the bold sentence of the README, up to whom it is for."""
    bold = re.search(r"^\*\*Odradek is (.*?), so that .*\*\*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert bold is not None
    return bold[1]


def overview() -> str:
    """What `odradek --help` says below the usage."""
    return commands_for(None).overview().split("\n\n")[1]


def docstring() -> str:
    """Its first paragraph."""
    return (odradek.__doc__ or "").split("\n\n")[0]


def description() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["description"])


def label() -> str:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    [found] = re.findall(r'org\.opencontainers\.image\.description="(.*)"', dockerfile)
    return str(found)


@pytest.mark.parametrize("said", [overview, docstring, description, label])
def test_all_say_what_the_readme_says(said: Callable[[], str]) -> None:
    words = " ".join(said().split()).removesuffix(".")
    assert readme() == words[:1].lower() + words[1:]
