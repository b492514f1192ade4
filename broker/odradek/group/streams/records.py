"""What `__consumer_offsets` keeps of streams groups, in Kafka's formats: how it is written, and how it is folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.streams.group import StreamsGroup
from odradek.group.streams.member import Endpoint, MemberState, StreamsMember
from odradek.group.streams.tasks import Epochs, HeldTasks, Indexes, Tasks, indexes_of
from odradek.group.streams.topology import Topology
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages import streams_group_current_member_assignment_value as current
from odradek.wire.messages import streams_group_member_metadata_value as metadata
from odradek.wire.messages import streams_group_target_assignment_member_value as targeted
from odradek.wire.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from odradek.wire.messages.streams_group_current_member_assignment_value import StreamsGroupCurrentMemberAssignmentValue
from odradek.wire.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from odradek.wire.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from odradek.wire.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from odradek.wire.messages.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from odradek.wire.messages.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from odradek.wire.messages.streams_group_target_assignment_member_value import StreamsGroupTargetAssignmentMemberValue
from odradek.wire.messages.streams_group_target_assignment_metadata_key import StreamsGroupTargetAssignmentMetadataKey
from odradek.wire.messages.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from odradek.wire.messages.streams_group_topology_key import StreamsGroupTopologyKey
from odradek.wire.messages.streams_group_topology_value import StreamsGroupTopologyValue

__all__ = [
    "StreamsKey",
    "assignment_epoch_record",
    "current_record",
    "epoch_record",
    "fold",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "target_record",
    "topology_record",
]

VALUE_VERSION = 0

StreamsKey: TypeAlias = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
"""The kinds of record that are folded here."""


def _record(key: msgspec.Struct, value: msgspec.Struct | None) -> LogRecord:
    return LogRecord(encode_key(key), None if value is None else encode_value(value, VALUE_VERSION))


# ---------------------------------------------------------------------- writing


def member_record(group_id: str, member: StreamsMember) -> LogRecord:
    """Who a member is."""
    endpoint = None
    if member.endpoint is not None:
        endpoint = metadata.Endpoint(host=member.endpoint.host, port=member.endpoint.port)
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=endpoint,
        client_tags=[metadata.KeyValue(key=key, value=value) for key, value in member.tags],
    )
    return _record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> Iterator[LogRecord]:
    """A member is gone: first what it has, then what it shall have, then itself."""
    yield _record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield _record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield _record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> LogRecord:
    """What the application is."""
    return _record(StreamsGroupTopologyKey(group_id=group_id), value)


def epoch_record(
    group: StreamsGroup,
    epoch: int,
    *,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> LogRecord:
    """The group has moved on."""
    stored, failed = group.description_epochs
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=value) for key, value in assignment_configs.items()
        ],
        stored_description_topology_epoch=stored,
        failed_description_topology_epoch=failed,
    )
    return _record(StreamsGroupMetadataKey(group_id=group.group_id), value)


def target_record(group_id: str, member_id: str, target: Tasks) -> LogRecord:
    """What a member shall have."""

    def listed(tasks: Indexes) -> list[targeted.TaskIds]:
        return [
            targeted.TaskIds(subtopology_id=subtopology, partitions=sorted(indexes))
            for subtopology, indexes in sorted(tasks.items())
        ]

    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=listed(target.active), standby_tasks=listed(target.standby), warmup_tasks=listed(target.warmup)
    )
    return _record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> LogRecord:
    """All targets are those of this epoch, since then (ms)."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return _record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: StreamsMember) -> LogRecord:
    """What a member has, and in which epoch it is."""
    assigned, revoking = member.assigned, member.revoking
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=_without_epochs(revoking.standby),
        warmup_tasks_pending_revocation=_without_epochs(revoking.warmup),
    )
    return _record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def group_tombstones(group: StreamsGroup) -> list[LogRecord]:
    """There is no such group any more."""
    group_id = group.group_id
    return [
        *(
            _record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each), None)
            for each in group.members
        ),
        *(
            _record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each), None)
            for each in group.targets
        ),
        _record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(_record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each), None) for each in group.members),
        _record(StreamsGroupMetadataKey(group_id=group_id), None),
        _record(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _with_epochs(tasks: Epochs) -> list[current.TaskIds]:
    written = []
    for subtopology, epochs in sorted(tasks.items()):
        indexes = sorted(epochs)
        written.append(
            current.TaskIds(
                subtopology_id=subtopology, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes]
            )
        )
    return written


def _without_epochs(tasks: Indexes) -> list[current.TaskIds]:
    return [
        current.TaskIds(subtopology_id=subtopology, partitions=sorted(indexes))
        for subtopology, indexes in sorted(tasks.items())
    ]


# ---------------------------------------------------------------------- folding


def fold(group: StreamsGroup, key: StreamsKey, value: msgspec.Struct | None) -> bool:
    """One record about this group; whether the group is still there after it."""
    match key, value:
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            group.description_epochs = value.stored_description_topology_epoch, value.failed_description_topology_epoch
        case StreamsGroupMetadataKey(), None:
            return False
        case StreamsGroupMemberMetadataKey(), StreamsGroupMemberMetadataValue():
            known = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.fold_member(_described_member(known, value))
        case StreamsGroupMemberMetadataKey(), None:
            group.fold_no_member(key.member_id)
        case StreamsGroupTargetAssignmentMetadataKey(), StreamsGroupTargetAssignmentMetadataValue():
            group.assignment_epoch, group.assignment_timestamp = value.assignment_epoch, value.assignment_timestamp
        case StreamsGroupTargetAssignmentMetadataKey(), None:
            group.assignment_epoch, group.assignment_timestamp = 0, 0
        case StreamsGroupTargetAssignmentMemberKey(), StreamsGroupTargetAssignmentMemberValue():
            target = Tasks(
                indexes_of(value.active_tasks), indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks)
            )
            group.fold_target(key.member_id, target)
        case StreamsGroupTargetAssignmentMemberKey(), None:
            group.fold_target(key.member_id, None)
        case StreamsGroupCurrentMemberAssignmentKey(), StreamsGroupCurrentMemberAssignmentValue():
            known = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.fold_member(_assigned_member(known, value))
        case StreamsGroupCurrentMemberAssignmentKey(), None:
            group.fold_no_assignment(key.member_id)
        case StreamsGroupTopologyKey(), StreamsGroupTopologyValue():
            group.fold_topology(Topology(value))
        case StreamsGroupTopologyKey(), None:
            group.fold_topology(None)
        case _:
            raise AssertionError(f"no record of a streams group: {key}")
    return True


def _described_member(known: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        known,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=tuple((tag.key, tag.value) for tag in value.client_tags),
    )


def _assigned_member(known: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    epoch = value.member_epoch
    return replace(
        known,
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=HeldTasks(
            _epochs_of(value.active_tasks, epoch), indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks)
        ),
        revoking=HeldTasks(
            _epochs_of(value.active_tasks_pending_revocation, epoch),
            indexes_of(value.standby_tasks_pending_revocation),
            indexes_of(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs_of(tasks: Iterable[current.TaskIds], member_epoch: int) -> dict[str, dict[int, int]]:
    read = {}
    for each in tasks:
        # A tagged field that is not there is the empty list; before KIP-1251 it never was.
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        read[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=False))
    return read
