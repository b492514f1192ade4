"""What `__consumer_offsets` keeps of consumer groups, in Kafka's formats: how it is written, and how it is folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.consumer.group import ConsumerGroup, ResolvedPattern
from odradek.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    EpochsOfPartitions,
    MemberState,
    Partitions,
)
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from odradek.wire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from odradek.wire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from odradek.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from odradek.wire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from odradek.wire.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from odradek.wire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from odradek.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from odradek.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from odradek.wire.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from odradek.wire.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from odradek.wire.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

__all__ = [
    "ConsumerKey",
    "assignment_epoch_record",
    "current_record",
    "epoch_record",
    "fold",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "pattern_record",
    "pattern_tombstone",
    "target_record",
]

VALUE_VERSION = 0

ConsumerKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
"""The kinds of record that are folded here."""


def _record(key: msgspec.Struct, value: msgspec.Struct | None) -> LogRecord:
    return LogRecord(encode_key(key), None if value is None else encode_value(value, VALUE_VERSION))


# ---------------------------------------------------------------------- writing


def member_record(group_id: str, member: ConsumerMember) -> LogRecord:
    """Who a member is, and what it subscribes to."""
    classic = None
    if member.classic is not None:
        protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols]
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms, supported_protocols=protocols
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> Iterator[LogRecord]:
    """A member is gone: first what it has, then what it shall have, then itself."""
    yield _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """The group has moved on."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> LogRecord:
    """What a member shall have."""
    partitions = [
        TopicPartition(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in sorted(target.items())
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions))


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> LogRecord:
    """All targets are those of this epoch, since then (ms)."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> LogRecord:
    """What a member has, and in which epoch it is."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> LogRecord:
    """The topics that a pattern matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def pattern_tombstone(group_id: str, pattern: str) -> LogRecord:
    """Nobody subscribes to this pattern any more."""
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def group_tombstones(group: ConsumerGroup, replaced: Mapping[str, str] | None = None) -> list[LogRecord]:
    """There is no such group any more; `replaced` has the ids under which records already name other members."""
    group_id, names = group.group_id, replaced or {}
    members = [names.get(member_id, member_id) for member_id in group.members]
    targets = [names.get(member_id, member_id) for member_id in group.targets]
    return [
        *(
            _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each), None)
            for each in members
        ),
        *(_record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each), None) for each in targets),
        _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(_record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each), None) for each in members),
        *(pattern_tombstone(group_id, pattern) for pattern in group.patterns),
        _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None),
        _record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _with_epochs(partitions: EpochsOfPartitions) -> list[TopicPartitions]:
    written = []
    for topic_id, epochs in sorted(partitions.items()):
        indexes = sorted(epochs)
        written.append(
            TopicPartitions(
                topic_id=topic_id, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes]
            )
        )
    return written


# ---------------------------------------------------------------------- folding


def fold(group: ConsumerGroup, key: ConsumerKey, value: msgspec.Struct | None) -> bool:
    """One record about this group; whether the group is still there after it."""
    match key, value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ConsumerGroupMetadataKey(), None:
            return False
        case ConsumerGroupPartitionMetadataKey(), _:
            group.has_partition_metadata = isinstance(value, ConsumerGroupPartitionMetadataValue)
        case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
            known = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.fold_member(_described_member(known, value))
        case ConsumerGroupMemberMetadataKey(), None:
            group.fold_no_member(key.member_id)
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
            group.assignment_epoch, group.assignment_timestamp = value.assignment_epoch, value.assignment_timestamp
        case ConsumerGroupTargetAssignmentMetadataKey(), None:
            group.assignment_epoch, group.assignment_timestamp = 0, 0
        case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
            target = {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
            group.fold_target(key.member_id, target)
        case ConsumerGroupTargetAssignmentMemberKey(), None:
            group.fold_target(key.member_id, None)
        case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
            known = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.fold_member(_assigned_member(known, value))
        case ConsumerGroupCurrentMemberAssignmentKey(), None:
            group.fold_no_assignment(key.member_id)
        case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
            resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
            group.fold_pattern(key.regular_expression, resolved)
        case ConsumerGroupRegularExpressionKey(), None:
            group.fold_pattern(key.regular_expression, None)
        case _:
            raise AssertionError(f"no record of a consumer group: {key}")
    return True


def _described_member(known: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = None
    if value.classic_member_metadata is not None:
        metadata = value.classic_member_metadata
        protocols = tuple((each.name, each.metadata) for each in metadata.supported_protocols)
        classic = ClassicMetadata(metadata.session_timeout_ms, protocols)
    return replace(
        known,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        pattern=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=classic,
    )


def _assigned_member(known: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return replace(
        known,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=_epochs_of(value.assigned_partitions, value.member_epoch),
        revoking=_epochs_of(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs_of(partitions: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    read = {}
    for each in partitions:
        # A tagged field that is not there is the empty list; before KIP-1251 it never was.
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        read[each.topic_id] = dict(zip(each.partitions, epochs, strict=False))
    return read
