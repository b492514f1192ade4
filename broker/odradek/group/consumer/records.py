"""The records of consumer groups in `__consumer_offsets`, in Kafka's formats: written, and folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.consumer.group import ConsumerGroup, ResolvedPattern
from odradek.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Partitions,
)
from odradek.group.modern_records import Keys, ModernRecords, epochs_of, record, written_epochs
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


class ConsumerRecords(ModernRecords[ConsumerMember, Partitions]):
    """Members of consumer groups and their targets, in Kafka's messages."""

    def description(self, member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
        """The identity of a member, and its subscription."""
        classic = None
        if member.classic is not None:
            protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols]
            classic = ClassicMemberMetadata(
                session_timeout_ms=member.classic.session_timeout_ms, supported_protocols=protocols
            )
        return ConsumerGroupMemberMetadataValue(
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

    def written_target(self, target: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
        """The target of a member."""
        partitions = [
            TopicPartition(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(target.items())
        ]
        return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)

    def assignment(self, member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The partitions or tasks of a member, and its epoch."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=written_epochs(member.assigned, TopicPartitions),
            partitions_pending_revocation=written_epochs(member.revoking, TopicPartitions),
        )

    def new_member(self, member_id: str) -> ConsumerMember:
        """A member of which nothing but its id is known."""
        return ConsumerMember(member_id)

    def described(self, known: ConsumerMember, value: Struct) -> ConsumerMember:
        """The member, with the identity and subscription that a record says."""
        assert isinstance(value, ConsumerGroupMemberMetadataValue), "the value of such a key"
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

    def read_target(self, value: Struct) -> Partitions:
        """The target of a member, read from the value of a record."""
        assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue), "the value of such a key"
        return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}

    def assigned(self, known: ConsumerMember, value: Struct) -> ConsumerMember:
        """The member, with the partitions or tasks and the epoch that a record says."""
        assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue), "the value of such a key"
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        return replace(
            known,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=_epochs(value.assigned_partitions, value.member_epoch),
            revoking=_epochs(value.partitions_pending_revocation, value.member_epoch),
        )


def _epochs(partitions: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    return {each.topic_id: epochs_of(each.partitions, each.assignment_epochs, member_epoch) for each in partitions}


RECORDS = ConsumerRecords(
    Keys(
        targets=ConsumerGroupTargetAssignmentMetadataKey,
        member=ConsumerGroupMemberMetadataKey,
        target=ConsumerGroupTargetAssignmentMemberKey,
        assignment=ConsumerGroupCurrentMemberAssignmentKey,
    ),
    ConsumerGroupTargetAssignmentMetadataValue,
)
member_record, target_record, current_record = RECORDS.member_record, RECORDS.target_record, RECORDS.current_record
member_tombstones, assignment_epoch_record = RECORDS.member_tombstones, RECORDS.assignment_epoch_record


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """The group has moved on."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record(ConsumerGroupMetadataKey(group_id=group_id), value)


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> LogRecord:
    """The topics that a pattern matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def pattern_tombstone(group_id: str, pattern: str) -> LogRecord:
    """No member subscribes to this pattern any more."""
    return record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def group_tombstones(group: ConsumerGroup, replaced: Mapping[str, str] | None = None) -> list[LogRecord]:
    """There is no such group any more; `replaced` has the ids under which records already name other members."""
    group_id, names = group.group_id, replaced or {}
    members = [names.get(member_id, member_id) for member_id in group.members]
    targets = [names.get(member_id, member_id) for member_id in group.targets]
    return [
        *RECORDS.tombstones(group_id, members, targets),
        *(pattern_tombstone(group_id, pattern) for pattern in group.patterns),
        record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None),
        record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


# ---------------------------------------------------------------------- folding


def fold(group: ConsumerGroup, key: ConsumerKey, value: Struct | None) -> bool:
    """One record about this group; whether the group is still there after it."""
    match key, value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ConsumerGroupMetadataKey(), None:
            return False
        case ConsumerGroupPartitionMetadataKey(), _:
            group.has_partition_metadata = isinstance(value, ConsumerGroupPartitionMetadataValue)
        case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
            resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
            group.fold_pattern(key.regular_expression, resolved)
        case ConsumerGroupRegularExpressionKey(), None:
            group.fold_pattern(key.regular_expression, None)
        case _:
            RECORDS.fold(group, key, value)
    return True
