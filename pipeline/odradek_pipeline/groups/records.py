"""What the coordinators of groups write, judged record by record: groups of consumers (KIP-848), of Kafka Streams
(KIP-1071), share groups (KIP-932), and the state of share partitions in `__share_group_state`.

Whatever is told here is of one log, in its order: it is right up to where the log ends, also in a copy of a running
broker. Where compaction or retention may have removed what came between, nothing is said of the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from odradek.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from odradek.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from odradek.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from odradek.wire.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from odradek.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from odradek.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from odradek.wire.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.share_update_key import ShareUpdateKey
from odradek.wire.messages.share_update_value import ShareUpdateValue
from odradek.wire.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from odradek.wire.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from odradek.wire.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from odradek.wire.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from odradek.wire.messages.streams_group_topology_key import StreamsGroupTopologyKey

__all__ = ["GroupLog", "ShareLog", "Told"]

Told = tuple[str, str]
"""The problem, and what is to be said of it."""
Owned = frozenset[tuple[str, int]]
"""What one member alone may have: tasks by subtopology, partitions by topic id."""

_DELIVERY_STATES = range(5)
"""Available, acquired, acknowledged, archiving, archived."""
_MEMBERS_OF = {
    ConsumerGroupCurrentMemberAssignmentKey: "consumer",
    ShareGroupCurrentMemberAssignmentKey: "share",
    StreamsGroupCurrentMemberAssignmentKey: "streams",
}
_EPOCHS_OF = (ConsumerGroupMetadataKey, ShareGroupMetadataKey, StreamsGroupMetadataKey)
_TARGETS_OF = (
    ConsumerGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
)
_TARGETS_OF_MEMBERS = (ConsumerGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberKey)
"""Of groups in which a partition, or an active task, has one owner."""


@dataclass(slots=True)
class _Group:
    """One group as its records have it so far; -1 where nothing is known."""

    epoch: int = -1
    target: int = -1
    owned: dict[str, Owned] = field(default_factory=dict)
    targets: dict[str, Owned] = field(default_factory=dict)
    """What each member is to have; together right when the epoch of the assignment is written behind them."""
    subtopologies: frozenset[str] | None = None
    """Of a streams group, if its topology was read."""


@dataclass(slots=True)
class GroupLog:
    """The groups of one partition of `__consumer_offsets`."""

    is_whole: bool = True
    """Neither compaction nor retention has removed anything: each record stands behind the one before it."""
    groups: dict[str, _Group] = field(default_factory=dict)

    def add(self, key: Any, value: Any) -> Iterator[Told]:
        """The next record; what is wrong with it."""
        group = self.groups.setdefault(key.group_id, _Group()) if hasattr(key, "group_id") else None
        if group is None:
            return
        if isinstance(key, _EPOCHS_OF):
            if value is None:
                del self.groups[key.group_id]
                return
            if self.is_whole and value.epoch < group.epoch:
                detail = f"group {key.group_id!r} has epoch {value.epoch} behind its epoch {group.epoch}"
                yield "group-epoch-regression", detail
            group.epoch = value.epoch
        elif isinstance(key, _TARGETS_OF):
            yield from self.targeted(key.group_id, group, value)
        elif isinstance(key, _TARGETS_OF_MEMBERS):
            group.targets.pop(key.member_id, None)
            if value is not None:
                group.targets[key.member_id] = _wanted(value)
        elif isinstance(key, StreamsGroupTopologyKey):
            of = [] if value is None else value.subtopologies
            group.subtopologies = frozenset(one.subtopology_id for one in of) if of else None
        elif type(key) in _MEMBERS_OF:
            yield from self.assigned(key, group, value)

    def targeted(self, name: str, group: _Group, value: Any) -> Iterator[Told]:
        """A target assignment is made for the group as it is."""
        if value is None:
            group.target = -1
            return
        epoch = value.assignment_epoch
        if self.is_whole and epoch < group.target:
            detail = f"group {name!r} has an assignment of epoch {epoch} behind one of {group.target}"
            yield "group-epoch-regression", detail
        if self.is_whole and epoch > group.epoch >= 0:
            detail = f"group {name!r} has an assignment of epoch {epoch}, and is in epoch {group.epoch}"
            yield "bad-assignment", detail
        if self.is_whole:
            yield from _at_odds(name, group)
        group.target = epoch

    def assigned(self, key: Any, group: _Group, value: Any) -> Iterator[Told]:
        """A member gets what no other one has, unless its group shares."""
        group.owned.pop(key.member_id, None)
        if value is None:
            return
        who = f"member {key.member_id!r} of group {key.group_id!r}"
        if self.is_whole and value.member_epoch > group.epoch >= 0:
            yield "bad-assignment", f"{who} is in epoch {value.member_epoch}, and the group in {group.epoch}"
        if value.previous_member_epoch > value.member_epoch >= 0:
            before = value.previous_member_epoch
            yield "bad-assignment", f"{who} is in epoch {value.member_epoch}, and was in {before} before"
        if _MEMBERS_OF[type(key)] == "share":
            return
        owned = _owned(value)
        for other, of in group.owned.items():
            if both := owned & of:
                yield "assigned-twice", f"{who} is assigned {_named(both)}, which {other!r} has"
                break
        group.owned[key.member_id] = owned


def _at_odds(name: str, group: _Group) -> Iterator[Told]:
    """A target assignment gives each partition and each active task to one member, and no task that there is not."""
    owners: dict[tuple[str, int], str] = {}
    for member, of in group.targets.items():
        if both := of & owners.keys():
            other = owners[min(both)]
            yield "assigned-twice", f"group {name!r} is to give {_named(both)} to {member!r}, and to {other!r}"
            break
        owners |= dict.fromkeys(of, member)
    strange = {one for one in owners if group.subtopologies is not None and one[0] not in group.subtopologies}
    if strange:
        yield "bad-assignment", f"group {name!r} is to run {_named(strange)}, of which its topology has no subtopology"


def _named(those: Iterable[tuple[str, int]]) -> str:
    listed = [f"{name}-{number}" for name, number in sorted(those)]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _wanted(value: Any) -> Owned:
    """Of a target assignment the active tasks, or the partitions."""
    if hasattr(value, "active_tasks"):
        return frozenset((one.subtopology_id, number) for one in value.active_tasks for number in one.partitions)
    return frozenset((one.topic_id.hex(), number) for one in value.topic_partitions for number in one.partitions)


def _owned(value: Any) -> Owned:
    """Active tasks, or partitions; also those that are about to be revoked."""
    if hasattr(value, "active_tasks"):
        tasks = [*value.active_tasks, *value.active_tasks_pending_revocation]
        return frozenset((one.subtopology_id, number) for one in tasks for number in one.partitions)
    partitions = [*value.assigned_partitions, *value.partitions_pending_revocation]
    return frozenset((one.topic_id.hex(), number) for one in partitions for number in one.partitions)


ShareKey = tuple[str, bytes, int]


@dataclass(slots=True)
class _Share:
    """The state of a group in one partition of a topic."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int


@dataclass(slots=True)
class ShareLog:
    """One partition of `__share_group_state`."""

    is_whole: bool = True
    shares: dict[ShareKey, _Share] = field(default_factory=dict)
    ends: dict[tuple[bytes, int], tuple[int, str]] = field(default_factory=dict)
    """By topic id and partition the offset behind the last one that any group has acknowledged, and the group."""

    def add(self, key: Any, value: Any) -> Iterator[Told]:
        """The next record; what is wrong with it."""
        if not isinstance(key, ShareSnapshotKey | ShareUpdateKey):
            return
        at = key.group_id, key.topic_id, key.partition
        who = f"group {key.group_id!r} in partition {key.partition} of topic {key.topic_id.hex()}"
        if value is None:
            self.shares.pop(at, None)
            return
        before = self.shares.get(at)
        yield from (("bad-share-state", f"{who}: {what}") for what in _batches(value))
        if isinstance(value, ShareSnapshotValue):
            if before is not None:
                yield from self.compared(who, before, value)
            self.shares[at] = _Share(value.snapshot_epoch, value.state_epoch, value.leader_epoch, value.start_offset)
        elif isinstance(value, ShareUpdateValue):
            if before is None:
                if self.is_whole:
                    yield "bad-share-state", f"{who}: an update without the snapshot that it belongs to"
                return
            yield from self.updated(who, before, value)
        self.note(key, value)

    def compared(self, who: str, before: _Share, value: ShareSnapshotValue) -> Iterator[Told]:
        """A snapshot takes the place of the one before it."""
        for name in ("snapshot_epoch", "state_epoch", "leader_epoch"):
            was, now = getattr(before, name), getattr(value, name)
            if now < was:
                yield "share-epoch-regression", f"{who}: {name.replace('_', ' ')} {now} behind {was}"
        if value.state_epoch == before.state_epoch and 0 <= value.start_offset < before.start:
            yield "share-start-regression", f"{who}: it begins at offset {value.start_offset} behind {before.start}"

    def updated(self, who: str, before: _Share, value: ShareUpdateValue) -> Iterator[Told]:
        """An update belongs to the last snapshot."""
        if value.snapshot_epoch != before.snapshot_epoch and (
            self.is_whole or value.snapshot_epoch < before.snapshot_epoch
        ):
            detail = f"{who}: an update of snapshot {value.snapshot_epoch} behind snapshot {before.snapshot_epoch}"
            yield "share-epoch-regression", detail
        if 0 <= value.leader_epoch < before.leader_epoch:
            yield "share-epoch-regression", f"{who}: leader epoch {value.leader_epoch} behind {before.leader_epoch}"
        if 0 <= value.start_offset < before.start:
            yield "share-start-regression", f"{who}: it begins at offset {value.start_offset} behind {before.start}"
        before.leader_epoch = max(before.leader_epoch, value.leader_epoch)
        before.start = max(before.start, value.start_offset)

    def note(self, key: Any, value: ShareSnapshotValue | ShareUpdateValue) -> None:
        """How far the group has come."""
        reached = max([value.start_offset, *(one.last_offset + 1 for one in value.state_batches)])
        at = key.topic_id, key.partition
        if reached > self.ends.get(at, (-1, ""))[0]:
            self.ends[at] = reached, key.group_id


def _batches(value: Any) -> Iterator[str]:
    """Ranges of offsets with what has become of them; those of a snapshot do not overlap."""
    last = -1
    for one in sorted(value.state_batches, key=lambda one: one.first_offset):
        where = f"offsets {one.first_offset} to {one.last_offset}"
        if one.first_offset < 0 or one.last_offset < one.first_offset:
            yield f"{where}, which are none"
        elif one.delivery_state not in _DELIVERY_STATES or one.delivery_count < 0:
            yield f"{where} in state {one.delivery_state}, delivered {one.delivery_count} times"
        elif one.first_offset <= last:
            yield f"{where}, which overlap those before them"
        last = max(last, one.last_offset)
