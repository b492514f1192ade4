"""Events of brokers, as an event file and the memory of a cluster have them (docs/events.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from odradek.usage import UsageError

__all__ = ["Event", "Fields", "Value", "event_of", "read_events"]

Value = Any
"""What JSON can say. A newer Odradek may say more of an event than this one knows."""
Fields = Mapping[str, Value]


class Event(Struct, frozen=True, kw_only=True):
    """One event."""

    seq: int
    """Its number in the file or ring."""
    at_ns: int
    """Wall clock, since 1970."""
    node: int
    """The broker."""
    kind: str
    fields: Fields
    """What the event says beside this, as it stands in the file."""


_DECODER = msgspec.json.Decoder(dict[str, Value])


def event_of(line: bytes) -> Event | None:
    """The event of a line of an event file; None if it is none."""
    try:
        fields = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    try:
        seq, at_ns, node, kind = fields.pop("seq"), fields.pop("wall_ns"), fields.pop("node"), fields.pop("kind")
    except KeyError:
        return None
    if not (type(seq) is int and type(at_ns) is int and type(node) is int and type(kind) is str):
        return None
    fields.pop("ts_ns", None)
    return Event(seq=seq, at_ns=at_ns, node=node, kind=kind, fields=fields)


def read_events(path: Path) -> Iterator[Event]:
    """The events of a file, in its order. A last line without its end is left out: its writer was stopped.

    UsageError for a file that cannot be read, and for a line that is not an event.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and line.endswith(b"\n"):
                    event = event_of(line)
                    if event is None:
                        raise UsageError(f"{path}:{number}: this is no event (docs/events.md)")
                    yield event
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
