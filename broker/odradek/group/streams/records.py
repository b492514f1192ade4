"""The records of streams groups in `__consumer_offsets`, in Kafka's formats: written, and folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.modern_records import Keys, ModernRecords, epochs_of, record, written_epochs
from odradek.group.streams.group import StreamsGroup
from odradek.group.streams.member import Endpoint, MemberState, StreamsMember
from odradek.group.streams.tasks import HeldTasks, Indexes, Tasks, indexes_of
from odradek.group.streams.topology import Topology
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

StreamsKey: TypeAlias = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
"""The kinds of record that are folded here."""


class StreamsRecords(ModernRecords[StreamsMember, Tasks]):
    """Members of streams groups and their targets, in Kafka's messages."""

    def description(self, member: StreamsMember) -> StreamsGroupMemberMetadataValue:
        """The identity of a member."""
        endpoint = None
        if member.endpoint is not None:
            endpoint = metadata.Endpoint(host=member.endpoint.host, port=member.endpoint.port)
        return StreamsGroupMemberMetadataValue(
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

    def written_target(self, target: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
        """The target of a member."""
        active, standby, warmup = (
            [
                targeted.TaskIds(subtopology_id=subtopology, partitions=sorted(indexes))
                for subtopology, indexes in sorted(tasks.items())
            ]
            for tasks in (target.active, target.standby, target.warmup)
        )
        return StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)

    def assignment(self, member: StreamsMember) -> StreamsGroupCurrentMemberAssignmentValue:
        """The partitions or tasks of a member, and its epoch."""
        assigned, revoking = member.assigned, member.revoking
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=written_epochs(assigned.active, current.TaskIds),
            standby_tasks=_without_epochs(assigned.standby),
            warmup_tasks=_without_epochs(assigned.warmup),
            active_tasks_pending_revocation=written_epochs(revoking.active, current.TaskIds),
            standby_tasks_pending_revocation=_without_epochs(revoking.standby),
            warmup_tasks_pending_revocation=_without_epochs(revoking.warmup),
        )

    def new_member(self, member_id: str) -> StreamsMember:
        """A member of which nothing but its id is known."""
        return StreamsMember(member_id)

    def described(self, known: StreamsMember, value: Struct) -> StreamsMember:
        """The member, with the identity and subscription that a record says."""
        assert isinstance(value, StreamsGroupMemberMetadataValue), "the value of such a key"
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

    def read_target(self, value: Struct) -> Tasks:
        """The target of a member, read from the value of a record."""
        assert isinstance(value, StreamsGroupTargetAssignmentMemberValue), "the value of such a key"
        return Tasks(indexes_of(value.active_tasks), indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks))

    def assigned(self, known: StreamsMember, value: Struct) -> StreamsMember:
        """Copy the member, with the tasks and the epochs from its current assignment record."""
        assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue), "the value of such a key"
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
                _epochs(value.active_tasks, epoch), indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks)
            ),
            revoking=HeldTasks(
                _epochs(value.active_tasks_pending_revocation, epoch),
                indexes_of(value.standby_tasks_pending_revocation),
                indexes_of(value.warmup_tasks_pending_revocation),
            ),
        )


def _without_epochs(tasks: Indexes) -> list[current.TaskIds]:
    return [
        current.TaskIds(subtopology_id=subtopology, partitions=sorted(indexes))
        for subtopology, indexes in sorted(tasks.items())
    ]


def _epochs(tasks: Iterable[current.TaskIds], member_epoch: int) -> dict[str, dict[int, int]]:
    return {each.subtopology_id: epochs_of(each.partitions, each.assignment_epochs, member_epoch) for each in tasks}


RECORDS = StreamsRecords(
    Keys(
        targets=StreamsGroupTargetAssignmentMetadataKey,
        member=StreamsGroupMemberMetadataKey,
        target=StreamsGroupTargetAssignmentMemberKey,
        assignment=StreamsGroupCurrentMemberAssignmentKey,
    ),
    StreamsGroupTargetAssignmentMetadataValue,
)
member_record, target_record, current_record = RECORDS.member_record, RECORDS.target_record, RECORDS.current_record
member_tombstones, assignment_epoch_record = RECORDS.member_tombstones, RECORDS.assignment_epoch_record


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> LogRecord:
    """The topology of the application."""
    return record(StreamsGroupTopologyKey(group_id=group_id), value)


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
    return record(StreamsGroupMetadataKey(group_id=group.group_id), value)


def group_tombstones(group: StreamsGroup) -> list[LogRecord]:
    """There is no such group any more."""
    group_id = group.group_id
    return [
        *RECORDS.tombstones(group_id, group.members, group.targets),
        record(StreamsGroupMetadataKey(group_id=group_id), None),
        record(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


# ---------------------------------------------------------------------- folding


def fold(group: StreamsGroup, key: StreamsKey, value: Struct | None) -> bool:
    """One record about this group; whether the group is still there after it."""
    match key, value:
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            group.description_epochs = value.stored_description_topology_epoch, value.failed_description_topology_epoch
        case StreamsGroupMetadataKey(), None:
            return False
        case StreamsGroupTopologyKey(), StreamsGroupTopologyValue():
            group.fold_topology(Topology(value))
        case StreamsGroupTopologyKey(), None:
            group.fold_topology(None)
        case _:
            RECORDS.fold(group, key, value)
    return True
