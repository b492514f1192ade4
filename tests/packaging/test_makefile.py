"""What the commands of the project say."""

from __future__ import annotations

import re
import sys

import pytest
from tests.clients import toolchain
from tests.packaging.tools import ROOT, said

MAKEFILE = (ROOT / "Makefile").read_text()


def test_clean_names_what_it_leaves() -> None:
    done = said("make", "-n", "clean", cwd=ROOT)
    left = done.stdout.partition("echo")[2]
    for place in (str(toolchain.cache()), "~/.m2/repository", "~/go/pkg/mod", "~/.npm", "~/.cargo/registry"):
        assert place in left


def test_clean_removes_what_is_ignored() -> None:
    """All but what lies beside the sources: compiled modules, and what people have written themselves."""
    (removed,) = re.findall(r"^\trm -rf (.*)$", MAKEFILE, re.MULTILINE)
    ignored = set((ROOT / ".gitignore").read_text().split())
    beside = {"__pycache__/", "*.pyc", "*.so", "node_modules/", "target/", "/events.jsonl", "/audit/"}
    names = {f"{name.removeprefix('$(VENV)').strip('/')}/" for name in removed.split()} | {".venv/"}
    assert set() == ignored - beside - names


def test_every_command_is_explained() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    explained = set(re.findall(r"^#   make (\S+)  ", MAKEFILE, re.MULTILINE))
    assert set(phony.split()) <= explained


@pytest.mark.slow
def test_what_is_there_is_not_generated_again_and_not_talked_about() -> None:
    done = said(sys.executable, "-m", "odradek.wire.generate", cwd=ROOT)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
