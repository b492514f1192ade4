"""What a scan has read and found so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek_pipeline.logs.layout import LogFile, Problem, problem
from odradek_pipeline.logs.remembered import SegmentMemory

__all__ = ["Scan"]


@dataclass(slots=True)
class Scan:
    """What a scan counts on its way."""

    check_crc: bool = False
    memory: SegmentMemory | None = None
    """What earlier scans have found in segments that have not changed since."""
    reading: Callable[[int, int], None] | None = None
    """Told how many of how many bytes are behind."""
    cleaned: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How far compaction may have gone in a partition, where that is further than its checkpoint says."""
    bytes_read: int = 0
    bytes_remembered: int = 0
    batches: int = 0
    problems: list[Problem] = field(default_factory=list)

    def note(self, file: LogFile, position: int, name: str, detail: str, *, severity: str = "bad") -> None:
        """Note a problem."""
        self.problems.append(problem(file.path, position, name, detail, severity=severity))
