"""Which partition of an internal topic coordinates a key, and the internal topics themselves."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

__all__ = ["INTERNAL_TOPICS", "CoordinatorKind", "partition_for"]


class CoordinatorKind(Enum):
    """A kind of coordinator, by the topic whose partitions are its logs."""

    GROUP = "__consumer_offsets"
    TRANSACTION = "__transaction_state"
    SHARE = "__share_group_state"

    topic: str
    """The internal topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


KEYS_REMEMBERED = 16_384
"""Every request of a group or transaction asks for the partition of the same key, several times."""
INTERNAL_TOPICS = frozenset(kind.topic for kind in CoordinatorKind)
AT_START = (CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION)
"""Kinds whose topics may exist from the start; few clusters have share groups."""


@lru_cache(maxsize=KEYS_REMEMBERED)
def partition_for(key: str, count: int) -> int:
    """The partition of a key: Java's String.hashCode over UTF-16, its absolute value (0 for the lowest), modulo."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8) + encoded[position + 1]) & 0xFFFFFFFF
    if value >= 1 << 31:
        value -= 1 << 32
    return 0 if value == -(1 << 31) else abs(value) % count
