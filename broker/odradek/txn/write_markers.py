"""WriteTxnMarkers (key 27), versions 1 and 2: a coordinator, or an administrator, ends transactions in partitions.

Version 2 has the transaction version, which decides how the marker's epoch is judged (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import WRITE_TXN_MARKERS
from odradek.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.coordinators import Coordinators
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.works import WriteMarkers
    from odradek.wire.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest

__all__ = ["MarkerApi"]

NOBODY = -1
"""The missing producer id and epoch; a valid marker has both."""

WRITTEN_AT_ONCE = 100
"""Number of markers that are written between two turns."""

Results = dict[int, dict[str, dict[int, ErrorCode]]]
"""The results of markers, by producer id, topic and partition."""


class Unacknowledged(Struct, frozen=True):
    """A marker in the log that the replicas in sync have not acknowledged yet."""

    partition: Partition
    end_offset: int


class MarkerApi:
    """WriteTxnMarkers, and the same for the transaction coordinators on this broker, without a message."""

    def __init__(self, node: Host, replicas: Replicas, coordinators: Coordinators) -> None:
        self._node_id = node.node_id
        self._replicas = replicas
        self._replication = replicas.replication
        self._coordinators = coordinators
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns
        self._counters = node.counters

    @endpoint(WRITE_TXN_MARKERS, needs=allowed_on_cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION))
    async def write_txn_markers(self, call: Call[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
        """WriteTxnMarkers (key 27): each marker to each of its partitions; the response groups by producer id."""
        request = call.request
        results: Results = {}
        uncommitted: list[tuple[dict[int, ErrorCode], Unacknowledged]] = []
        count = 0
        for marker in request.markers:
            if NOBODY in (marker.producer_id, marker.producer_epoch) and self._writes_any(marker):
                return _all_failed(request)
            named: dict[tuple[str, int], None] = {}
            for topic in marker.topics:
                if not topic.partition_indexes:
                    continue
                written = results.setdefault(marker.producer_id, {}).setdefault(topic.name, {})
                for index in topic.partition_indexes:
                    if (topic.name, index) in named:
                        # It gets one marker, as in Kafka; which never answers then.
                        continue
                    named[topic.name, index] = None
                    outcome = self._write(marker, marker.transaction_result, topic.name, index)
                    if isinstance(outcome, Unacknowledged):
                        uncommitted.append((written, outcome))
                        outcome = ErrorCode.NONE
                    written[index] = outcome
                    count += 1
                    if not count % WRITTEN_AT_ONCE:
                        await self._turns.breathe(call)
        deadline = self._clock.now + self._settings.config.request_timeout_ms
        for written, marked in uncommitted:
            written[marked.partition.index] = await self._committed(marked, deadline)
        return _response(results)

    async def write(self, work: WriteMarkers) -> dict[TopicPartition, ErrorCode]:
        """Write the markers that a coordinator on this broker owes to partitions of this broker; the result of each."""
        results: dict[TopicPartition, ErrorCode] = {}
        uncommitted: list[Unacknowledged] = []
        for count, (topic, index) in enumerate(work.partitions, start=1):
            outcome = self._write(work, work.commit, topic, index)
            if isinstance(outcome, Unacknowledged):
                uncommitted.append(outcome)
                outcome = ErrorCode.NONE
            results[topic, index] = outcome
            if not count % WRITTEN_AT_ONCE:
                await self._turns.breathe_behind()
        deadline = self._clock.now + self._settings.config.request_timeout_ms
        for marked in uncommitted:
            results[marked.partition.key] = await self._committed(marked, deadline)
        return results

    async def _committed(self, marked: Unacknowledged, deadline: int) -> ErrorCode:
        return await self._replication.committed(marked.partition, marked.end_offset, deadline=deadline)

    def _writes_any(self, marker: WritableTxnMarker) -> bool:
        """Whether a partition of the marker is led here; otherwise Kafka makes no marker, and no error."""
        return any(
            self._replicas.find(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        )

    def _write(
        self, marker: WritableTxnMarker | WriteMarkers, commit: bool, topic: str, index: int
    ) -> ErrorCode | Unacknowledged:
        partition = self._replicas.find(topic, index)
        if partition is None:
            registered = self._metadata.image.partition(topic, index)
            hosted = registered is not None and self._node_id in registered.replicas
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if hosted else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic in INTERNAL_TOPICS:
            shard = self._coordinators.at(topic, index)
            if shard is not None and shard.loading:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        appended = partition.append_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            now=self._clock.now,
        )
        if isinstance(appended, Refused):
            return appended.error
        self._counters.markers_written += 1
        self._replicas.appended(partition)
        if partition.log.mark is not None:
            return Unacknowledged(partition, appended.next_offset)
        return ErrorCode.NONE


def _all_failed(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """A marker without a producer is invalid; Kafka fails with the whole request, after writing the markers before it.

    Of several markers of one producer id it names the partitions of the last.
    """
    failed: Results = {}
    for marker in request.markers:
        topics: dict[str, dict[int, ErrorCode]] = {}
        failed[marker.producer_id] = topics
        for topic in marker.topics:
            indexes = dict.fromkeys(topic.partition_indexes, ErrorCode.UNKNOWN_SERVER_ERROR)
            topics.setdefault(topic.name, {}).update(indexes)
    return _response(failed)


def _response(results: Results) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index, error in written.items()
                        ],
                    )
                    for name, written in topics.items()
                ],
            )
            for producer_id, topics in results.items()
        ]
    )
