"""docs/kips.md and docs/differences.md name modules and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("kips.md", "differences.md")


def named(page: str) -> list[str]:
    """Everything in the tables that is set as code."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    return [each for line in lines if line.startswith("|") for each in re.findall("`([^`]+)`", line)]


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page: str) -> None:
    paths = [each for each in named(page) if "/" in each and " " not in each]
    roots = (ROOT, ROOT / "broker" / "odradek")
    assert [] == [path for path in paths if not any((root / path).exists() for root in roots)]


@pytest.mark.parametrize("page", PAGES)
def test_tests_exist(page: str) -> None:
    wanted = {each for each in named(page) if each.startswith("test_")}
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    assert set() == wanted - written


@pytest.mark.parametrize("page", PAGES)
def test_scenarios_exist(page: str) -> None:
    wanted = {each.removeprefix("oracle: ") for each in named(page) if each.startswith("oracle: ")}
    assert set() == {name for name in wanted if not (ROOT / "tests" / "oracle" / "scenarios" / f"{name}.txt").exists()}
