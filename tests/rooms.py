"""The rooms of a broker and of the pipeline, and their imports; `python -m tests.rooms` draws them into docs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import grimp

DOCS = Path(__file__).parents[1] / "docs"
BROKER, PIPELINE = "odradek", "odradek_pipeline"
PAGES: Mapping[str, Path] = {BROKER: DOCS / "architecture.md", PIPELINE: DOCS / "pipeline.md"}
"""Where the picture of each package is."""
ROOMS: Mapping[str, Sequence[str]] = {
    BROKER: ("data", "txn", "group", "offsets", "share", "metadata", "access", "limits", "telemetry", "faults", "host"),
    PIPELINE: (
        "commands", "demo", "report", "watch", "jobs", "spark", "incidents",
        "transactions", "groups", "history", "events", "directories", "audit", "logs", "access",
    ),
}  # fmt: skip
"""Those that the pictures show; `odradek.broker` imports all of its rooms, and all import `core` and the leaves."""
_PICTURE = re.compile(r"```mermaid\nflowchart TD\n(.*?)```", re.DOTALL)


@cache
def imports(package: str = BROKER) -> Mapping[str, frozenset[str]]:
    """Every module of the package with those that it imports, whether it does so for types alone or late."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
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


def picture(package: str = BROKER) -> str:
    """Which room imports which, as lines of a Mermaid flowchart."""
    found = {(room_of(module), room_of(other)) for module, others in imports(package).items() for other in others}
    rooms = ROOMS[package]
    lines = []
    for room in rooms:
        others = [other for other in rooms if other != room and (room, other) in found]
        if others:
            lines.append(f"  {room} --> {' & '.join(others)}\n")
    return "".join(lines)


def drawn(package: str = BROKER) -> str:
    """What the page shows."""
    [found] = _PICTURE.findall(PAGES[package].read_text(encoding="utf-8"))
    return str(found)


def draw() -> None:
    """Put the pictures as they are into the pages."""
    for package, page in PAGES.items():
        text = page.read_text(encoding="utf-8")
        page.write_text(_PICTURE.sub(f"```mermaid\nflowchart TD\n{picture(package)}```", text), encoding="utf-8")


if __name__ == "__main__":
    draw()
    sys.exit(0)
