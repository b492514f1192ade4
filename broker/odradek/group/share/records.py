"""What `__consumer_offsets` keeps of share groups, in Kafka's formats: how it is written, and how it is folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.consumer.member import NO_PARTITIONS, Partitions
from odradek.group.share.group import KnownTopic, ShareGroup, ShareMember, StatePartitions
from odradek.records.state import encode_key, encode_value
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

VALUE_VERSION = 0
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


def _record(key: msgspec.Struct, value: msgspec.Struct | None) -> LogRecord:
    return LogRecord(encode_key(key), None if value is None else encode_value(value, VALUE_VERSION))


# ---------------------------------------------------------------------- writing


def member_record(group_id: str, member: ShareMember) -> LogRecord:
    """Who a member is, and what it subscribes to."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    return _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> Iterator[LogRecord]:
    """A member is gone: first what it has, then what it shall have, then itself."""
    yield _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """The group has moved on."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ShareGroupMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> LogRecord:
    """What a member shall have."""
    partitions = [
        TopicPartition(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in sorted(target.items())
    ]
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, ShareGroupTargetAssignmentMemberValue(topic_partitions=partitions))


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> LogRecord:
    """All targets are those of this epoch, since then (ms)."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ShareMember) -> LogRecord:
    """What a member has, and in which epoch it is."""
    assigned = [
        TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in member.assigned.items()
    ]
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=assigned,
    )
    return _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def states_record(group_id: str, states: StatePartitions) -> LogRecord:
    """Which share partitions the share coordinator knows of, is to know of, and is to forget."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_known(states.initializing),
        initialized_topics=_known(states.initialized),
        deleting_topics=[TopicInfo(topic_id=key, topic_name=name) for key, name in sorted(states.deleting.items())],
    )
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _known(topics: Mapping[bytes, KnownTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=known.name, partitions=sorted(known.partitions))
        for topic_id, known in sorted(topics.items())
    ]


def group_tombstones(group: ShareGroup) -> list[LogRecord]:
    """There is no such group any more; it has no members."""
    group_id = group.group_id
    targets = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
    return [
        _record(targets, None),
        _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        _record(ShareGroupMetadataKey(group_id=group_id), None),
    ]


# ---------------------------------------------------------------------- folding


def fold(group: ShareGroup, key: ShareKey, value: msgspec.Struct | None) -> bool:
    """Change the group as a record says; False when it is the group that is gone."""
    match key, value:
        case ShareGroupMetadataKey(), ShareGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        case ShareGroupMetadataKey(), None:
            return False
        case ShareGroupMemberMetadataKey(), ShareGroupMemberMetadataValue():
            known = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = replace(
                known,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
            )
        case ShareGroupMemberMetadataKey(), None:
            group.members.pop(key.member_id, None)
            group.times.drop(key.member_id)
        case ShareGroupTargetAssignmentMetadataKey(), ShareGroupTargetAssignmentMetadataValue():
            group.assignment_epoch, group.assignment_timestamp = value.assignment_epoch, value.assignment_timestamp
        case ShareGroupTargetAssignmentMetadataKey(), None:
            group.assignment_epoch, group.assignment_timestamp = 0, 0
        case ShareGroupTargetAssignmentMemberKey(), ShareGroupTargetAssignmentMemberValue():
            group.targets[key.member_id] = {
                each.topic_id: frozenset(each.partitions) for each in value.topic_partitions
            }
        case ShareGroupTargetAssignmentMemberKey(), None:
            group.targets.pop(key.member_id, None)
        case ShareGroupCurrentMemberAssignmentKey(), ShareGroupCurrentMemberAssignmentValue():
            known = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = replace(
                known,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned={each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
            )
        case ShareGroupCurrentMemberAssignmentKey(), None:
            gone = group.members.get(key.member_id)
            if gone is not None:
                group.members[key.member_id] = replace(gone, epoch=-1, previous_epoch=-1, assigned=NO_PARTITIONS)
        case ShareGroupStatePartitionMetadataKey(), ShareGroupStatePartitionMetadataValue():
            group.states = StatePartitions(
                _read(value.initializing_topics),
                _read(value.initialized_topics),
                {each.topic_id: each.topic_name for each in value.deleting_topics},
            )
        case ShareGroupStatePartitionMetadataKey(), None:
            group.states = None
        case _:
            raise AssertionError(f"no record of a share group: {key}")
    return True


def _read(topics: list[TopicPartitionsInfo]) -> dict[bytes, KnownTopic]:
    return {each.topic_id: KnownTopic(each.topic_name, frozenset(each.partitions)) for each in topics}
