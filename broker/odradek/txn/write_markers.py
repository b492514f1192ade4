"""WriteTxnMarkers (key 27), versions 1 and 2: a coordinator, or an administrator, ends transactions in partitions.

Version 2 says by which transaction version the epoch of the marker is to be judged (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.host.coordinators import HasCoordinators
from odradek.host.replicas import HasReplicas
from odradek.host.replication import HasReplication
from odradek.host.seams import HasClock, HasConfig, HasCounters, HasIdentity, HasMetadata, HasTurns
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.log.partition import Partition
    from odradek.wire.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest

__all__ = ["write_txn_markers"]

NOBODY = -1
"""The producer id of who has none, and the epoch; markers have both."""

WRITTEN_AT_ONCE = 100
"""Markers that are written before others may go on."""

Results = dict[int, dict[str, dict[int, ErrorCode]]]
"""What became of the markers, by producer id, topic and partition."""


class Node(
    HasClock,
    HasConfig,
    HasCoordinators,
    HasCounters,
    HasIdentity,
    HasMetadata,
    HasReplicas,
    HasReplication,
    HasTurns,
    Protocol,
):
    """What writing markers touches of a broker."""


class Unacknowledged(Struct, frozen=True):
    """A marker is in the log; the replicas in sync have to get there."""

    partition: Partition
    end_offset: int


async def write_txn_markers(node: Node, call: Call) -> WriteTxnMarkersResponse:
    """Write each marker to each of its partitions; the answer groups the results by producer id."""
    request: WriteTxnMarkersRequest = call.request
    results: Results = {}
    uncommitted: list[tuple[dict[int, ErrorCode], Partition, int]] = []
    count = 0
    for marker in request.markers:
        if NOBODY in (marker.producer_id, marker.producer_epoch) and _writes_any(node, marker):
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
                outcome = _write(node, marker, topic.name, index)
                if isinstance(outcome, Unacknowledged):
                    uncommitted.append((written, outcome.partition, outcome.end_offset))
                    outcome = ErrorCode.NONE
                written[index] = outcome
                count += 1
                if not count % WRITTEN_AT_ONCE:
                    await node.turns.breathe(call)
    deadline = node.now + node.config.request_timeout_ms
    for written, partition, end_offset in uncommitted:
        written[partition.index] = await node.replication.committed(partition, end_offset, deadline=deadline)
    return _response(results)


def _writes_any(node: Node, marker: WritableTxnMarker) -> bool:
    """Whether the marker is for a partition that is led here; of the others nobody gets as far as making it."""
    return any(node.replicas.find(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


def _all_failed(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """A marker of nobody cannot be made; Kafka fails with all of its request, and what came before is written.

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


def _write(node: Node, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode | Unacknowledged:
    partition = node.replicas.find(topic, index)
    if partition is None:
        registered = node.image.partition(topic, index)
        hosted = registered is not None and node.node_id in registered.replicas
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if hosted else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic in INTERNAL_TOPICS:
        shard = node.coordinators.at(topic, index)
        if shard is not None and shard.loading:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
    appended = partition.append_marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        now=node.now,
    )
    if isinstance(appended, Refused):
        return appended.error
    node.metrics.markers_written += 1
    node.replicas.appended(partition)
    if partition.log.mark is not None:
        return Unacknowledged(partition, appended.next_offset)
    return ErrorCode.NONE
