"""The stories with confluent-kafka: what its transactional producer does in each, and what comes of it in one word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from tests.oracle.client import Client
from tests.oracle.requests import build_request

from odradek.wire.registry import ApiKey

__all__ = ["PLAYED", "Stage"]

WAIT_S = 20
GROUP_RESOURCE = 32
CONSUMER = {"group.protocol": "consumer"}
LETTERS = "dlq.orders"
TOLD = ("topic", "partition", "offset", "group", "delivery.count")
DELIVERIES = 2
"""The limit of the stories of dead letters."""


class Stage(Protocol):
    """Where a story is played: an `odradek.testing.Cluster`, or a real broker."""

    @property
    def bootstrap(self) -> str: ...
    def wait_for(self, condition: Callable[[], object], *, timeout_s: float = 10) -> None: ...


def till(cluster: Stage, **settings: Any) -> Producer:
    told = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-1", "linger.ms": 0}
    producer = Producer({**told, **{key.replace("_", "."): value for key, value in settings.items()}})
    producer.init_transactions(WAIT_S)
    return producer


def begin(producer: Producer, *orders: str, topic: str = "orders") -> None:
    producer.begin_transaction()
    for order in orders:
        producer.produce(topic, order)


def commit(producer: Producer, *orders: str) -> None:
    begin(producer, *orders)
    producer.flush(WAIT_S)
    producer.commit_transaction(WAIT_S)


def committed(cluster: Stage, topic: str = "orders", isolation: str = "read_committed") -> list[str]:
    """The values that a consumer gets of partition 0, up to the last stable offset."""
    settings = {
        "group.id": "readers",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    values: list[str] = []
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while (value := next_value(consumer)) is not None:
        values.append(value)
    consumer.close()
    return values


def next_value(consumer: Consumer) -> str | None:
    """The next one, or None at the end of the partition."""
    message = consumer.poll(WAIT_S)
    assert message is not None
    value = message.value()
    return None if message.error() or value is None else value.decode()


def survives(cluster: Stage) -> str:
    """Two transactions are committed, as if nothing had happened."""
    producer = till(cluster)
    commit(producer, "coffee")
    commit(producer, "cake")
    cluster.wait_for(lambda: committed(cluster) == ["coffee", "cake"])
    return "survives"


def fails(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as failed:
        call()
    error: KafkaError = failed.value.args[0]
    return error


def goes_on(producer: Producer, error: KafkaError) -> str:
    """Whether the same producer commits the next transaction after one that is lost."""
    if error.fatal():
        return "ends"
    assert error.txn_requires_abort(), error
    producer.abort_transaction(WAIT_S)
    commit(producer, "cake")
    return "aborts"


def goes_on_after_an_abort(cluster: Stage, **settings: Any) -> str:
    """A transaction is lost and has to be aborted; the same producer commits the next one."""
    producer = till(cluster, **settings)
    begin(producer, "coffee")
    outcome = goes_on(producer, fails(lambda: producer.commit_transaction(WAIT_S)))
    cluster.wait_for(lambda: committed(cluster) == ["cake"])
    return outcome


def goes_on_after_two_aborts(cluster: Stage) -> str:
    """librdkafka goes on counting where it was, and has to abort once more before it begins at another epoch."""
    producer = till(cluster)
    begin(producer, "coffee")
    assert fails(lambda: producer.commit_transaction(WAIT_S)).txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    begin(producer, "tea")
    error = fails(lambda: commit_flushed(producer))
    assert (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, True) == (error.code(), error.txn_requires_abort())
    producer.abort_transaction(WAIT_S)
    commit(producer, "cake")
    cluster.wait_for(lambda: committed(cluster) == ["cake"])
    return "aborts"


def goes_on_after_the_second_topic(cluster: Stage) -> str:
    producer = till(cluster)
    begin(producer, "coffee")
    producer.flush(WAIT_S)
    producer.produce("copies", "copy")
    outcome = goes_on(producer, fails(lambda: commit_flushed(producer)))
    cluster.wait_for(lambda: committed(cluster) == ["cake"])
    return outcome


def late_produce(cluster: Stage) -> str:
    """A record is given up while it is on its way, its transaction aborted, and somebody else writes the next one."""
    producer = till(cluster)
    begin(producer, "late")
    time.sleep(0.3)
    producer.purge()
    producer.abort_transaction(WAIT_S)
    time.sleep(0.5)
    plain(cluster, "next")
    written = committed(cluster, isolation="read_uncommitted")
    found = committed(cluster)
    return {("next",): "defended", (): "hangs"}.get(tuple(found), "") if written[-1] == "next" else f"wrote {written}"


def plain(cluster: Stage, value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("orders", value, partition=0)
    producer.flush(WAIT_S)


def marker_comes_between(cluster: Stage) -> str:
    producer = till(cluster, transaction_timeout_ms=1000)
    begin(producer, "coffee")
    return goes_on_or_another_does(cluster, producer, fails(lambda: commit_flushed(producer)))


def goes_on_or_another_does(cluster: Stage, producer: Producer, error: KafkaError) -> str:
    try:
        outcome = goes_on(producer, error)
    except KafkaException:
        outcome = "ends"
    if outcome == "ends":
        commit(till(cluster), "cake")
    cluster.wait_for(lambda: committed(cluster)[-1:] == ["cake"])
    return outcome


def commit_flushed(producer: Producer) -> None:
    producer.flush(WAIT_S)
    producer.commit_transaction(WAIT_S)


def epochs_run_out(cluster: Stage) -> str:
    till(cluster)
    return survives(cluster)


def fenced(cluster: Stage) -> str:
    first = till(cluster)
    begin(first, "coffee")
    first.flush(WAIT_S)
    with pytest.raises(KafkaException):
        first.commit_transaction(0.5)
    second = till(cluster)
    error = fails(lambda: first.commit_transaction(WAIT_S))
    assert error.fatal(), error
    commit(second, "cake")
    cluster.wait_for(lambda: committed(cluster) == ["cake"])
    return "ends"


def times_out(cluster: Stage) -> str:
    producer = till(cluster, transaction_timeout_ms=1000)
    begin(producer, "coffee")
    producer.flush(WAIT_S)
    producer.produce("orders", "tea")
    return goes_on_or_another_does(cluster, producer, fails(lambda: commit_flushed(producer)))


def consumed(cluster: Stage, **settings: Any) -> Consumer:
    """A member of the kitchen that has read an order."""
    told = {"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen", "auto.offset.reset": "earliest"}
    consumer = Consumer({**told, "enable.auto.commit": False, **settings})
    consumer.subscribe(["orders"])
    assert next_value(consumer) == "coffee"
    return consumer


def copy(producer: Producer, consumer: Consumer) -> None:
    begin(producer, "copy", topic="copies")
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)


def offsets_are_refused(cluster: Stage) -> str:
    plain(cluster, "coffee")
    producer, consumer = till(cluster), consumed(cluster)
    error = fails(lambda: copy(producer, consumer))
    assert error.txn_requires_abort(), error
    producer.abort_transaction(WAIT_S)
    copy(producer, consumer)
    producer.commit_transaction(WAIT_S)
    cluster.wait_for(lambda: committed(cluster, "copies") == ["copy"])
    return "aborts"


def offsets_come_late(cluster: Stage) -> str:
    plain(cluster, "coffee")
    producer, consumer = till(cluster), consumed(cluster, **{"session.timeout.ms": 1000, "heartbeat.interval.ms": 100})
    failed: list[BaseException] = []

    def late() -> None:
        try:
            copy(producer, consumer)
        except KafkaException as error:
            failed.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    time.sleep(0.5)
    other = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen", "session.timeout.ms": 1000})
    other.subscribe(["orders"])
    ends = time.monotonic() + WAIT_S
    while thread.is_alive() and time.monotonic() < ends:
        other.poll(0.05)
        consumer.poll(0.05)
    thread.join()
    assert failed
    assert failed[0].args[0].txn_requires_abort(), failed
    producer.abort_transaction(WAIT_S)
    other.close()
    assert [] == committed(cluster, "copies")
    return "aborts"


def offsets_are_unstable(cluster: Stage) -> str:
    plain(cluster, "coffee")
    producer, consumer = till(cluster), consumed(cluster)
    copy(producer, consumer)
    producer.commit_transaction(WAIT_S)
    [position] = consumer.committed(consumer.assignment(), WAIT_S)
    assert 1 == position.offset
    return "survives"


def settled(consumer: Consumer, other: Consumer | None = None, *, until: Callable[[], object]) -> None:
    """Poll one or two members until it is so."""
    ends = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < ends, "it did not come about"
        for each in (consumer, other):
            if each is not None:
                each.poll(0.05)


def member(cluster: Stage, **settings: Any) -> Consumer:
    told = {"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen", "auto.offset.reset": "earliest"}
    return Consumer({**told, "enable.auto.commit": False, **settings})


def member_joins_again(cluster: Stage) -> str:
    """A member loses what it has, is told so, and reads on where it has committed."""
    plain(cluster, "coffee")
    lost: list[TopicPartition] = []
    consumer = member(cluster, **CONSUMER)
    consumer.subscribe(["orders"], on_lost=lambda _, partitions: lost.extend(partitions))
    assert next_value(consumer) == "coffee"
    consumer.commit(asynchronous=False)
    settled(consumer, until=lambda: lost)
    plain(cluster, "cake")
    assert next_value(consumer) == "cake"
    consumer.close()
    return "survives"


def offsets_of_another_epoch(cluster: Stage) -> str:
    """Another member joins a group of the consumer protocol while offsets are on their way."""
    plain(cluster, "coffee")
    producer, consumer = till(cluster), consumed(cluster, **CONSUMER, **{"client.id": "late"})
    failed: list[KafkaError] = []

    def late() -> None:
        try:
            copy(producer, consumer)
        except KafkaException as error:
            failed.append(error.args[0])

    thread = threading.Thread(target=late)
    thread.start()
    time.sleep(0.5)
    other = member(cluster, **CONSUMER, **{"client.id": "other"})
    other.subscribe(["orders"])
    settled(consumer, other, until=lambda: not thread.is_alive())
    thread.join()
    # One that is not closed before it is forgotten waits for the broker for ever.
    consumer.close()
    other.close()
    if not failed:
        producer.commit_transaction(WAIT_S)
        cluster.wait_for(lambda: committed(cluster, "copies") == ["copy"])
        return "survives"
    assert failed[0].txn_requires_abort(), failed
    producer.abort_transaction(WAIT_S)
    assert [] == committed(cluster, "copies")
    return "aborts"


def group_changes_protocol(cluster: Stage) -> str:
    """A classic member goes on while one of the consumer protocol joins, and leaves it everything in the end."""
    plain(cluster, "coffee")
    classic = consumed(cluster, **{"heartbeat.interval.ms": 100, "session.timeout.ms": 6000})
    classic.commit(asynchronous=False)
    modern = member(cluster, **CONSUMER)
    modern.subscribe(["orders"])
    settled(classic, modern, until=lambda: len(classic.assignment()) == len(modern.assignment()) == 1)
    assert not set(classic.assignment()) & set(modern.assignment())
    classic.close()
    settled(modern, until=lambda: len(modern.assignment()) == 2)
    plain(cluster, "cake")
    assert next_value(modern) == "cake"
    modern.close()
    return "survives"


def configure_share(cluster: Stage, **configs: str) -> None:
    """Of the group `kitchen`: it begins at the first record. The library has no name for a group as a resource."""
    wanted = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): value for key, value in configs.items()}}
    host, port = cluster.bootstrap.split(",")[0].split(":")
    client = Client((host, int(port)))
    try:
        alterable = [{"name": name, "config_operation": 0, "value": value} for name, value in wanted.items()]
        resources = [{"resource_type": GROUP_RESOURCE, "resource_name": "kitchen", "configs": alterable}]
        asked = build_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": resources})
        client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked)
        assert not client.receive().responses[0].error_code
    finally:
        client.close()


def sharer(cluster: Stage, mode: str) -> ShareConsumer:
    told = {"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen", "share.acknowledgement.mode": mode}
    consumer = ShareConsumer(told)
    consumer.subscribe(["orders"])
    return consumer


def delivered(consumer: ShareConsumer) -> list[Message]:
    """The next records, however long it takes."""
    ends = time.monotonic() + WAIT_S
    while not (messages := [each for each in consumer.poll(0.5) if each.error() is None]):
        assert time.monotonic() < ends, "no record came"
    return messages


def lock_expires(cluster: Stage) -> str:
    """A record is accepted too late: that is refused, and it comes again and says for the how-manieth time."""
    configure_share(cluster)
    plain(cluster, "coffee")
    consumer = sharer(cluster, "explicit")
    [first] = delivered(consumer)
    consumer.acknowledge(first)
    refused = consumer.commit_sync(WAIT_S)
    [again] = delivered(consumer)
    assert (first.offset(), 1, 2) == (again.offset(), first.delivery_count(), again.delivery_count())
    consumer.acknowledge(again)
    taken = consumer.commit_sync(WAIT_S)
    assert all(error is not None for error in refused.values()), refused
    assert all(error is None for error in taken.values()), taken
    consumer.close()
    return "again"


def nothing_aborted_comes(cluster: Stage) -> str:
    configure_share(cluster, share_isolation_level="read_committed")
    consumer = sharer(cluster, "implicit")
    producer = till(cluster)
    begin(producer, "coffee")
    producer.flush(WAIT_S)
    producer.abort_transaction(WAIT_S)
    commit(producer, "cake")
    values = [each.value() for each in delivered(consumer)]
    consumer.close()
    assert [b"cake"] == values
    return "survives"


def becomes_a_dead_letter(cluster: Stage) -> str:
    """A record is given back until it does not come again; the group goes on, and its queue has the record."""
    queue = {"errors_deadletterqueue_topic_name": LETTERS, "errors_deadletterqueue_copy_record_enable": "true"}
    configure_share(cluster, **queue)
    plain(cluster, "coffee")
    consumer = sharer(cluster, "explicit")
    for delivery in range(1, DELIVERIES + 1):
        [bad] = delivered(consumer)
        assert (0, delivery) == (bad.offset(), bad.delivery_count())
        consumer.acknowledge(bad, AcknowledgeType.RELEASE)
        refused = consumer.commit_sync(WAIT_S)
        assert all(error is None for error in refused.values()), refused
    plain(cluster, "cake")
    values: list[bytes | None] = []
    ends = time.monotonic() + WAIT_S
    while len(letters := written_letters(cluster)) < 2 or not values:
        # A new leader looks at the state of the records when a member fetches there.
        for good in consumer.poll(0.5):
            values.append(good.value())
            consumer.acknowledge(good)
        if time.monotonic() > ends:
            assert letters, "no dead letter came"
            break
    assert {b"cake"} == set(values), values
    consumer.close()
    assert {("orders", "0", "0", "kitchen", str(DELIVERIES))} == set(letters), letters
    return {1: "survives", 2: "twice"}[len(letters)]


def written_letters(cluster: Stage) -> list[tuple[str, ...]]:
    """What the records of the queue say of themselves: source topic, partition and offset, group, deliveries."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "enable.partition.eof": True})
    consumer.assign([TopicPartition(LETTERS, 0, OFFSET_BEGINNING)])
    letters: list[tuple[str, ...]] = []
    while (message := consumer.poll(WAIT_S)) is not None and not message.error():
        headers: Any = message.headers() or []
        told = {name: value.decode() for name, value in headers}
        assert message.value() == b"coffee"
        letters.append(tuple(told[f"__dlq.errors.{each}"] for each in TOLD))
    consumer.close()
    return letters


def forgotten(cluster: Stage) -> str:
    producer = till(cluster)
    commit(producer, "coffee")
    cluster.wait_for(lambda: committed(cluster) == ["coffee"])
    time.sleep(1.5)
    begin(producer, "tea")
    return goes_on_or_another_does(cluster, producer, fails(lambda: commit_flushed(producer)))


PLAYED: dict[str, Callable[[Stage], str]] = {
    "late-produce-after-abort": late_produce,
    "late-produce-undefended": late_produce,
    "marker-between-verification-and-append": marker_comes_between,
    "end-txn-lost-in-ongoing": survives,
    "end-txn-answer-lost-in-prepare": survives,
    "end-txn-answer-lost-in-complete": survives,
    "coordinator-moves-in-prepare": survives,
    "concurrent-transactions-after-commit": survives,
    "epoch-overflow": epochs_run_out,
    "verification-times-out": survives,
    "abortable-error-on-produce": goes_on_after_two_aborts,
    "abortable-error-on-add-partitions": goes_on_after_the_second_topic,
    "abortable-error-on-add-offsets": offsets_are_refused,
    "abortable-error-on-commit-offsets": offsets_are_refused,
    "abortable-error-on-end": goes_on_after_an_abort,
    "fenced-by-a-second-instance": fenced,
    "kip-360-recovery": goes_on_after_an_abort,
    "downgrade-under-way": survives,
    "transaction-times-out-during-a-produce": times_out,
    "coordinator-loading": survives,
    "offset-commit-after-rebalance": offsets_come_late,
    "unstable-offset-commit": offsets_are_unstable,
    "producer-id-expires": forgotten,
    "leader-moves-with-open-transaction": survives,
    "broker-restarts-with-pending-markers": survives,
    "consumer-member-expires": member_joins_again,
    "consumer-offsets-an-epoch-late": offsets_of_another_epoch,
    "consumer-offsets-after-expiry": offsets_of_another_epoch,
    "group-changes-protocol": group_changes_protocol,
    "dead-letter-answer-lost": becomes_a_dead_letter,
    "dead-letter-leader-moves": becomes_a_dead_letter,
    "share-lock-expires": lock_expires,
    "share-aborted-records": nothing_aborted_comes,
}
