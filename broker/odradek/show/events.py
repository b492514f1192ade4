"""Events of brokers, from an event file or from the memory of a cluster (docs/events.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["Event", "Fields", "Value", "event_of", "is_like_an_event"]

Value = Any
"""A value of JSON. An event of a newer Odradek may have fields that this one does not know."""
Fields = Mapping[str, Value]


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """One event."""

    seq: int
    """Its number in the file or ring."""
    at_ns: int
    """Wall clock, since 1970."""
    node: int
    """The broker."""
    kind: str
    fields: Fields
    """The other fields of the event, as they stand in the file."""


HEAD = frozenset({"seq", "ts_ns", "wall_ns", "node", "kind"})
"""Fields of every line."""
_DECODER = msgspec.json.Decoder(dict[str, Value])
TYPES = {
    **dict.fromkeys(("api", "client_id", "error", "group_id", "state_from", "state_to", "topic", "verdict"), str),
    **dict.fromkeys(("connection", "correlation", "lost_offsets", "members", "partition", "producer_id"), int),
    **dict.fromkeys(("records", "version"), int),
    "transactional_id": str,
    "metrics": list,
}
"""Types of the fields that are used. A line with another type in one of them is no event."""


def event_of(line: bytes) -> Event | None:
    """The event in a line of an event file; None if the line is not one."""
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
    for name, value in fields.items():
        if value is not None and type(value) is not TYPES.get(name, type(value)):
            return None
    return Event(seq=seq, at_ns=at_ns, node=node, kind=kind, fields=fields)


def is_like_an_event(line: bytes) -> bool:
    """Whether a line that is no event has some fields of events, as one of another version might."""
    try:
        fields = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return len(HEAD & fields.keys()) > 1
