"""Real clients read everything, though hardly an answer ends where a batch does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from odradek.testing import Cluster

pytestmark = pytest.mark.slow

RECORDS = 200
FETCHED_BYTES = 1700
"""Ten batches and a half."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics=["t:2"]) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap, "batch.num.messages": 1})
        for number in range(RECORDS):
            producer.produce("t", str(number).encode().ljust(90, b"."), partition=number % 2)
        assert 0 == producer.flush(20)
        yield running


def wanted(partition: int) -> list[int]:
    return list(range(partition, RECORDS, 2))


def number_of(value: bytes) -> int:
    return int(value.rstrip(b"."))


def test_librdkafka(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    limits = {"fetch.message.max.bytes": FETCHED_BYTES, "fetch.max.bytes": FETCHED_BYTES, "message.max.bytes": 1000}
    consumer = Consumer(settings | limits | {"fetch.min.bytes": 1})
    consumer.subscribe(["t"])
    read: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(RECORDS):
        message: Any = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read[message.partition()].append(number_of(message.value()))
    consumer.close()
    assert read == {0: wanted(0), 1: wanted(1)}


async def test_aiokafka(cluster: Cluster) -> None:
    from aiokafka import AIOKafkaConsumer

    limits = {"fetch_max_bytes": FETCHED_BYTES, "max_partition_fetch_bytes": FETCHED_BYTES}
    consumer = AIOKafkaConsumer("t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **limits)
    read: dict[int, list[int]] = {0: [], 1: []}
    async with consumer, asyncio.timeout(20):
        for _ in range(RECORDS):
            message = await consumer.getone()
            read[message.partition].append(number_of(message.value))
    assert read == {0: wanted(0), 1: wanted(1)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python(cluster: Cluster) -> None:
    from kafka import KafkaConsumer

    limits = {"fetch_max_bytes": FETCHED_BYTES, "max_partition_fetch_bytes": FETCHED_BYTES}
    consumer = KafkaConsumer(
        "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **limits
    )
    read: dict[int, list[int]] = {0: [], 1: []}
    for message in consumer:
        read[message.partition].append(number_of(message.value))
        if sum(map(len, read.values())) == RECORDS:
            break
    consumer.close()
    assert read == {0: wanted(0), 1: wanted(1)}
