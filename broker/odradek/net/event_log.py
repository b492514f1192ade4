"""The event log: every fact of the nodes as one JSON line, for tools and for the pipeline (docs/events.md)."""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import structlog

from odradek.cli.usage import UsageError
from odradek.core.event_line import event_head, event_line
from odradek.core.wording import counted

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.core.machine import Fact

__all__ = ["EventLog"]


def _render(logger: Any, method: str, event: MutableMapping[str, Any]) -> bytes:
    return event_line(event)


class _Whole:
    """A file without a buffer that takes a line whole or fails: near the end of a disk it takes a part and says so."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.flush = file.flush

    def write(self, line: bytes) -> int:
        written = self._file.write(line)
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError:
            # Half a line would be no event to whoever reads the file.
            self._file.truncate(self._file.tell() - written)
            raise
        return written


class EventLog:
    """Writes facts to a file, in the order in which they happened in the process.

    What cannot be written is not the brokers' trouble: the log is told so once, and that event is the last.
    """

    def __init__(self, path: Path, log: Logger, *, bodies: bool = False) -> None:
        self._path = path
        self._bodies = bodies
        """Whether requests and responses are written with their bodies."""
        self._told = log
        self._why_lost: str | None = None
        self._first_lost = 0
        try:
            self._file: BinaryIO = path.open("ab", buffering=0)
        except OSError as error:
            raise UsageError(f"Cannot write events to {path}: {error.strerror}.") from error
        self._log = structlog.wrap_logger(
            structlog.BytesLogger(cast("BinaryIO", _Whole(self._file))), processors=[_render]
        )
        self._count = 0

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """One line for each fact, with the time, a number in total order, and the node."""
        for fact in facts:
            self._count += 1
            if self._why_lost is not None:
                continue
            ts_ns, wall_ns = time.monotonic_ns(), time.time_ns()
            event = event_head(ts_ns=ts_ns, wall_ns=wall_ns, seq=self._count, node=node_id, kind=fact.kind)
            event.update(fact.fields)
            if self._bodies:
                event.update(fact.body)
            try:
                self._log.msg(None, **event)
            except OSError as error:
                self._why_lost, self._first_lost = error.strerror or str(error), self._count
                self._told.error("events_lost", path=str(self._path), from_seq=self._count, reason=self._why_lost)

    @property
    def lost(self) -> str | None:
        """A sentence about the events that are not in the file; None where all are."""
        if self._why_lost is None:
            return None
        count = self._count - self._first_lost + 1
        return f"{self._path} lacks {counted(count, 'event')}, from number {self._first_lost} on: {self._why_lost}."

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()
