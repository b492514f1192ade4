"""JSON lines, read so that a broken line is a problem and not the end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from odradek_pipeline.logs.layout import Problem, problem

__all__ = ["json_lines", "line_of", "object_of", "shown", "whole_number"]

_LONG = 40
LINES_BETWEEN = 4_096
"""How many lines are read between two times that it is said how far it is."""


def json_lines(
    path: Path, problems: list[Problem], reading: Callable[[int], None] | None = None
) -> Iterator[dict[str, Any]]:
    """Every object of the file; a last line without its end is what a running or killed program leaves behind.

    `reading` is told now and then how many bytes of the file are behind, compressed as they are.
    """
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw as file:
            position = 0
            for number, line in enumerate(file):
                if reading is not None and number % LINES_BETWEEN == 0:
                    reading(raw.tell())
                found = object_of(line)
                if found is not None:
                    yield found
                elif line.strip():
                    cut = not line.endswith(b"\n")
                    name, severity = ("half-written", "info") if cut else ("bad-line", "bad")
                    problems.append(problem(path, position, name, f"no JSON object: {line[:60]!r}", severity=severity))
                position += len(line)
    except (OSError, EOFError) as error:
        problems.append(problem(path, 0, "unreadable", str(error)))


def object_of(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None where it is none, or one with half of a pair of surrogates, which no table takes."""
    try:
        found = json.loads(line)
        if b"\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def line_of(path: Path, number: int) -> int:
    """Which line of a file has its object of this number; lines are counted from 1, objects from 0."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for at, line in enumerate(file, 1):
            if object_of(line) is not None:
                number -= 1
                if number < 0:
                    return at
    return 0


def whole_number(name: str, value: Any, bits: int) -> int:
    """The value, if it is a whole number of so many bits; else ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {shown(value)}, where a whole number belongs")
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{name} is {shown(value)}, which is out of range")
    return value


def shown(value: Any) -> str:
    """A value as a sentence has it."""
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
