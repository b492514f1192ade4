"""docs/dialects.md: what it has a newcomer do works, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
BLOCK = re.compile(
    r"^(?:`(?P<file>[^`]+)`[^\n]*\n(?:[^\n`][^\n]*\n)*\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M
)


def blocks() -> list[re.Match[str]]:
    return list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the page has one write."""
    for block in blocks():
        if block["file"] and block["file"].startswith("counting/"):
            path = tmp_path / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")
    assert 3 == sum(path.is_file() for path in tmp_path.rglob("*"))
    return tmp_path


def ran(folder: Path, *command: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr


@pytest.mark.slow
def test_the_producer_prints_what_the_page_says(folder: Path) -> None:
    [program] = [each["text"] for each in blocks() if each["kind"] == "python" and not each["file"]]
    assert ("committed 3\n", "") == ran(folder, "-c", program)


@pytest.mark.slow
def test_what_it_changes_is_shown(folder: Path) -> None:
    [shown] = [each["text"] for each in blocks() if "dialects show" in each["text"]]
    expected = shown.partition("\n")[2]
    assert (expected, "") == ran(folder, "-m", "odradek", "dialects", "show", "./counting")


@pytest.mark.slow
def test_what_cannot_be_is_refused(folder: Path) -> None:
    [refused] = [each["text"] for each in blocks() if "with [apis] EndTxn = [0, 7]" in each["text"]]
    file = folder / "counting" / "dialect.toml"
    file.write_text(file.read_text() + "[apis]\nEndTxn = [0, 7]\n")
    expected = refused.partition("\n")[2]
    assert ("", expected) == ran(folder, "-m", "odradek", "serve", "--dialect", "./counting", "--port", "0")
