"""AlterPartition requests of a leader: the in-sync replicas, for the controller to record (KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.wire.error_maps import error_of
from odradek.wire.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_partition_response import AlterPartitionResponse

__all__ = ["alter_partition_request", "isr_results"]


def alter_partition_request(
    image: MetadataImage, node_id: int, proposed: list[tuple[Partition, list[int]]]
) -> AlterPartitionRequest:
    """One request for all partitions; each entry names the state that the leader knows."""
    brokers = image.brokers
    topics: dict[bytes, TopicData] = {}
    for partition, isr in proposed:
        registered = image.partition(partition.topic, partition.index)
        if registered is None:
            continue
        topic = topics.setdefault(partition.topic_id, TopicData(topic_id=partition.topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=partition.index,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=each, broker_epoch=brokers[each].epoch) for each in isr if each in brokers
                ],
                partition_epoch=registered.partition_epoch,
            )
        )
    own = brokers.get(node_id)
    return AlterPartitionRequest(
        broker_id=node_id, broker_epoch=-1 if own is None else own.epoch, topics=list(topics.values())
    )


def isr_results(response: AlterPartitionResponse) -> dict[tuple[bytes, int], ErrorCode]:
    """The controller's result for each partition in its response."""
    if response.error_code:
        return {}
    return {
        (topic.topic_id, partition.partition_index): error_of(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }
