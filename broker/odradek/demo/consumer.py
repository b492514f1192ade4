"""`odradek demo consume`: reads every partition from the beginning, and notices what must not be."""

from __future__ import annotations

import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from odradek.demo.lines import AtEnd, Read, Seen, Tell, Trouble, Violated
from odradek.demo.transfers import decode_posting
from odradek.demo.watch import Watch

__all__ = ["ConsumeOptions", "consume"]

POLL_S = 0.2
RECORDS_MAX = 500
PATIENCE_S = 30.0


class ConsumeOptions(Struct, frozen=True, kw_only=True):
    """What the command line says; `isolation` is read_committed or read_uncommitted."""

    bootstrap: str
    topic: str
    isolation: str


def consume(options: ConsumeOptions, *, tell: Tell, stopped: threading.Event) -> int:
    """Read until it is time to stop; the exit code, 1 if anything was wrong."""
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "client.id": "watcher",
            "group.id": "watchers",  # the library asks for one; without subscription and commits nobody is in it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": options.isolation,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        consumer.assign([TopicPartition(options.topic, at, OFFSET_BEGINNING) for at in _partitions(consumer, options)])
        return _Reading(consumer, tell).run(stopped)
    except KafkaException as failure:
        tell(Trouble(f"consumer: {failure.args[0].str()}", fatal=True))
        return 1
    finally:
        consumer.close()


def _partitions(consumer: Consumer, options: ConsumeOptions) -> list[int]:
    end = time.monotonic() + PATIENCE_S
    while True:
        partitions = list(consumer.list_topics(options.topic, timeout=PATIENCE_S).topics[options.topic].partitions)
        if partitions:
            return partitions
        if time.monotonic() >= end:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {options.topic}"))
        time.sleep(POLL_S)


class _Reading:
    def __init__(self, consumer: Consumer, tell: Tell) -> None:
        self._consumer = consumer
        self._tell = tell
        self._watch = Watch()
        self._violations = 0

    def run(self, stopped: threading.Event) -> int:
        while not stopped.is_set():
            messages = self._consumer.consume(RECORDS_MAX, POLL_S)
            records = [self._seen(message) for message in messages if message.error() is None]
            if records:
                self._tell(Read(records))
            for record in records:
                for violation in self._watch.see(record):
                    self._violations += 1
                    self._tell(Violated(violation))
            for message in messages:
                self._note(message)
        return 1 if self._violations else 0

    def _seen(self, message: Message) -> Seen:
        return Seen(*_position(message), decode_posting(message.value() or b""))

    def _note(self, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            self._tell(AtEnd(*_position(message)))
        else:
            self._tell(Trouble(f"consumer: {error.str()}"))


def _position(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
