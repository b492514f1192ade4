"""docs/disk.md has every line that tells of a data directory, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import odradek.net
from odradek.testing.damage import KINDS

DOCS = Path(__file__).parents[3] / "docs"
LEVELS = ("info", "warning", "error")
OF_DIRECTORIES = ("odradek.log.disk", "odradek.log.file_store", "odradek.net.data_dir")
"""Who imports one of these has to do with directories."""
ELSEWHERE = {"recording_ended": "replay.md"}


def modules() -> Iterator[ast.Module]:
    for path in Path(odradek.net.__path__[0]).glob("*.py"):
        module = ast.parse(path.read_text())
        imported = {each.module for each in ast.walk(module) if isinstance(each, ast.ImportFrom)}
        if imported & set(OF_DIRECTORIES):
            yield module


def lines() -> set[str]:
    """The names of all log lines."""
    return {
        each.args[0].value
        for module in modules()
        for each in ast.walk(module)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in LEVELS
        and each.args
        and isinstance(each.args[0], ast.Constant)
        and isinstance(each.args[0].value, str)
    }


def told() -> set[str]:
    """The names in the first column of the table."""
    section = (DOCS / "disk.md").read_text().partition("## Lines of the log")[2].partition("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall("`(.*?)`", row)}


def test_every_line_is_on_the_page() -> None:
    found = lines() | KINDS
    assert {"file_damaged", "log_tail_cut", "disk_failed", "data_dir_opened"} <= found
    assert told() == found - ELSEWHERE.keys()
    assert all(name in (DOCS / page).read_text() for name, page in ELSEWHERE.items())
