"""An event as a line of an event file (docs/events.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["event_head", "event_line", "json_form"]


def json_form(value: object) -> object:
    """A JSON form for other values: sets and the like become lists (and bytes, such as topic ids, base64)."""
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=json_form)


def event_head(*, ts_ns: int, wall_ns: int, seq: int, node: int, kind: str) -> dict[str, object]:
    """The fields that every event has; its own follow them."""
    return {"ts_ns": ts_ns, "wall_ns": wall_ns, "seq": seq, "node": node, "kind": kind}


def event_line(event: Mapping[str, object]) -> bytes:
    """The line, without its end."""
    return _ENCODER.encode(event)
