"""An event as a line of an event file (docs/events.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["event_line"]


def _plain(value: object) -> object:
    """What JSON has no form for: sets and the like become lists (and bytes, such as topic ids, base64)."""
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def event_line(event: Mapping[str, object]) -> bytes:
    """The line, without its end."""
    return _ENCODER.encode(event)
