"""APIs for the log of a partition: ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed_on_each, on_cluster_or
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.log.answers import ISOLATION_LEVELS, READ_COMMITTED
from odradek.log.offsets import LATEST, UNKNOWN
from odradek.metadata.topic_names import invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import DELETE_RECORDS, DESCRIBE_PRODUCERS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from odradek.wire.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.wire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from odradek.data.about_to_read import AboutToRead
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.offsets import OffsetAnswer
    from odradek.log.partition import Partition
    from odradek.wire.messages.delete_records_request import DeleteRecordsRequest
    from odradek.wire.messages.describe_producers_request import DescribeProducersRequest
    from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
    from odradek.wire.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

__all__ = ["LogOffsetsApi"]


TOPIC = AclResource.TOPIC
TOLD = 0
"""The count of a partition that was answered: one that is named twice is refused once."""
CONSUMER = -1
ANY_REPLICA = -2
"""In place of a replica id: the client is a consumer, or asks for this broker's own replica."""
UNKNOWN_TOPIC = "This server does not host this topic-partition."
LATEST_SPECIAL = -6
NOT_AVAILABLE_SINCE = 5
"""The first version of ListOffsets that knows OFFSET_NOT_AVAILABLE."""
SPECIAL_TIMESTAMP_SINCE = {-3: 7, -4: 8, -5: 9, -6: 11}
"""Special timestamps and the ListOffsets version that brought them (KIP-734, KIP-405, KIP-1005, KIP-1023)."""


class LogOffsetsApi:
    """ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

    def __init__(self, node: Host, replicas: Replicas, about_to_read: AboutToRead) -> None:
        self._replicas = replicas
        self._replication = replicas.replication
        self._metadata = node.metadata
        self._clock = node.clock
        self._turns = node.turns
        self._settings = node.settings
        self._about_to_read = about_to_read

    @endpoint(
        LIST_OFFSETS,
        needs=allowed_on_each(
            AclOperation.DESCRIBE,
            TOPIC,
            asked=lambda request: request.topics,
            answered=lambda response: response.topics,
            name=lambda topic: topic.name,
        ),
        in_parts=True,
    )
    async def list_offsets(self, call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
        """ListOffsets (key 2), versions 0 to 11: the offset of a timestamp, or of a special one, per partition."""
        request = call.request
        if request.isolation_level not in ISOLATION_LEVELS:
            return _of_no_isolation(request)
        asked = Counter(
            (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
        )
        answered: dict[str, list[ListOffsetsPartitionResponse]] = {}
        async for each in self._turns.share(call, request.topics):
            for topic in each:
                answers = answered.setdefault(topic.name, [])
                async for some in self._turns.share(call, topic.partitions):
                    for wanted in some:
                        times = asked[topic.name, wanted.partition_index]
                        if times == 1:
                            answers.append(self._list_offset(topic.name, wanted, request, call.version))
                        elif times > 1:
                            asked[topic.name, wanted.partition_index] = TOLD
                            answers.append(_no_offset(wanted.partition_index, ErrorCode.INVALID_REQUEST))
        if self._is_about_to_read(request):
            told = ((name, each) for name, answers in answered.items() for each in answers)
            self._about_to_read.listed(
                call.conn, ((name, each.partition_index) for name, each in told if each.error_code == ErrorCode.NONE)
            )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=name, partitions=found) for name, found in answered.items() if found]
        )

    def _is_about_to_read(self, request: ListOffsetsRequest | OffsetForLeaderEpochRequest) -> bool:
        return request.replica_id == CONSUMER and self._settings.config.odradek_fetch_yields

    def _list_offset(
        self, topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        index = wanted.partition_index
        if version > 0 and _is_unknown(wanted.timestamp, version):
            return _no_offset(index, ErrorCode.UNSUPPORTED_VERSION)
        if request.replica_id == ANY_REPLICA and version > 0:
            return self._list_offset_of_replica(topic, wanted, version)
        partition = self._replicas.led_in(topic, index, wanted.current_leader_epoch)
        if isinstance(partition, Refused):
            return _no_offset(index, partition.error)
        if version == 0:
            return _old_style(partition, wanted)
        # Only consumers are kept from undecided records.
        read_committed = request.replica_id == CONSUMER and request.isolation_level == READ_COMMITTED
        found = partition.list_offset(wanted.timestamp, read_committed=read_committed)
        if partition.is_new and (found is UNKNOWN or wanted.timestamp == LATEST):
            # A new leader learns from the other replicas how far they are; until then its end might go back (KIP-207).
            known = version >= NOT_AVAILABLE_SINCE
            return _no_offset(index, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)
        return _found(index, found, version)

    def _list_offset_of_replica(
        self, topic: str, wanted: ListOffsetsPartition, version: int
    ) -> ListOffsetsPartitionResponse:
        """The state of this broker's own replica, for tools that compare replicas."""
        index = wanted.partition_index
        replica = self._replicas.held(topic, index)
        if isinstance(replica, Refused):
            return _no_offset(index, replica.error)
        error = replica.check_leader_epoch(wanted.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return _no_offset(index, error)
        return _found(index, replica.list_offset(wanted.timestamp), version)

    @endpoint(
        OFFSET_FOR_LEADER_EPOCH,
        needs=on_cluster_or(
            AclOperation.CLUSTER_ACTION,
            allowed_on_each(
                AclOperation.DESCRIBE,
                TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.topics,
                name=lambda topic: topic.topic,
            ),
        ),
        in_parts=True,
    )
    async def offset_for_leader_epoch(self, call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
        """OffsetForLeaderEpoch (key 23), versions 0 to 4: where a leader epoch ends (KIP-101, KIP-279, KIP-320)."""
        request = call.request
        response = OffsetForLeaderEpochResponse()
        async for topics in self._turns.share(call, request.topics):
            for topic in topics:
                result = OffsetForLeaderTopicResult(topic=topic.topic)
                async for some in self._turns.share(call, topic.partitions):
                    result.partitions += [self._epoch_end(topic.topic, wanted) for wanted in some]
                response.topics.append(result)
        if self._is_about_to_read(request):
            ends = ((result.topic, each) for result in response.topics for each in result.partitions)
            self._about_to_read.listed(
                call.conn, ((topic, each.partition) for topic, each in ends if each.error_code == ErrorCode.NONE)
            )
        return response

    def _epoch_end(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._replicas.led_in(topic, wanted.partition, wanted.current_leader_epoch)
        if isinstance(partition, Refused):
            return EpochEndOffset(partition=wanted.partition, error_code=partition.error)
        end = partition.end_offset_for_epoch(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)

    @endpoint(
        DELETE_RECORDS,
        left_out="the low watermark where it waits for too long",
        needs=allowed_on_each(
            AclOperation.DELETE,
            TOPIC,
            asked=lambda request: request.topics,
            answered=lambda response: response.topics,
            name=lambda topic: topic.name,
        ),
        in_parts=True,
    )
    async def delete_records(self, call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
        """DeleteRecords (key 21), versions 0 to 2: moves the log start offset; -1 is the high watermark.

        It is answered when the other replicas begin there too, or after `timeout_ms` with REQUEST_TIMED_OUT.
        """
        request = call.request
        deadline = self._clock.now + request.timeout_ms
        # The last offset of a partition that is named twice: Kafka keeps them in a map.
        offsets: dict[str, dict[int, int]] = {}
        for topic in request.topics:
            last = offsets.setdefault(topic.name, {})
            last.update({each.partition_index: each.offset for each in topic.partitions})
        topics = []
        waiting: list[tuple[Partition, DeleteRecordsPartitionResult, int]] = []
        for name, wanted in offsets.items():
            results: list[DeleteRecordsPartitionResult] = []
            async for some in self._turns.share(call, list(wanted.items())):
                for index, offset in some:
                    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
                    partition = self._delete_before(name, index, offset)
                    if isinstance(partition, Refused):
                        result.error_code = partition.error
                    elif partition.log.mark is None:
                        result.low_watermark = partition.log_start_offset
                    else:
                        waiting.append((partition, result, self._clock.now))
                    results.append(result)
            if results:
                topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
        for partition, result, since in waiting:
            result.error_code = await self._replication.begun(partition, since=since, deadline=deadline)
            if result.error_code == ErrorCode.NONE:
                result.low_watermark = partition.log_start_offset
        return DeleteRecordsResponse(topics=topics)

    def _delete_before(self, topic: str, index: int, offset: int) -> Partition | Refused:
        """Move the log start offset of a partition here, or say why not."""
        if topic in INTERNAL_TOPICS:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = self._replicas.led(topic, index)
        if isinstance(partition, Refused):
            return partition
        deleted = partition.delete_records(offset)
        if isinstance(deleted, Refused):
            return deleted
        self._replicas.appended(partition)
        return partition

    @endpoint(
        DESCRIBE_PRODUCERS,
        needs=allowed_on_each(
            AclOperation.READ,
            TOPIC,
            asked=lambda request: request.topics,
            answered=lambda response: response.topics,
            name=lambda topic: topic.name,
            tells=True,
        ),
        in_parts=True,
    )
    async def describe_producers(self, call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
        """DescribeProducers (key 61), version 0: the producers of a partition and their open transactions (KIP-664).

        Every broker that has a replica answers: `kafka-transactions find-hanging --broker-id` asks followers too.
        """
        request = call.request
        response = DescribeProducersResponse()
        async for topics in self._turns.share(call, request.topics):
            for topic in topics:
                told = TopicResponse(name=topic.name)
                async for some in self._turns.share(call, topic.partition_indexes):
                    told.partitions += [self._producers(topic.name, index) for index in some]
                response.topics.append(told)
        return response

    def _producers(self, topic: str, index: int) -> PartitionResponse:
        reason = invalid_name(topic)
        if reason is not None:
            return PartitionResponse(
                partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=reason
            )
        partition = self._replicas.held(topic, index)
        if isinstance(partition, Refused):
            told = UNKNOWN_TOPIC if self._metadata.image.topic(topic) is None else None
            return PartitionResponse(partition_index=index, error_code=partition.error, error_message=told)
        return PartitionResponse(
            partition_index=index,
            active_producers=[
                ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.current_txn_start_offset,
                )
                for producer in partition.describe_producers()
            ],
        )


def _of_no_isolation(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Refuse a whole request with an unknown isolation level, as Kafka does."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_no_offset(each.partition_index, error) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _is_unknown(timestamp: int, version: int) -> bool:
    """Whether this version does not have the special timestamp."""
    return timestamp < LATEST_SPECIAL or SPECIAL_TIMESTAMP_SINCE.get(timestamp, 0) > version


def _found(index: int, found: OffsetAnswer, version: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= 4 else -1,
    )


def _old_style(partition: Partition, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    """Version 0 asks for up to N offsets at which segments begin, newest first."""
    offsets = partition.offsets_before(wanted.timestamp)[: max(0, wanted.max_num_offsets)]
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, old_style_offsets=offsets)


def _no_offset(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error, timestamp=-1, offset=-1)
