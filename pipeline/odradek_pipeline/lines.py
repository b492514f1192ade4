"""JSON lines, read so that a broken line is a problem and not the end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek_pipeline.layout import Problem, problem

__all__ = ["json_lines"]


def json_lines(path: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """Every object of the file; a last line without its end is what a running or killed program leaves behind."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            position = 0
            for line in file:
                found = _object(line)
                if found is not None:
                    yield found
                elif line.strip():
                    cut = not line.endswith(b"\n")
                    name, severity = ("half-written", "info") if cut else ("bad-line", "bad")
                    problems.append(problem(path, position, name, f"no JSON object: {line[:60]!r}", severity=severity))
                position += len(line)
    except (OSError, EOFError) as error:
        problems.append(problem(path, 0, "unreadable", str(error)))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
