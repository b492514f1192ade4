"""The results as a file for machines: one line for each cell, in the order of the plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

from tests.clients.matrix.plan import Cell, everything
from tests.clients.matrix.playing import Outcome

from odradek import __version__

__all__ = ["FILE", "Entry", "Results"]

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "compatibility.json"


@dataclasses.dataclass
class Entry:
    """What came of a cell, and whether that was expected."""

    outcome: Outcome
    expected: bool
    odradek: str = __version__


class Results:
    """Results by cell; a run replaces those of the cells that it has played."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._entries: dict[tuple[str, str, str, str], Entry] = {}
        if file.exists():
            for row in json.loads(file.read_text())["cells"]:
                key = row.pop("family"), row.pop("version"), row.pop("broker"), row.pop("scenario")
                expected, odradek = row.pop("expected"), row.pop("odradek")
                self._entries[key] = Entry(Outcome(**row), expected, odradek)

    def put(self, cell: Cell, entry: Entry) -> None:
        """Note what came of a cell."""
        self._entries[cell.key] = entry

    def rows(self) -> Iterator[tuple[Cell, Entry]]:
        """What is known, in the order of the plan; cells that are no longer in the plan are gone."""
        for cell in everything():
            entry = self._entries.get(cell.key)
            if entry is not None:
                yield cell, entry

    def write(self) -> None:
        """Write the file."""
        lines = []
        for cell, entry in self.rows():
            family, version, broker, scenario = cell.key
            row = {"family": family, "version": version, "broker": broker, "scenario": scenario}
            row |= dataclasses.asdict(entry.outcome) | {"expected": entry.expected, "odradek": entry.odradek}
            lines.append(json.dumps(row, separators=(",", ":")))
        self._file.write_text('{"cells": [\n' + ",\n".join(lines) + "\n]}\n")
