"""Committed offsets, those that wait for the end of a transaction, and the records of both.

A fold over `__consumer_offsets`: nothing here changes but by a record or a marker of that log.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.records import state as log_records
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek.wire.primitives import ZERO_UUID

__all__ = [
    "NO_EXPIRY",
    "VALUE_VERSION",
    "CommittedOffset",
    "Offsets",
    "TopicPartition",
    "offset_record",
    "offset_tombstone",
]

NO_EXPIRY = -1
"""An offset that stays as long as the configuration says."""
OFFSET_COMMIT = 1
"""The kind of these records, in their keys."""
VALUE_VERSION = 4
VALUE_VERSION_WITH_EXPIRY = 1
"""The only version that can say when an offset expires: what clients before KIP-211 ask for with a retention time."""
STRING_BYTES_MAX = 2**15 - 1
COMPACT_STRING_BYTES_MAX = 126
"""The longest string whose length is one byte in a flexible version."""
_KIND_AND_LENGTH = Layout(">hh")
_LENGTH = Layout(">h")
_PARTITION = Layout(">i")
_BEGIN = Layout(">hqiB")
_END = Layout(">qBBB16s")
_END_WITHOUT_ID = Layout(">qB")

TopicPartition = tuple[str, int]


class CommittedOffset(Struct, frozen=True):
    """One committed offset, and where in the log that was written."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    record_offset: int

    def is_expired(self, now: int, *, retention_ms: int, since: int | None) -> bool:
        """Whether its time is over, counted from `since` or from its commit; an own expiry time goes before."""
        if self.expire_timestamp != NO_EXPIRY:
            return now >= self.expire_timestamp
        return now - (self.commit_timestamp if since is None else since) >= retention_ms


class Offsets:
    """All offsets of the groups of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], CommittedOffset]] = {}
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of the group, without open transactions; to be read only."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.of_group(group_id).get((topic, partition))

    def is_open(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds an offset for this partition."""
        return (topic, partition) in self._open.get(group_id, {})

    def has_open(self, group_id: str) -> bool:
        """Whether an open transaction holds any offset of this group."""
        return group_id in self._open

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether the partition has a committed or a pending offset."""
        return (topic, partition) in self.of_group(group_id) or self.is_open(group_id, topic, partition)

    def known(self, group_id: str) -> Iterator[TopicPartition]:
        """Every partition with a committed or a pending offset: what a deletion has to write tombstones for."""
        committed = self.of_group(group_id)
        yield from committed
        yield from (each for each in self._open.get(group_id, {}) if each not in committed)

    def of_topic(self, topic: str, topic_id: bytes) -> Iterator[tuple[str, int]]:
        """Groups and partitions with offsets of this topic, pending ones too; an offset without an id may be of it."""
        found: dict[tuple[str, int], None] = {}
        for group_id, committed in self._committed.items():
            for (name, partition), offset in committed.items():
                if name == topic and (not any(offset.topic_id) or offset.topic_id == topic_id):
                    found[group_id, partition] = None
        for pending in self._pending.values():
            for (group_id, (name, partition)), offset in pending.items():
                if name == topic and (not any(offset.topic_id) or offset.topic_id == topic_id):
                    found[group_id, partition] = None
        return iter(found)

    def durable_state(self) -> tuple[object, object]:
        """Committed and pending offsets: all that there is."""
        return (
            {group_id: dict(offsets) for group_id, offsets in self._committed.items()},
            {producer_id: dict(offsets) for producer_id, offsets in self._pending.items()},
        )

    def fold(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, *, record_offset: int, producer_id: int
    ) -> None:
        """One record of the log; with a producer id it is part of a transaction."""
        topic_partition = key.topic, key.partition
        if value is None:
            self._forget(key.group, topic_partition)
            return
        offset = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp=value.commit_timestamp,
            expire_timestamp=value.expire_timestamp,
            topic_id=value.topic_id,
            record_offset=record_offset,
        )
        if producer_id < 0:
            self._committed.setdefault(key.group, {})[topic_partition] = offset
        else:
            self._pending.setdefault(producer_id, {})[key.group, topic_partition] = offset
            self._open.setdefault(key.group, {}).setdefault(topic_partition, set()).add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of a transaction: its offsets count from now on, or never did."""
        for (group_id, topic_partition), offset in self._pending.pop(producer_id, {}).items():
            self._close(group_id, topic_partition, producer_id)
            if not committed:
                continue
            offsets = self._committed.setdefault(group_id, {})
            known = offsets.get(topic_partition)
            # Whichever was written later wins, not whichever came into force later: compaction could not tell.
            if known is None or offset.record_offset > known.record_offset:
                offsets[topic_partition] = offset

    def _forget(self, group_id: str, topic_partition: TopicPartition) -> None:
        committed = self._committed.get(group_id)
        if committed is not None and committed.pop(topic_partition, None) is not None and not committed:
            del self._committed[group_id]
        for producer_id in list(self._open.get(group_id, {}).get(topic_partition, ())):
            pending = self._pending[producer_id]
            del pending[group_id, topic_partition]
            if not pending:
                del self._pending[producer_id]
            self._close(group_id, topic_partition, producer_id)

    def _close(self, group_id: str, topic_partition: TopicPartition, producer_id: int) -> None:
        partitions = self._open[group_id]
        producers = partitions[topic_partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[topic_partition]
            if not partitions:
                del self._open[group_id]


def offset_record(key: OffsetCommitKey, value: OffsetCommitValue, version: int = VALUE_VERSION) -> LogRecord:
    """An offset of a group, in this version unless it says when it expires."""
    if value.expire_timestamp != NO_EXPIRY:
        return LogRecord(_encoded_key(key), log_records.encode_value(value, VALUE_VERSION_WITH_EXPIRY))
    if version != VALUE_VERSION:
        return LogRecord(_encoded_key(key), log_records.encode_value(value, version))
    metadata = value.metadata.encode()
    if len(metadata) > COMPACT_STRING_BYTES_MAX:
        return LogRecord(_encoded_key(key), log_records.encode_value(value, VALUE_VERSION))
    # The same bytes with less work, as one is written with each commit: version, fields, and the id as a tagged field.
    end = _END_WITHOUT_ID.pack(value.commit_timestamp, 0)
    if value.topic_id != ZERO_UUID:
        end = _END.pack(value.commit_timestamp, 1, 0, len(value.topic_id), value.topic_id)
    begin = _BEGIN.pack(VALUE_VERSION, value.offset, value.leader_epoch, len(metadata) + 1)
    return LogRecord(_encoded_key(key), begin + metadata + end)


def offset_tombstone(group_id: str, topic: str, partition: int) -> LogRecord:
    """No offset is committed any more, in no open transaction either."""
    return LogRecord(_encoded_key(OffsetCommitKey(group_id, topic, partition)), None)


def _encoded_key(key: OffsetCommitKey) -> bytes:
    group, topic = key.group.encode(), key.topic.encode()
    if max(len(group), len(topic)) > STRING_BYTES_MAX:
        return log_records.encode_key(key)
    begin = _KIND_AND_LENGTH.pack(OFFSET_COMMIT, len(group))
    return begin + group + _LENGTH.pack(len(topic)) + topic + _PARTITION.pack(key.partition)
