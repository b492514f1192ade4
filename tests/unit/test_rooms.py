"""The rooms of the package: nothing imports in a circle, for types either, and the picture shows what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

PICTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
ARROW = re.compile(r"^ *(?P<room>[\w/]+) --> (?P<others>[\w/ &]+)$", re.MULTILINE)


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Every module of the package with those that it imports, whether it does so for types alone or late."""
    graph = grimp.build_graph("odradek", exclude_type_checking_imports=False, cache_dir=None)
    return {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def circles(of: Mapping[str, frozenset[str]]) -> Iterator[list[str]]:
    """The sets of modules each of which leads to all the others, found by leaving out what leads nowhere."""
    left = {module: set(others) for module, others in of.items()}
    while loose := {module for module, others in left.items() if not others & left.keys()}:
        for module in loose:
            del left[module]
    entered = {module: {other for other, others in left.items() if module in others} for module in left}
    while loose := {module for module, others in entered.items() if not others & entered.keys()}:
        for module in loose:
            del entered[module]
    if entered:
        yield sorted(entered)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [] == list(circles(imports()))


def test_a_circle_is_found() -> None:
    of = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set[str]()}
    assert [["b", "c"]] == list(circles({module: frozenset(others) for module, others in of.items()}))


def room_of(module: str) -> str | None:
    """The room of a module of the node: its folder, or its own name beside those."""
    names = module.split(".")
    return names[2] if names[:2] == ["odradek", "node"] and len(names) > 2 else None


ROOMS = (
    "node",
    "routes",
    "guards",
    "rules",
    "quotas",
    "telemetry",
    "hosting",
    "transport",
    "kernel",
    "admission",
    "seams",
)


def test_the_picture_of_the_rooms_is_what_is_imported() -> None:
    """Of the modules beside the rooms the picture has those that wire and admit, and what all of them may touch."""
    found = {
        (room, other)
        for module, others in imports().items()
        for room in [room_of(module)]
        for other in map(room_of, others)
        if room in ROOMS and other in ROOMS and room != other
    }
    [picture] = re.findall(r"```mermaid\n(.*?)```", PICTURE.read_text(encoding="utf-8"), flags=re.DOTALL)
    drawn = {(each["room"], other) for each in ARROW.finditer(picture) for other in each["others"].split(" & ")}
    assert sorted(found) == sorted(drawn)
