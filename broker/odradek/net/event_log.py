"""The event log: every fact of the nodes as one JSON line, for tools and for the pipeline (docs/events.md)."""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import structlog

from odradek.usage import UsageError

if TYPE_CHECKING:
    from odradek.log.machine import Fact

__all__ = ["EventLog"]


def _plain(value: object) -> object:
    """What JSON has no form for: sets and the like become lists (and bytes, such as topic ids, base64)."""
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def _render(logger: Any, method: str, event: MutableMapping[str, Any]) -> bytes:
    return _ENCODER.encode(event)


class EventLog:
    """Writes facts to a file, in the order in which they happened in the process."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: BinaryIO = path.open("ab", buffering=0)
        except OSError as error:
            raise UsageError(f"Cannot write events to {path}: {error.strerror}.") from error
        self._log = structlog.wrap_logger(structlog.BytesLogger(self._file), processors=[_render])
        self._count = 0

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """One line for each fact, with the time, a number in total order, and the node."""
        for fact in facts:
            self._count += 1
            event: dict[str, Any] = {
                "ts_ns": time.monotonic_ns(),
                "wall_ns": time.time_ns(),
                "seq": self._count,
                "node": node_id,
                "kind": fact.kind,
            }
            event.update(fact.fields)
            self._log.msg(None, **event)

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()
