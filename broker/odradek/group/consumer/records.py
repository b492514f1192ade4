"""The records of consumer groups in `__consumer_offsets`, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from odradek.group.consumer.member import ClassicMetadata, ConsumerMember, Partitions
from odradek.group.modern_member import in_order, listed
from odradek.group.modern_records import ModernRecords, epochs_of, read_partitions, written_epochs
from odradek.wire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)

__all__ = ["RECORDS"]


class ConsumerRecords(ModernRecords[ConsumerMember, Partitions]):
    """Members of consumer groups and their targets, in Kafka's messages."""

    protocol = "ConsumerGroup"
    of_group = ("PartitionMetadata", "Metadata")

    def description(self, member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
        classic = None
        if member.classic is not None:
            protocols = [ClassicProtocol(name, metadata) for name, metadata in member.classic.protocols]
            classic = ClassicMemberMetadata(member.classic.session_timeout_ms, protocols)
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

    def read_description(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, ConsumerGroupMemberMetadataValue), "the value of such a key"
        classic = None
        if value.classic_member_metadata is not None:
            metadata = value.classic_member_metadata
            protocols = tuple((each.name, each.metadata) for each in metadata.supported_protocols)
            classic = ClassicMetadata(metadata.session_timeout_ms, protocols)
        return {
            "instance_id": value.instance_id,
            "topic_names": frozenset(value.subscribed_topic_names),
            "pattern": value.subscribed_topic_regex or "",
            "rebalance_timeout_ms": value.rebalance_timeout_ms,
            "server_assignor": value.server_assignor,
            "classic": classic,
        }

    def written_target(self, target: Partitions) -> Struct:
        return ConsumerGroupTargetAssignmentMemberValue(listed(in_order(target), TopicPartition))

    def read_target(self, value: Struct) -> Partitions:
        return read_partitions(value)

    def assignment(self, member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=self.state_of(member),
            assigned_partitions=written_epochs(member.assigned, TopicPartitions),
            partitions_pending_revocation=written_epochs(member.revoking, TopicPartitions),
        )

    def read_assignment(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue), "the value of such a key"
        epoch = value.member_epoch
        return {
            "assigned": _epochs(value.assigned_partitions, epoch),
            "revoking": _epochs(value.partitions_pending_revocation, epoch),
        }

    def new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id)


def _epochs(partitions: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    return {each.topic_id: epochs_of(each.partitions, each.assignment_epochs, member_epoch) for each in partitions}


RECORDS = ConsumerRecords()
