"""A topic in the logs of its leaders: every record, and its outcome by the marker.

It is read with Fetch requests at isolation level read_uncommitted and folded here, so that the verdict does not depend
on the filters of the broker and of a client for read_committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Self

from msgspec import Struct

from odradek.demo.transfers import Posting, decode_posting
from odradek.net.client import BlockingClient
from odradek.records.batch import Batch, batches
from odradek.records.control import read_marker
from odradek.records.record import iterate_records
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

__all__ = ["LogReader", "Marks", "Outcome", "Written", "fold"]

FETCH_VERSION = 12  # the last version with topic names
LIST_OFFSETS_VERSION = 7
METADATA_VERSION = 9
FETCH_BYTES_MAX = 8 << 20
LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Outcome(StrEnum):
    """The outcome of a record, by the log."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


class Written(Struct, frozen=True):
    """A record in the log of its partition."""

    partition: int
    offset: int
    posting: Posting
    outcome: Outcome


class Marks(Struct, frozen=True):
    """The high watermark and the last stable offset of a partition."""

    high_watermark: int
    last_stable_offset: int


def fold(partition: int, log: Iterable[Batch]) -> Iterator[Written]:
    """The records of one partition: those of each transaction at its marker, open ones at the end."""
    open_: defaultdict[int, list[tuple[int, Posting]]] = defaultdict(list)
    for batch in log:
        marker = read_marker(batch)
        if marker is not None:
            outcome = Outcome.COMMITTED if marker.commit else Outcome.ABORTED
            yield from _written(partition, open_.pop(batch.producer_id, []), outcome)
        elif batch.is_transactional:
            open_[batch.producer_id] += _postings(batch)
        else:
            yield from _written(partition, _postings(batch), Outcome.COMMITTED)
    for left in open_.values():
        yield from _written(partition, left, Outcome.OPEN)


def _postings(batch: Batch) -> list[tuple[int, Posting]]:
    return [(record.offset, decode_posting(record.value or b"")) for record in iterate_records(batch)]


def _written(partition: int, records: list[tuple[int, Posting]], outcome: Outcome) -> Iterator[Written]:
    for offset, posting in records:
        yield Written(partition, offset, posting, outcome)


class LogReader:
    """Connections to the leaders of a topic's partitions. Raises OSError if one is lost."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._clients: dict[int, BlockingClient] = {}
        self._led: dict[int, list[int]] = {}
        with BlockingClient(bootstrap.split(",")[0], client_id="auditor") as first:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            answer = first.ask(request, METADATA_VERSION)
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        for partition in answer.topics[0].partitions:
            self._led.setdefault(partition.leader_id, []).append(partition.partition_index)
        for leader in self._led:
            self._clients[leader] = BlockingClient(addresses[leader], client_id="auditor")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def marks(self) -> dict[int, Marks]:
        """High watermark and last stable offset of each partition."""
        stable = dict(self._latest(READ_COMMITTED))
        return {partition: Marks(high, stable[partition]) for partition, high in sorted(self._latest(READ_UNCOMMITTED))}

    def read(self) -> list[Written]:
        """All records of the topic, partition after partition."""
        return [
            written
            for leader, partitions in self._led.items()
            for partition in partitions
            for written in fold(partition, self._batches(leader, partition))
        ]

    def _latest(self, isolation: int) -> Iterator[tuple[int, int]]:
        for leader, partitions in self._led.items():
            asked = [ListOffsetsPartition(partition_index=partition, timestamp=LATEST) for partition in partitions]
            topics = [ListOffsetsTopic(name=self._topic, partitions=asked)]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
            answer = self._clients[leader].ask(request, LIST_OFFSETS_VERSION)
            for partition in answer.topics[0].partitions:
                _must_be_none(partition.error_code)
                yield partition.partition_index, partition.offset

    def _batches(self, leader: int, partition: int) -> Iterator[Batch]:
        offset = 0
        while True:
            asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX)
            topics = [FetchTopic(topic=self._topic, partitions=[asked])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=READ_UNCOMMITTED, topics=topics)
            answer = self._clients[leader].ask(request, FETCH_VERSION).responses[0].partitions[0]
            _must_be_none(answer.error_code)
            fetched = list(batches(memoryview(answer.records or b"")))
            yield from fetched
            if not fetched or fetched[-1].next_offset >= answer.high_watermark:
                return
            offset = fetched[-1].next_offset


def _must_be_none(error: int) -> None:
    if error:
        raise ConnectionError(f"a leader answered {ErrorCode(error).name}")
