"""Transactional ids as the coordinators' log has them: whose a producer id is, and which protocol its client speaks.

The log is compacted, so reading it from its start costs about one record for each id; after that only what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.core.internal_topics import partition_for
from odradek.records.batch import InvalidBatch, batches
from odradek.records.record import iterate_records
from odradek.records.state import decode_key, decode_value
from odradek.wire.errors import DecodeError
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek_pipeline.logs.layout import TRANSACTION_STATE
from odradek_pipeline.watch.brokers import Brokers, Layout, Partition

__all__ = ["Names", "coordinator_of"]

FETCHES_PER_LOOK = 16
"""Of a few megabytes each; a long log is read over several looks."""


@dataclass(slots=True)
class Names:
    """The fold of the coordinators' log."""

    of_producer: dict[int, str] = field(default_factory=dict)
    """The transactional id that last had a producer id."""
    level: dict[str, int] = field(default_factory=dict)
    """transaction.version that the client of a transactional id last worked at: 0 and 1 before KIP-890, then 2."""
    is_whole: bool = True
    """Whether it has been read to its end."""
    _producer: dict[str, int] = field(default_factory=dict)
    _offsets: dict[Partition, int] = field(default_factory=dict)

    def read(self, brokers: Brokers) -> None:
        """Read what is new, of all partitions at once; of a long log the rest in the next look."""
        partitions = brokers.layout.of_topic(TRANSACTION_STATE)
        fresh = [at for at in partitions if at not in self._offsets]
        self._offsets |= brokers.starts(fresh)
        left = {at: self._offsets[at] for at in partitions if at in self._offsets}
        self.is_whole = len(left) == len(partitions)
        for _ in range(FETCHES_PER_LOOK):
            said = brokers.records(left)
            self.is_whole &= said.keys() == left.keys()
            left = {}
            for at, (content, high) in said.items():
                following = self.add(content)
                if high < 0:  # cut behind us, cleaned before us, or made anew
                    del self._offsets[at]
                elif following is not None:
                    self._offsets[at] = following
                    if following < high:
                        left[at] = following
            if not left:
                return
        self.is_whole = False

    def add(self, content: bytes) -> int | None:
        """Fold batches as they were fetched; the offset behind the last one, None where there is none."""
        following = None
        try:
            for batch in batches(memoryview(content)):
                following = batch.last_offset + 1
                if not batch.is_control:
                    for record in iterate_records(batch):
                        self._fold(record.key or b"", record.value)
        except InvalidBatch:
            return following
        return following

    def _fold(self, key: bytes, value: bytes | None) -> None:
        try:
            named = decode_key(key, TransactionLogKey)
            state = decode_value(value, TransactionLogValue) if value is not None else None
        except (DecodeError, ValueError, IndexError):
            return
        if named is None:
            return
        name = named.transactional_id
        before = self._producer.pop(name, None)
        if value is None:
            self.level.pop(name, None)
            if before is not None:
                self.of_producer.pop(before, None)
        elif state is not None:
            self._producer[name] = state.producer_id
            self.of_producer[state.producer_id] = name
            self.level[name] = state.client_transaction_version

    def levels(self) -> dict[int, int]:
        """How many transactional ids there are of each level."""
        return dict(sorted(Counter(self.level.values()).items()))

    def older(self) -> Iterator[str]:
        """The transactional ids whose clients work below level 2."""
        return (name for name, level in sorted(self.level.items()) if level < 2)


def coordinator_of(name: str, layout: Layout) -> tuple[int, int]:
    """The partition of the coordinators' log for a transactional id, and its leader; -1 where there is none."""
    coordinators = layout.of_topic(TRANSACTION_STATE)
    if not coordinators:
        return -1, -1
    partition = partition_for(name, len(coordinators))
    return partition, coordinators.get((TRANSACTION_STATE, partition), (-1, -1))[0]
