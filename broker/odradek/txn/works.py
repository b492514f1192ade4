"""The works of a transaction: write its markers, abort it after its timeout, forget its id.

A work for markers covers the partitions of one transaction at one broker (Kafka's `TransactionMarkerChannelManager`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.txn.partitions import by_topic
from odradek.wire.error_maps import error_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from odradek.txn.partitions import TopicPartition
    from odradek.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse

__all__ = [
    "MARKED",
    "MARKER_FATES",
    "NO_LEADER",
    "AbortTimedOut",
    "ExpireId",
    "MarkerFate",
    "TxnWork",
    "WriteMarkers",
    "marker_results",
    "markers_request",
]

NO_LEADER = -1
"""A partition that exists and has no leader at the moment."""


class WriteMarkers(Struct, frozen=True):
    """Write these markers; without a leader: write nothing, and complete the transaction.

    In both cases report the results to `TxnCoordinator.complete`, empty if the call was lost.
    """

    key: Hashable
    leader: int | None
    transactional_id: str
    offset: int
    """Of the record that prepared the transaction, which no other transaction of this id has."""
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


class AbortTimedOut(Struct, frozen=True):
    """Abort a transaction that has timed out: call `TxnCoordinator.abort_timed_out`."""

    key: Hashable
    transactional_id: str
    offset: int


class ExpireId(Struct, frozen=True):
    """Forget an id that was not used for long: call `TxnCoordinator.expire`."""

    key: Hashable
    transactional_id: str
    offset: int


TxnWork = WriteMarkers | AbortTimedOut | ExpireId


def markers_request(works: Iterable[WriteMarkers]) -> WriteTxnMarkersRequest:
    """One request for works that go to the same leader."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=work.producer_id,
                producer_epoch=work.producer_epoch,
                transaction_result=work.commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(work.partitions).items()
                ],
                coordinator_epoch=work.coordinator_epoch,
                transaction_version=work.transaction_version,
            )
            for work in works
        ]
    )


def marker_results(response: WriteTxnMarkersResponse, producer_id: int) -> dict[TopicPartition, ErrorCode]:
    """The results for the partitions of one producer id in a response."""
    return {
        (topic.name, partition.partition_index): error_of(partition.error_code)
        for marker in response.markers
        if marker.producer_id == producer_id
        for topic in marker.topics
        for partition in topic.partitions
    }


class MarkerFate(Enum):
    """The effect of a leader's answer on a partition."""

    DONE = "done"
    AGAIN = "owed still"


MARKER_FATES: Mapping[ErrorCode, MarkerFate] = MappingProxyType(
    {
        ErrorCode.NONE: MarkerFate.DONE,
        # A log that cannot hold control records holds no transactions either.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerFate.DONE,
        ErrorCode.UNSUPPORTED_VERSION: MarkerFate.DONE,
        # A marker of a later epoch is in the log and has closed what this one was to close.
        # Kafka gives up all markers of the id instead, which answers CONCURRENT_TRANSACTIONS from then on.
        ErrorCode.INVALID_PRODUCER_EPOCH: MarkerFate.DONE,
        # Another coordinator has taken over, and the news is on its way here.
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerFate.AGAIN,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: MarkerFate.AGAIN,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: MarkerFate.AGAIN,
        ErrorCode.NOT_ENOUGH_REPLICAS: MarkerFate.AGAIN,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: MarkerFate.AGAIN,
        ErrorCode.REQUEST_TIMED_OUT: MarkerFate.AGAIN,
        ErrorCode.KAFKA_STORAGE_ERROR: MarkerFate.AGAIN,
    }
)

MARKED = frozenset(error for error, fate in MARKER_FATES.items() if fate is MarkerFate.DONE)
"""Answers after which a partition owes no marker; no answer, or an unexpected one, leaves it owed."""
