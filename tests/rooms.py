"""The rooms of a broker and their imports; `python -m tests.rooms` draws them into docs/architecture.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
ROOMS = ("data", "txn", "group", "share", "metadata", "access", "limits", "telemetry", "faults", "host")
"""Those that the picture shows; `broker` imports all of them, and all import `core` and the leaves."""
_PICTURE = re.compile(r"```mermaid\nflowchart TD\n(.*?)```", re.DOTALL)


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


def room_of(module: str) -> str:
    """The folder of a module below the package, or its own name beside those."""
    return ".".join(module.split(".")[1:2])


def picture() -> str:
    """Which room imports which, as lines of a Mermaid flowchart."""
    found = {(room_of(module), room_of(other)) for module, others in imports().items() for other in others}
    lines = []
    for room in ROOMS:
        others = [other for other in ROOMS if other != room and (room, other) in found]
        if others:
            lines.append(f"  {room} --> {' & '.join(others)}\n")
    return "".join(lines)


def drawn() -> str:
    """What the page shows."""
    [found] = _PICTURE.findall(PAGE.read_text(encoding="utf-8"))
    return str(found)


def draw() -> None:
    """Put the picture as it is into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PICTURE.sub(f"```mermaid\nflowchart TD\n{picture()}```", text), encoding="utf-8")


if __name__ == "__main__":
    draw()
    sys.exit(0)
