"""`odradek demo consume`: reads every partition from the beginning, and notices wrong records.

By default it is in no group and has all partitions. In a group it shares them: a member that gives a partition up
commits the offset up to which it has reported, and the next owner continues there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from odradek.demo.lines import AtEnd, Read, Seen, Tell, Trouble, Violated
from odradek.demo.options import ConsumeOptions, GroupProtocol
from odradek.demo.transfers import decode_posting
from odradek.demo.watch import Watch

__all__ = ["consume"]

GROUP = "watchers"
POLL_S = 0.2
RECORDS_MAX = 500
PATIENCE_S = 30.0


def consume(options: ConsumeOptions, *, tell: Tell, stopped: threading.Event) -> int:
    """Read until it is time to stop; returns the exit code, 1 if a check failed."""
    alone = options.group_protocol is GroupProtocol.NONE
    settings = {
        "bootstrap.servers": options.bootstrap,
        "client.id": "watcher",
        "group.id": GROUP,  # the library requires one; without subscription and commits it has no members
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": options.isolation,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer(settings if alone else settings | {"group.protocol": options.group_protocol})
    try:
        if alone:
            partitions = _partitions(consumer, options)
            consumer.assign([TopicPartition(options.topic, at, OFFSET_BEGINNING) for at in partitions])
            return _Reading(consumer, tell, _batch).run(stopped)
        consumer.subscribe([options.topic], on_revoke=_hand_over)
        return _Reading(consumer, tell, _one_by_one).run(stopped)
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


def _batch(consumer: Consumer) -> list[Message]:
    return consumer.consume(RECORDS_MAX, POLL_S)


def _one_by_one(consumer: Consumer) -> list[Message]:
    """Read with `poll`: unlike `consume` it never returns messages of partitions that were given up meanwhile."""
    messages: list[Message] = []
    message = consumer.poll(POLL_S)
    while message is not None:
        messages.append(message)
        message = consumer.poll(0) if len(messages) < RECORDS_MAX else None
    return messages


def _hand_over(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Commit the positions of these partitions: all their messages were reported before."""
    read = [each for each in consumer.position(partitions) if each.offset >= 0]
    if read:
        consumer.commit(offsets=read, asynchronous=False)


class _Reading:
    def __init__(self, consumer: Consumer, tell: Tell, read: Callable[[Consumer], list[Message]]) -> None:
        self._consumer = consumer
        self._read = read
        self._tell = tell
        self._watch = Watch()
        self._violations = 0

    def run(self, stopped: threading.Event) -> int:
        while not stopped.is_set():
            messages = self._read(self._consumer)
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
