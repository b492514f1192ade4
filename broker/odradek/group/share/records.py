"""Records of share groups in `__consumer_offsets`, in Kafka's formats: how they are written and folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.consumer.member import Partitions
from odradek.group.modern_records import Keys, ModernRecords, record
from odradek.group.share.group import KnownTopic, ShareGroup, ShareMember, StatePartitions
from odradek.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from odradek.wire.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from odradek.wire.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from odradek.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from odradek.wire.messages.share_group_metadata_value import ShareGroupMetadataValue
from odradek.wire.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from odradek.wire.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from odradek.wire.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from odradek.wire.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from odradek.wire.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from odradek.wire.messages.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue

__all__ = [
    "ShareKey",
    "assignment_epoch_record",
    "current_record",
    "epoch_record",
    "fold",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "states_record",
    "target_record",
]

STABLE = 0

ShareKey: TypeAlias = (
    ShareGroupMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
"""The kinds of record that are folded here."""


class ShareRecords(ModernRecords[ShareMember, Partitions]):
    """Members of share groups and their targets, in Kafka's messages."""

    def description(self, member: ShareMember) -> ShareGroupMemberMetadataValue:
        """The record of a member's client and subscriptions."""
        return ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
        )

    def written_target(self, target: Partitions) -> ShareGroupTargetAssignmentMemberValue:
        """The record of a member's target."""
        partitions = [
            TopicPartition(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(target.items())
        ]
        return ShareGroupTargetAssignmentMemberValue(topic_partitions=partitions)

    def assignment(self, member: ShareMember) -> ShareGroupCurrentMemberAssignmentValue:
        """The record of a member's assignment and epoch."""
        assigned = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in member.assigned.items()
        ]
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=assigned,
        )

    def new_member(self, member_id: str) -> ShareMember:
        """A member with an id and no other data."""
        return ShareMember(member_id)

    def described(self, known: ShareMember, value: Struct) -> ShareMember:
        """The member with the client and subscriptions of a record."""
        assert isinstance(value, ShareGroupMemberMetadataValue), "the value of such a key"
        return replace(
            known,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def read_target(self, value: Struct) -> Partitions:
        """The target in a record."""
        assert isinstance(value, ShareGroupTargetAssignmentMemberValue), "the value of such a key"
        return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}

    def assigned(self, known: ShareMember, value: Struct) -> ShareMember:
        """The member with the assignment of a record."""
        assert isinstance(value, ShareGroupCurrentMemberAssignmentValue), "the value of such a key"
        return replace(
            known,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
        )


RECORDS = ShareRecords(
    Keys(
        targets=ShareGroupTargetAssignmentMetadataKey,
        member=ShareGroupMemberMetadataKey,
        target=ShareGroupTargetAssignmentMemberKey,
        assignment=ShareGroupCurrentMemberAssignmentKey,
    ),
    ShareGroupTargetAssignmentMetadataValue,
)
member_record, target_record, current_record = RECORDS.member_record, RECORDS.target_record, RECORDS.current_record
member_tombstones, assignment_epoch_record = RECORDS.member_tombstones, RECORDS.assignment_epoch_record


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """The record of a new group epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record(ShareGroupMetadataKey(group_id=group_id), value)


def states_record(group_id: str, states: StatePartitions) -> LogRecord:
    """The record of the share partitions that are initialized, to be initialized, and to be deleted."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_known(states.initializing),
        initialized_topics=_known(states.initialized),
        deleting_topics=[TopicInfo(topic_id=key, topic_name=name) for key, name in sorted(states.deleting.items())],
    )
    return record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _known(topics: Mapping[bytes, KnownTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=known.name, partitions=sorted(known.partitions))
        for topic_id, known in sorted(topics.items())
    ]


def group_tombstones(group: ShareGroup) -> list[LogRecord]:
    """The tombstones of a group without members."""
    group_id = group.group_id
    return [
        record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        record(ShareGroupMetadataKey(group_id=group_id), None),
    ]


# ---------------------------------------------------------------------- folding


def fold(group: ShareGroup, key: ShareKey, value: Struct | None) -> bool:
    """Fold one record of this group; True if the group still exists after it."""
    match key, value:
        case ShareGroupMetadataKey(), ShareGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ShareGroupMetadataKey(), None:
            return False
        case ShareGroupStatePartitionMetadataKey(), ShareGroupStatePartitionMetadataValue():
            group.states = StatePartitions(
                _read(value.initializing_topics),
                _read(value.initialized_topics),
                {each.topic_id: each.topic_name for each in value.deleting_topics},
            )
        case ShareGroupStatePartitionMetadataKey(), None:
            group.states = None
        case _:
            RECORDS.fold(group, key, value)
    return True


def _read(topics: list[TopicPartitionsInfo]) -> dict[bytes, KnownTopic]:
    return {each.topic_id: KnownTopic(each.topic_name, frozenset(each.partitions)) for each in topics}
