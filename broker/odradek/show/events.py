"""Reads event files: JSON lines, one event each (docs/events.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from odradek.usage import UsageError

__all__ = ["Event", "read_events"]


class Event(Struct, frozen=True, kw_only=True):
    """One event; of its fields those that a picture needs. A field that does not apply is None."""

    kind: str
    node: int
    wall_ns: int
    api: str = ""
    version: int = 0
    client_id: str | None = None
    from_broker: bool = False
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    commit: bool = False
    state_from: str | None = None
    state_to: str | None = None
    verdict: str = ""
    error: str = ""

    @property
    def place(self) -> str:
        """The partition, as people write it."""
        return f"{self.topic}-{self.partition}"


_DECODER = msgspec.json.Decoder(Event)


def read_events(path: Path) -> Iterator[Event]:
    """The events of a file, in its order. A last line without its end is left out: its writer was stopped.

    UsageError for a file that cannot be read, and for a line that is not an event.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and line.endswith(b"\n"):
                    yield _event(path, number, line)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"{path}:{number}: this is no event (docs/events.md)") from None
