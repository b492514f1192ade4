"""The event log: every fact of the nodes as one JSON line, for tools and for the pipeline (docs/events.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import structlog

from odradek.cli.usage import UsageError
from odradek.core.event_line import event_head, event_line
from odradek.core.wording import counted

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.core.machine import Fact

__all__ = ["EventLog"]


def _render(logger: object, method: str, event: MutableMapping[str, object]) -> bytes:
    return event_line(event)


class _Whole:
    """An unbuffered file that writes a line whole or fails; on a full disk a plain write writes only a part."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.flush = file.flush

    def write(self, line: bytes) -> int:
        written = self._file.write(line)
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError:
            # Half a line would not be readable as an event.
            self._file.truncate(self._file.tell() - written)
            raise
        return written


class EventLog:
    """Writes facts to a file, in the order in which they happened in the process.

    If writing fails, the brokers go on: the log says so once, and no further event is written.
    """

    def __init__(
        self, path: Path, log: Logger, *, bodies: bool = False, now_ms: Callable[[], int] | None = None
    ) -> None:
        """`now_ms` is the time that lines have, in place of the machine's."""
        self._path = path
        self._bodies = bodies
        """Whether requests and responses are written with their bodies."""
        self._now_ms = now_ms
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
            ts_ns, wall_ns = self._times()
            event = event_head(ts_ns=ts_ns, wall_ns=wall_ns, seq=self._count, node=node_id, kind=fact.kind)
            event.update(fact.fields)
            if self._bodies:
                event.update(fact.body)
            try:
                self._log.msg(None, **event)
            except OSError as error:
                self._why_lost, self._first_lost = error.strerror or str(error), self._count
                self._told.error("events_lost", path=str(self._path), from_seq=self._count, reason=self._why_lost)

    def _times(self) -> tuple[int, int]:
        """The monotonic clock and the time since 1970 (ns)."""
        if self._now_ms is None:
            return time.monotonic_ns(), time.time_ns()
        return (now_ns := self._now_ms() * 1_000_000), now_ns

    @property
    def lost(self) -> str | None:
        """A sentence about the events that are missing in the file; None if there are none."""
        if self._why_lost is None:
            return None
        count = self._count - self._first_lost + 1
        return f"{self._path} lacks {counted(count, 'event')}, from number {self._first_lost} on: {self._why_lost}."

    def close(self) -> None:
        self._file.close()
