"""Records of share groups in `__consumer_offsets`, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.group.consumer.member import Partitions
from odradek.group.modern_member import MemberState, in_order, listed
from odradek.group.modern_records import ModernRecords, read_partitions
from odradek.group.share.member import KnownTopic, ShareMember, StatePartitions
from odradek.wire.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from odradek.wire.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from odradek.wire.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)

__all__ = ["RECORDS"]


class ShareRecords(ModernRecords[ShareMember, Partitions]):
    """Members of share groups, their targets, and the share partitions that the share coordinator has to know."""

    protocol = "ShareGroup"
    of_group = ("StatePartitionMetadata", "Metadata")

    def description(self, member: ShareMember) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
        )

    def read_description(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, ShareGroupMemberMetadataValue), "the value of such a key"
        return {"topic_names": frozenset(value.subscribed_topic_names)}

    def written_target(self, target: Partitions) -> Struct:
        return ShareGroupTargetAssignmentMemberValue(listed(in_order(target), TopicPartition))

    def read_target(self, value: Struct) -> Partitions:
        return read_partitions(value)

    def assignment(self, member: ShareMember) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=self.state_of(member),
            assigned_partitions=listed(member.assigned, TopicPartitions),
        )

    def read_assignment(self, value: Struct) -> dict[str, object]:
        assert isinstance(value, ShareGroupCurrentMemberAssignmentValue), "the value of such a key"
        assigned = {each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions}
        return {"assigned": assigned, "state": MemberState.STABLE}

    def new_member(self, member_id: str) -> ShareMember:
        return ShareMember(member_id)

    def states_record(self, group_id: str, states: StatePartitions) -> LogRecord:
        """The record of the share partitions that are initialized, to be initialized, and to be deleted."""
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=_known(states.initializing),
            initialized_topics=_known(states.initialized),
            deleting_topics=[TopicInfo(topic_id, name) for topic_id, name in sorted(states.deleting.items())],
        )
        return self.record("StatePartitionMetadata", value, group_id)

    def read_states(self, value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
        """The share partitions of a record."""
        deleting = {each.topic_id: each.topic_name for each in value.deleting_topics}
        return StatePartitions(_read(value.initializing_topics), _read(value.initialized_topics), deleting)


def _known(topics: Mapping[bytes, KnownTopic]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id, known.name, sorted(known.partitions))
        for topic_id, known in sorted(topics.items())
    ]


def _read(topics: list[TopicPartitionsInfo]) -> dict[bytes, KnownTopic]:
    return {each.topic_id: KnownTopic(each.topic_name, frozenset(each.partitions)) for each in topics}


RECORDS = ShareRecords()
