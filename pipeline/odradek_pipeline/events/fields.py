"""The fields of events that an audit looks at, and their types; docs/events.md has all of them.

A field that does not apply is absent, or null. What has another type is no event: it is refused before it is counted,
since half of what it says would be taken and half not.
"""

from __future__ import annotations

from typing import Any

from odradek_pipeline.audit.lines import shown, whole_number

__all__ = ["FLAGS", "NUMBERS", "TEXTS", "check_event"]

NUMBERS = {
    **dict.fromkeys(("ts_ns", "wall_ns", "seq", "producer_id", "offset", "end_offset", "hw", "lso", "duration_ns"), 61),
    **dict.fromkeys(("node", "version", "producer_epoch", "partition", "tv"), 31),
}
"""Whole numbers, and of how many bits they are at most."""
TEXTS = (
    "kind", "api", "client_id", "transactional_id", "topic", "state_from", "state_to", "verdict", "error", "fault_id",
    "topic_id",
)  # fmt: skip
FLAGS = ("commit",)
_AT = ("topic", "partition")
_ALWAYS = ("ts_ns", "kind")
_NEEDED: dict[str, tuple[str, ...]] = {
    "verify_end": ("verdict", "duration_ns"),
    "lso_moved": (*_AT, "hw", "lso"),
    "init_producer_id": ("producer_id",),
    "partitions_added": (*_AT, "transactional_id", "producer_id"),
    "state_change": ("transactional_id", "producer_id", "state_to"),
    "marker_written": (*_AT, "offset"),
    "transaction_opened": (*_AT, "offset", "producer_id", "producer_epoch"),
    "transaction_closed": (*_AT, "producer_id"),
}


def check_event(event: dict[str, Any]) -> None:
    """Raise ValueError, with what is wrong, where a field has another type or a needed one is not there."""
    for name, bits in NUMBERS.items():
        if event.get(name) is not None:
            whole_number(name, event[name], bits)
    for name in TEXTS:
        if not isinstance(event.get(name, ""), str | None):
            raise ValueError(f"{name} is {shown(event[name])}, where a text belongs")
    for name in FLAGS:
        if not isinstance(event.get(name, False), bool | None):
            raise ValueError(f"{name} is {shown(event[name])}, where true or false belongs")
    for name in (*_ALWAYS, *_NEEDED.get(event.get("kind") or "", ())):
        if event.get(name) is None:
            raise ValueError(f"it has no {name}")
