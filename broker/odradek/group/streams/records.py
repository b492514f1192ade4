"""The records of streams groups in `__consumer_offsets`, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from odradek.group.modern_member import in_order, listed
from odradek.group.modern_records import ModernRecords, epochs_of, written_epochs
from odradek.group.streams.member import Endpoint, StreamsMember
from odradek.group.streams.tasks import HeldTasks, Tasks, indexes_of
from odradek.wire.messages import streams_group_member_metadata_value as metadata
from odradek.wire.messages import streams_group_target_assignment_member_value as targeted
from odradek.wire.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)

__all__ = ["RECORDS"]


class StreamsRecords(ModernRecords[StreamsMember, Tasks]):
    """Members of streams groups and their targets, in Kafka's messages."""

    protocol = "StreamsGroup"
    of_group = ("Metadata", "Topology")
    first_state = 1

    def description(self, member: StreamsMember) -> metadata.StreamsGroupMemberMetadataValue:
        endpoint = member.endpoint
        return metadata.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else metadata.Endpoint(endpoint.host, endpoint.port),
            client_tags=[metadata.KeyValue(key, value) for key, value in member.tags],
        )

    def read_description(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, metadata.StreamsGroupMemberMetadataValue), "the value of such a key"
        endpoint = value.user_endpoint
        return {
            "instance_id": value.instance_id,
            "rebalance_timeout_ms": value.rebalance_timeout_ms,
            "topology_epoch": value.topology_epoch,
            "process_id": value.process_id,
            "endpoint": None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            "tags": tuple((tag.key, tag.value) for tag in value.client_tags),
        }

    def written_target(self, target: Tasks) -> Struct:
        return targeted.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=listed(in_order(target.active), targeted.TaskIds),
            standby_tasks=listed(in_order(target.standby), targeted.TaskIds),
            warmup_tasks=listed(in_order(target.warmup), targeted.TaskIds),
        )

    def read_target(self, value: Struct) -> Tasks:
        assert isinstance(value, targeted.StreamsGroupTargetAssignmentMemberValue), "the value of such a key"
        return Tasks(indexes_of(value.active_tasks), indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks))

    def assignment(self, member: StreamsMember) -> StreamsGroupCurrentMemberAssignmentValue:
        assigned, revoking = member.assigned, member.revoking
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=self.state_of(member),
            active_tasks=written_epochs(assigned.active, TaskIds),
            standby_tasks=listed(in_order(assigned.standby), TaskIds),
            warmup_tasks=listed(in_order(assigned.warmup), TaskIds),
            active_tasks_pending_revocation=written_epochs(revoking.active, TaskIds),
            standby_tasks_pending_revocation=listed(in_order(revoking.standby), TaskIds),
            warmup_tasks_pending_revocation=listed(in_order(revoking.warmup), TaskIds),
        )

    def read_assignment(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue), "the value of such a key"
        active = _epochs(value.active_tasks, value.member_epoch)
        revoking = _epochs(value.active_tasks_pending_revocation, value.member_epoch)
        return {
            "assigned": HeldTasks(active, indexes_of(value.standby_tasks), indexes_of(value.warmup_tasks)),
            "revoking": HeldTasks(
                revoking,
                indexes_of(value.standby_tasks_pending_revocation),
                indexes_of(value.warmup_tasks_pending_revocation),
            ),
        }

    def new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)


def _epochs(tasks: Iterable[TaskIds], member_epoch: int) -> dict[str, dict[int, int]]:
    return {each.subtopology_id: epochs_of(each.partitions, each.assignment_epochs, member_epoch) for each in tasks}


RECORDS = StreamsRecords()
