"""Every dialect that comes with Odradek has a README with tests that exist, and decides every difference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.dialects.load import FOLDER, names, read
from odradek.dialects.show import listed, shown

ROWS = {f"B{number}" for number in range(1, 36)}
TESTS = Path(__file__).parent


def readme(name: str) -> str:
    return (read(name).folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_tests_exist(name: str) -> None:
    path = TESTS / f"test_{name.replace('-', '_')}.py"
    written = set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    wanted = set(re.findall(r"`(test_\w+)`", readme(name)))
    assert set() == wanted - written
    assert set() == written - wanted, "a test that no sentence of the README names"


@pytest.mark.parametrize("name", names())
def test_every_difference_is_decided(name: str) -> None:
    rows = [line.split("|")[1] for line in readme(name).splitlines() if line.startswith("| B")]
    assert ROWS == {each.strip() for row in rows for each in row.split(",")}


@pytest.mark.parametrize("name", names())
def test_the_list_and_the_page_name_it(name: str) -> None:
    page = (TESTS.parents[1] / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert any(line.startswith(f"{name} ") for line in listed())
    assert f"`{name}`" in page
    assert shown(name)[0].startswith(f"{name}, over ")


def test_folders_are_named_as_their_dialects() -> None:
    assert names() == [read(str(path.parent)).release.name for path in sorted(FOLDER.glob("*/dialect.toml"))]
