"""The rooms of the package: nothing imports in a circle, for types either, and the picture shows what is there."""

from __future__ import annotations

from tests.rooms import ROOMS, circles, drawn, imports, picture, room_of


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [] == list(circles(imports()))


def test_a_circle_is_found() -> None:
    of = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set[str]()}
    assert [["b", "c"]] == list(circles({module: frozenset(others) for module, others in of.items()}))


def test_the_picture_of_the_rooms_is_what_is_imported() -> None:
    """`python -m tests.rooms` draws it anew."""
    assert {*ROOMS} <= {room_of(module) for module in imports()}
    assert picture() == drawn()
