"""The producer ids that a broker may give out: blocks from the controller (Kafka's `RPCProducerIdManager`).

The next block is requested when most of the present one is used; the first one at the start of the broker or, as in
Kafka,
when an id is needed. Without an id in hand a client gets COORDINATOR_LOAD_IN_PROGRESS and retries.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

__all__ = ["BLOCK_SIZE", "AllocateProducerIds", "ProducerIds"]

BLOCK_SIZE = 1000
RETRY_BACKOFF_MS = 50
PREFETCH_PERCENT = 90


class AllocateProducerIds(Struct, frozen=True):
    """Ask the controller for a block; then call `granted` or `failed`."""

    key: str = "allocate_producer_ids"


class ProducerIds:
    """The rest of one block of ids, and perhaps the whole next block.

    `at_start`: whether the first block is due before an id is needed.
    """

    def __init__(self, *, at_start: bool = True) -> None:
        self._next = 0
        self._end = 0
        self._size = 0
        self._following: tuple[int, int] | None = None
        self._wanted = at_start
        self._not_before: int | None = None

    def take(self) -> int | None:
        """A fresh id, or None until a block comes."""
        if self._next == self._end:
            if self._following is None:
                self._wanted = True
                return None
            self._begin(*self._following)
            self._following = None
        producer_id = self._next
        self._next += 1
        used = self._size - (self._end - self._next)
        if self._following is None and used * 100 >= self._size * PREFETCH_PERCENT:
            self._wanted = True
        return producer_id

    def granted(self, start: int, length: int) -> None:
        """The controller granted the ids from `start`."""
        assert length > 0
        self._wanted = False
        if self._next == self._end:
            self._begin(start, length)
        else:
            self._following = (start, length)

    def failed(self, now: int) -> None:
        """AllocateProducerIds returned no block: `due` asks the controller again after RETRY_BACKOFF_MS."""
        self._not_before = now + RETRY_BACKOFF_MS

    def due(self, now: int) -> Iterator[AllocateProducerIds]:
        """The request that is owed, if any."""
        if self._not_before is not None and now >= self._not_before:
            self._not_before = None
        if self._wanted and self._not_before is None:
            yield AllocateProducerIds()

    def wake_at(self) -> int | None:
        """When to ask `due` again after a failure."""
        return self._not_before

    def _begin(self, start: int, length: int) -> None:
        self._next, self._end, self._size = start, start + length, length
