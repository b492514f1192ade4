"""Real clients read everything, though compaction has left batches without records between what there is to read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, TopicPartition

from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.slow

FETCHED_BYTES = 70
"""One batch and a part of the next, so that some fetches hold a batch without records and nothing else."""
SEGMENT_MS = 10**13
"""A segment ends where a test says so by a time far ahead, and not with a marker, whose time is now."""
CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": str(SEGMENT_MS),
}


class Writer:
    """Writes batches of keys to the one partition, each by the producer that is named."""

    def __init__(self, client: BlockingClient) -> None:
        self.client = client

    def producer(self, transactional_id: str | None = None) -> tuple[int, int]:
        asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = self.client.ask(asked, 5)
        assert ErrorCode.NONE == answer.error_code
        return answer.producer_id, answer.producer_epoch

    def write(
        self,
        *keys: bytes,
        timestamp: int = 1,
        producer: tuple[int, int] = (-1, -1),
        transactional_id: str | None = None,
    ) -> None:
        records = build_batch(
            [Record(timestamp=timestamp, key=key, value=key) for key in keys],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=-1 if producer[0] < 0 else 0,
            transactional=transactional_id is not None,
        )
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
        asked = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5000, topic_data=[data])
        written = self.client.ask(asked, 12).responses[0].partition_responses[0]
        assert ErrorCode.NONE == written.error_code, written.error_message

    def abort(self, transactional_id: str, producer: tuple[int, int]) -> None:
        asked = EndTxnRequest(transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1])
        assert ErrorCode.NONE == self.client.ask(asked, 5).error_code

    def kept(self) -> list[tuple[int, int, int, bool]]:
        """First and last offset, number of records, and whether it is of control, of every batch."""
        found: list[tuple[int, int, int, bool]] = []
        while True:
            wanted = FetchPartition(
                partition=0, fetch_offset=found[-1][1] + 1 if found else 0, partition_max_bytes=1 << 20
            )
            asked = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[wanted])])
            records = self.client.ask(asked, 12).responses[0].partitions[0].records
            if not records:
                return found
            for one in batches(memoryview(records)):
                found.append((one.base_offset, one.last_offset, one.record_count, one.is_control))

    def has_lost(self, offset: int) -> bool:
        """Whether no batch begins at this offset any more."""
        return all(first != offset for first, *_ in self.kept())


@contextmanager
def compacted() -> Iterator[Cluster]:
    """A log with a batch of an idempotent producer and a marker, both without records, before and behind records."""
    with (
        Cluster(config={"log.cleaner.backoff.ms": "20"}) as running,
        BlockingClient(running.bootstrap, client_id="writer") as client,
    ):
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        writer = Writer(client)
        idempotent, transactional = writer.producer(), writer.producer("tid")
        writer.write(b"first")
        writer.write(b"a", b"b", producer=idempotent)
        writer.write(b"c", producer=transactional, transactional_id="tid")
        writer.abort("tid", transactional)
        writer.write(b"a", b"b")
        writer.write(b"round")
        # Each pass removes one batch: the aborted data, and the older records of `round`.
        for number, gone in enumerate((3, 7, 8), 1):
            writer.write(b"round", timestamp=2 * number * SEGMENT_MS)
            running.wait_for(partial(writer.has_lost, gone))
        assert [(0, 0, 1, False), (1, 2, 0, False), (4, 4, 0, True), (5, 6, 2, False)] == writer.kept()[:4]
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with compacted() as running:
        yield running


READ = [(0, b"first"), (5, b"a"), (6, b"b"), (9, b"round"), (10, b"round")]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_librdkafka(cluster: Cluster, start: int, isolation: str) -> None:
    limits = {"fetch.message.max.bytes": FETCHED_BYTES, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = Consumer(settings | limits | {"fetch.min.bytes": 1, "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, start)])
    wanted = [each for each in READ if each[0] >= start]
    read: list[tuple[int, bytes]] = []
    for _ in wanted:
        message: Any = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append((message.offset(), message.value()))
    consumer.close()
    assert wanted == read


async def read_with_aiokafka(cluster: Cluster, isolation: str) -> list[tuple[int, bytes]]:
    from aiokafka import AIOKafkaConsumer

    limits = {"fetch_max_bytes": FETCHED_BYTES, "max_partition_fetch_bytes": FETCHED_BYTES}
    consumer = AIOKafkaConsumer(
        "t",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        isolation_level=isolation,
        **limits,
    )
    async with consumer, asyncio.timeout(20):
        read = [await consumer.getone() for _ in READ]
    return [(message.offset, message.value) for message in read]


async def test_aiokafka(cluster: Cluster) -> None:
    assert READ == await read_with_aiokafka(cluster, "read_uncommitted")


async def test_aiokafka_stops_at_a_marker_without_its_record(cluster: Cluster) -> None:
    """So does 0.14.0 at a real Kafka 4.4: it looks for an abort in every control batch of a transaction."""
    with pytest.raises(KafkaError, match="Control batch did not contain any records"):
        await read_with_aiokafka(cluster, "read_committed")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python(cluster: Cluster) -> None:
    from kafka import KafkaConsumer

    limits = {"fetch_max_bytes": FETCHED_BYTES, "max_partition_fetch_bytes": FETCHED_BYTES}
    consumer = KafkaConsumer(
        "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **limits
    )
    read: list[tuple[int, bytes]] = []
    for message in consumer:
        read.append((message.offset, message.value))
        if len(read) == len(READ):
            break
    consumer.close()
    assert read == READ
