"""Segments of hundreds of megabytes, and of very many batches: recovery, indexes, reads from anywhere, times."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.swap.judges import audit, dump
from tests.swap.stopped import changing
from tests.swap.systems import Kafka, Odradek, System, directory, free_ports, is_cut

from odradek.core.machine import LogRecord
from odradek.records.batch import plain_batch

pytestmark = pytest.mark.skipif(
    os.environ.get("ODRADEK_SWAP", "small") == "small", reason="the whole make swap: it needs a real Kafka, and minutes"
)

TIMEOUT_S = 120
FIRST_MS = 1_700_000_000_000
LARGE, TINY = "large", "tiny"
SEGMENT_BYTES = {LARGE: 250_000_000, TINY: 16_000_000}
"""Each log has a segment that is full, and one that is appended to."""
RECORDS = {LARGE: 320_000, TINY: 300_000}
VALUE_BYTES = {LARGE: 1_000, TINY: 8}
MORE = 500
"""Records of each turn."""
PLACES = 40
TURNS = (
    (Odradek, ("stop", "kill", "stop")),
    (Odradek, ("kill", "stop", "stop")),
    (Kafka, ("stop", "kill", "stop")),
    (Kafka, ("kill", "stop", "stop")),
)


def value(topic: str, number: int) -> bytes:
    return b"%d" % number + b"." * (VALUE_BYTES[topic] - len(b"%d" % number))


def time_of(number: int) -> int:
    """The time of a record (ms): four in a row are in another order."""
    return FIRST_MS + 10 * (number ^ 2)


class Written:
    """What the two logs have: the record of each offset is known."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.ends = dict.fromkeys(RECORDS, 0)

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        new = [
            NewTopic(topic, 1, 1, config={"segment.bytes": str(size), "retention.ms": "-1"})
            for topic, size in SEGMENT_BYTES.items()
        ]
        for made in admin.create_topics(new).values():
            made.result(TIMEOUT_S)

    def write(self, topic: str, count: int, **settings: object) -> None:
        """Have a client write so many records more."""
        lost: list[KafkaError] = []

        def done(error: KafkaError | None, _: object) -> None:
            if error is not None:
                lost.append(error)

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0, **settings}
        )
        for number in range(self.ends[topic], self.ends[topic] + count):
            while True:
                try:
                    producer.produce(topic, value(topic, number), timestamp=time_of(number), on_delivery=done)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert 0 == producer.flush(TIMEOUT_S)
        assert [] == lost
        self.ends[topic] += count

    def put_tiny_batches(self, path: Path) -> None:
        """Have batches of one record each in the files of a stopped system: clients would need a request for each."""
        with changing(path) as store:
            [log] = [each for each in store.logs() if each.topic == TINY]
            for number in range(RECORDS[TINY]):
                batch = plain_batch([LogRecord(None, value(TINY, number))], timestamp=time_of(number))
                log.append(batch, leader_epoch=log.leader_epoch, now=FIRST_MS)
        self.ends[TINY] = RECORDS[TINY]

    def check(self, draws: random.Random) -> None:
        """Read from both ends and many places between, and search for times."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 100_000,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        try:
            for topic, end in self.ends.items():
                assert (0, end) == consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
                places = [0, 1, end - 1, *(draws.randrange(end) for _ in range(PLACES))]
                for offset in places:
                    self.check_read(consumer, topic, offset)
                times = [
                    0,
                    FIRST_MS,
                    FIRST_MS + 1,
                    *(time_of(place) + draws.choice((-15, -1, 0, 1)) for place in places),
                ]
                for time_ms in times:
                    [found] = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], TIMEOUT_S)
                    assert first_since(time_ms, end) == found.offset, (topic, time_ms)
                [found] = consumer.offsets_for_times([TopicPartition(topic, 0, time_of(end + 4))], TIMEOUT_S)
                assert found.offset in (-1, end)
        finally:
            consumer.close()

    def check_read(self, consumer: Consumer, topic: str, offset: int) -> None:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, (topic, offset)
        if message.error() is not None:
            raise KafkaException(message.error())
        assert (offset, value(topic, offset)) == (message.offset(), message.value())
        assert time_of(offset) == message.timestamp()[1]


def first_since(time_ms: int, end: int) -> int:
    """The first offset of a record that is not older."""
    near = max(0, (time_ms - FIRST_MS) // 10 - 8)
    return next(number for number in range(near, end) if time_of(number) >= time_ms)


@pytest.mark.parametrize(("first", "ends"), TURNS, ids=[f"{first.__name__}-{'-'.join(ends)}" for first, ends in TURNS])
def test_large_segments_are_gone_on_with(tmp_path: Path, first: type[System], ends: Sequence[str]) -> None:
    port = free_ports(1)
    systems: list[System] = [Kafka(tmp_path, port), Odradek(tmp_path, port)]
    systems.sort(key=lambda system: not isinstance(system, first))
    written, draws = Written(systems[0].bootstrap), random.Random(1)
    try:
        systems[0].start()
        written.make_topics()
    finally:
        systems[0].stop()
    written.put_tiny_batches(directory(tmp_path))
    killed = False
    for number, (system, end) in enumerate(zip(cycle(systems), ends, strict=False)):
        try:
            system.start()
            if not number:
                written.write(LARGE, RECORDS[LARGE])
            written.check(draws)
            written.write(LARGE, MORE)
            written.write(TINY, MORE, **{"batch.num.messages": 1})
            written.check(draws)
        finally:
            getattr(system, end)()
        assert [] == [line for line in system.complaints() if not (killed and is_cut(line))]
        killed = end == "kill"
        if not killed:
            assert [] == dump(directory(tmp_path), only=("indexes",))
    for topic in RECORDS:
        assert 2 <= len(list((directory(tmp_path) / f"{topic}-0").glob("*.log")))
    assert [] == audit(directory(tmp_path), tmp_path / "audit")
