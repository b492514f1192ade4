"""The rooms of the packages: nothing imports in a circle, for types either, and the pictures show what is there."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from tests.rooms import BROKER, PIPELINE, ROOMS, circles, drawn, imports, picture, room_of

import odradek

PACKAGES = (BROKER, PIPELINE)
PACKAGE = Path(odradek.__file__).parent
GENERATED = PACKAGE / "wire" / "messages"
LINES_MAX = 9_500
"""As many as a newcomer to a room may find there."""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    assert [] == list(circles(imports(package)))


def test_a_circle_is_found() -> None:
    of = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set[str]()}
    assert [["b", "c"]] == list(circles({module: frozenset(others) for module, others in of.items()}))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_of_the_rooms_is_what_is_imported(package: str) -> None:
    """`python -m tests.rooms` draws it anew."""
    assert {*ROOMS[package]} <= {room_of(module) for module in imports(package)}
    assert picture(package) == drawn(package)


def folders() -> list[Path]:
    """The folder of each room: those below the package, and those below a folder that a contract divides."""
    text = (PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    divided = {container for each in contracts for container in each.get("containers", ())}
    rooms = {PACKAGE / room for room in ROOMS[BROKER]} | {path for path in PACKAGE.iterdir() if path.is_dir()}
    for room in sorted(rooms):
        if f"{PACKAGE.name}.{room.name}" in divided:
            rooms |= {path for path in room.iterdir() if path.is_dir()}
            rooms.discard(room)
    return sorted(path for path in rooms if path.is_dir() and path.name != "__pycache__")


def test_no_room_has_too_many_lines() -> None:
    lines = Counter[str]()
    for room in folders():
        for path in room.rglob("*.py"):
            if GENERATED not in path.parents:
                lines[str(room.relative_to(PACKAGE))] += path.read_text(encoding="utf-8").count("\n")
    assert {} == {room: count for room, count in lines.items() if count > LINES_MAX}


def test_the_rooms_of_the_simulator_are_rooms() -> None:
    assert {"sim/checks", "sim/clients", "sim/world"} <= {str(room.relative_to(PACKAGE)) for room in folders()}
    assert PACKAGE / "sim" not in folders()
