"""AlterPartition: a leader proposes the in-sync replicas (KIP-497; Kafka's `ReplicationControlManager`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.metadata.change import Change
from odradek.metadata.elections import ElectionRules, changed
from odradek.metadata.image import MetadataImage, PartitionImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_partition_response as told
from odradek.wire.messages.alter_partition_response import AlterPartitionResponse

if TYPE_CHECKING:
    from odradek.wire.messages.alter_partition_request import AlterPartitionRequest, PartitionData

__all__ = ["alter_partitions"]


def alter_partitions(
    request: AlterPartitionRequest, image: MetadataImage, rules: ElectionRules
) -> Change[AlterPartitionResponse]:
    """Each partition is accepted or refused on its own; the answer has its new state."""
    change: Change[AlterPartitionResponse] = Change(AlterPartitionResponse())
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        change.reply.error_code = ErrorCode.STALE_BROKER_EPOCH
        return change
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id)
        answer = told.TopicData(topic_id=asked.topic_id)
        change.reply.topics.append(answer)
        for wanted in asked.partitions:
            partition = None if topic is None else topic.partitions.get(wanted.partition_index)
            if topic is None or partition is None:
                error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.partitions.append(told.PartitionData(partition_index=wanted.partition_index, error_code=error))
                continue
            error = _refused(request.broker_id, wanted, partition, image)
            if error is not ErrorCode.NONE:
                answer.partitions.append(told.PartitionData(partition_index=wanted.partition_index, error_code=error))
                continue
            isr = [each.broker_id for each in wanted.new_isr_with_epochs]
            record = changed(topic, partition, image, rules, isr=isr)
            if record is not None:
                change.records.append(record)
            answer.partitions.append(
                told.PartitionData(
                    partition_index=wanted.partition_index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=isr,
                    partition_epoch=partition.partition_epoch + (record is not None),
                )
            )
    return change


def _refused(leader: int, wanted: PartitionData, partition: PartitionImage, image: MetadataImage) -> ErrorCode:
    """The error for this ISR, with the checks in Kafka's order."""
    if partition.leader != leader:
        return ErrorCode.NOT_CONTROLLER if wanted.leader_epoch > partition.leader_epoch else ErrorCode.INVALID_REQUEST
    if wanted.leader_epoch != partition.leader_epoch:
        newer = wanted.leader_epoch > partition.leader_epoch
        return ErrorCode.NOT_CONTROLLER if newer else ErrorCode.FENCED_LEADER_EPOCH
    if wanted.partition_epoch != partition.partition_epoch:
        newer = wanted.partition_epoch > partition.partition_epoch
        return ErrorCode.NOT_CONTROLLER if newer else ErrorCode.INVALID_UPDATE_VERSION
    isr = [each.broker_id for each in wanted.new_isr_with_epochs]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or leader not in isr:
        return ErrorCode.INVALID_REQUEST
    for each in wanted.new_isr_with_epochs:
        broker = image.brokers.get(each.broker_id)
        if broker is None or broker.fenced or each.broker_epoch not in (-1, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
