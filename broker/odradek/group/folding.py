"""How the log of a group coordinator becomes its groups and their offsets: the only writer of both."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from odradek.core.machine import Fact, LogRecord
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.records import group_of
from odradek.records.control import read_marker
from odradek.records.record import Record, iterate_records
from odradek.records.state import GROUP_RECORDS, Unknown, decode_key, decode_record, decode_value, kind_of
from odradek.wire.errors import DecodeError
from odradek.wire.messages.group_metadata_key import GroupMetadataKey
from odradek.wire.messages.group_metadata_value import GroupMetadataValue
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from odradek.group.classic.rebalance import Rebalance
    from odradek.group.consumer.groups import ConsumerGroups
    from odradek.group.modern_groups import Group
    from odradek.group.share.groups import ShareGroups
    from odradek.group.streams.groups import StreamsGroups
    from odradek.offsets.committed import Offsets
    from odradek.records.batch import Batch

__all__ = ["Folding"]

OF_GROUPS = frozenset(kind for kind, stem in GROUP_RECORDS.items() if not stem.endswith("OffsetCommit"))
"""The kinds of record that are about groups and their members."""
CLASSIC = next(kind for kind, stem in GROUP_RECORDS.items() if stem == "GroupMetadata")


def _begins_modern(record: LogRecord) -> bool:
    """Whether a group is one of a newer protocol with this record."""
    return record.value is not None and kind_of(record.key or b"") in OF_GROUPS - {CLASSIC}


class Folding:
    """Folds committed batches into the groups and offsets that it is given."""

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        offsets: Offsets,
        rebalance: Rebalance,
        consumer: ConsumerGroups,
        share: ShareGroups,
        streams: Callable[[], StreamsGroups],
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._rebalance = rebalance
        self._consumer = consumer
        self._share = share
        self._streams = streams
        """Streams groups; imported by the first of them."""
        self._recorded: dict[str, GroupMetadataValue] = {}
        """The last generation of each group that the log knows of."""
        self.serving = False
        """Whether requests or time have reached the coordinator: before, the log alone says what a group is."""
        self.ahead: dict[str, int] = {}
        """Groups of which more is folded than is committed, and the offset of the last record of each that is."""
        self._changed: list[ClassicGroup] = []
        self._touched: set[str] = set()
        """Groups of the newer protocols that records were about."""

    def apply(self, batch: Batch) -> list[Fact]:
        """Fold a batch; returns facts about records that cannot be read."""
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self._offsets.end_transaction(batch.producer_id, committed=marker.commit)
            return []
        producer_id = batch.producer_id if batch.is_transactional else -1
        facts = []
        for record in iterate_records(batch):
            try:
                if not (self.ahead and self._is_behind(record)):
                    self._apply_record(record, producer_id)
            except DecodeError as error:
                # Whoever may write to any topic may write anything here; the groups must load all the same.
                facts.append(Fact("group_record_skipped", {"offset": record.offset, "error": str(error)}))
        return facts

    def apply_ahead(self, records: Sequence[LogRecord], base_offset: int) -> None:
        """Fold what is proposed about groups of the newer protocols before it is committed.

        The next decision about such a group follows from it, as in Kafka's coordinator runtime. What a group of the
        classic protocol and offsets come to is folded when it is committed.
        """
        about = [self._group_id_of(record.key or b"") for record in records]
        modern = {
            group_id
            for group_id, record in zip(about, records, strict=True)
            if group_id is not None and (self._is_modern(group_id) or _begins_modern(record))
        }
        for offset, (group_id, record) in enumerate(zip(about, records, strict=True), base_offset):
            if group_id is not None and group_id in modern:
                self._apply_record(Record(key=record.key, value=record.value, offset=offset), -1)
                self.ahead[group_id] = offset

    def _is_behind(self, record: Record) -> bool:
        """Whether a committed record was folded when it was proposed."""
        group_id = self._group_id_of(record.key or b"")
        if group_id is None:
            return False
        last = self.ahead.get(group_id, -1)
        if record.offset >= last:
            self.ahead.pop(group_id, None)
        return record.offset <= last

    def _is_modern(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and not isinstance(group, ClassicGroup)

    def _group_id_of(self, key: bytes) -> str | None:
        """The group that a record is about; None for one about an offset, or of a kind that is not known."""
        kind = kind_of(key)
        if kind not in OF_GROUPS:
            return None
        found, _ = decode_record(GROUP_RECORDS, key, None)
        group_id: str = astuple(found)[0]
        return group_id

    def drain(self) -> list[ClassicGroup]:
        """The classic groups that have changed since this was asked last."""
        changed, self._changed = self._changed, []
        return changed

    def drain_touched(self) -> list[str]:
        """The groups of the newer protocols that records were about since this was asked last."""
        touched = sorted(self._touched)
        self._touched.clear()
        return touched

    def _apply_record(self, record: Record, producer_id: int) -> None:
        key, value = record.key or b"", record.value
        offset_key = decode_key(key, OffsetCommitKey)
        if offset_key is not None:
            offset_value = None if value is None else decode_value(value, OffsetCommitValue)
            known = offset_key.group in self._groups or offset_key.group in self.ahead
            if offset_value is not None and not known:
                self._groups[offset_key.group] = ClassicGroup(offset_key.group)
            if offset_value is not None or value is None:
                self._offsets.fold(offset_key, offset_value, record_offset=record.offset, producer_id=producer_id)
            return
        group_key = decode_key(key, GroupMetadataKey)
        if group_key is not None:
            group_value = None if value is None else decode_value(value, GroupMetadataValue)
            if group_value is not None or value is None:
                self._apply_group(group_key.group, group_value)
            return
        other_key, other_value = decode_record(GROUP_RECORDS, key, value)
        if isinstance(other_key, Unknown) or isinstance(other_value, Unknown):
            return
        protocol = type(other_key).__name__
        groups: ConsumerGroups | ShareGroups | StreamsGroups
        if protocol.startswith("ConsumerGroup"):
            groups = self._consumer
        elif protocol.startswith("ShareGroup"):
            groups = self._share
        elif protocol.startswith("StreamsGroup"):
            groups = self._streams()
        else:
            return
        self._touched.add(groups.fold(other_key, other_value, loading=not self.serving))

    def _apply_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self._groups.get(group_id)
        if value is None:
            self._recorded.pop(group_id, None)
            # A member may have joined after the tombstone was decided; its group then goes on without a record.
            if isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
                group.enter(GroupState.DEAD, group.state_timestamp)
                self._changed.append(group)
                del self._groups[group_id]
            return
        self._recorded[group_id] = value
        successor = self._consumer.successor(group_id)
        if self.serving and isinstance(group, ClassicGroup):
            self._rebalance.recorded(group, value)
        elif successor is not None:
            group, owed = successor
            group.rebalance_owed = owed
            self._groups[group_id] = group
        else:
            group = self._groups[group_id] = group_of(group_id, value)
        self._changed.append(group)

    def durable_state(self) -> dict[str, object]:
        """The state that follows from the log alone."""
        modern = {
            group_id: group.durable_state()
            for group_id, group in self._groups.items()
            if not isinstance(group, ClassicGroup)
        }
        return {"groups": dict(self._recorded), "modern_groups": modern, "offsets": self._offsets.durable_state()}
