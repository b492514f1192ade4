"""Snapshots and forks with a real client: what is kept, that nobody sees what others do, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.config.table import ConfigError
from odradek.testing import Cluster, Snapshot, rule

pytestmark = pytest.mark.client

TIMEOUT_S = 15
SMALL = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}


def settings(cluster: Cluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap}


def produce(cluster: Cluster, *values: str, topic: str = "orders", partition: int = 0) -> None:
    producer = Producer({**settings(cluster), "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert 0 == producer.flush(TIMEOUT_S)


def read(
    cluster: Cluster, count: int, *, topic: str = "orders", committed: bool = True, wait_s: float = 5
) -> list[str]:
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {**settings(cluster), "group.id": "r", "isolation.level": level, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, wait_s)
    consumer.close()
    return [(message.value() or b"").decode() for message in found]


def stable_end(cluster: Cluster, topic: str = "orders") -> int:
    consumer = Consumer({**settings(cluster), "group.id": "w", "isolation.level": "read_committed"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
    consumer.close()
    return int(end)


def hang(cluster: Cluster, *, timeout_ms: int = 60_000) -> Producer:
    """A transaction with a record and with offsets, which its producer never ends."""
    producer = Producer({**settings(cluster), "transactional.id": "stuck", "transaction.timeout.ms": timeout_ms})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", "open", partition=0)
    assert 0 == producer.flush(TIMEOUT_S)
    consumer = Consumer({**settings(cluster), "group.id": "g"})
    offsets = [TopicPartition("orders", 0, 2)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    consumer.close()
    return producer


def committed(cluster: Cluster, *, stable: bool = False) -> int:
    """The offset of the group; a stable one is refused while a transaction has another pending."""
    level = "read_committed" if stable else "read_uncommitted"
    consumer = Consumer({**settings(cluster), "group.id": "g", "isolation.level": level})
    try:
        [found] = consumer.committed([TopicPartition("orders", 0)], 2 if stable else TIMEOUT_S)
    finally:
        consumer.close()
    return int(found.offset)


@pytest.fixture(scope="module")
def prepared() -> Snapshot:
    """Records, a config, a committed offset, and a transaction that hangs."""
    with Cluster(topics=["orders"], config=SMALL) as origin:
        produce(origin, "a", "b")
        consumer = Consumer({**settings(origin), "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
        admin = AdminClient(settings(origin))
        entry = ConfigEntry("max.message.bytes", "123456", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        producer = hang(origin)
        snapshot = origin.snapshot()
        # From here on the origin goes its own way, and then it ends.
        producer.abort_transaction(TIMEOUT_S)
        produce(origin, "of the origin")
        admin.delete_topics(["orders"])["orders"].result(TIMEOUT_S)
    return snapshot


def test_a_fork_has_the_state_of_that_moment(prepared: Snapshot) -> None:
    with Cluster(from_=prepared) as fork:
        assert ["a", "b"] == read(fork, 2)
        assert ["a", "b", "open"] == read(fork, 3, committed=False)
        assert 2 == stable_end(fork)
        assert 1 == committed(fork)
        with pytest.raises(KafkaException):
            committed(fork, stable=True)
        admin = AdminClient(settings(fork))
        resource = ConfigResource(ResourceType.TOPIC, "orders")
        configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        assert "123456" == configs["max.message.bytes"].value
        assert prepared.cluster.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id
        described = admin.describe_consumer_groups(["g"])["g"].result(TIMEOUT_S)
        assert "EMPTY" == described.state.name


def test_forks_know_nothing_of_one_another(prepared: Snapshot) -> None:
    with Cluster(from_=prepared) as one, Cluster(from_=prepared) as other:
        next_owner = Producer({**settings(one), "transactional.id": "stuck"})
        next_owner.init_transactions(TIMEOUT_S)  # it aborts what hangs
        produce(one, "c")
        of_one, of_other = AdminClient(settings(one)), AdminClient(settings(other))
        of_one.create_topics([NewTopic("more", 1, 1)])["more"].result(TIMEOUT_S)
        assert ["a", "b", "c"] == read(one, 3)
        assert 2 == stable_end(other)
        assert "more" not in of_other.list_topics(timeout=TIMEOUT_S).topics
        of_other.delete_topics(["orders"])["orders"].result(TIMEOUT_S)
        assert ["a", "b", "c"] == read(one, 3)


def test_a_transaction_goes_on_with_the_time_that_it_had_left(prepared: Snapshot) -> None:
    with Cluster(from_=prepared) as one, Cluster(from_=prepared) as other:
        one.advance(timedelta(minutes=2))
        produce(one, "after")
        assert ["a", "b", "after"] == read(one, 3)
        assert 1 == committed(one, stable=True)
        assert 2 == stable_end(other)


def test_a_fork_of_a_fork(prepared: Snapshot) -> None:
    with Cluster(from_=prepared) as fork:
        produce(fork, "c")
        second = fork.snapshot()
        produce(fork, "d")
    with Cluster(from_=second) as grandchild, Cluster(from_=prepared) as child:
        assert ["a", "b", "open", "c"] == read(grandchild, 4, committed=False)
        assert 2 == stable_end(grandchild)
        assert ["a", "b", "open"] == read(child, 3, committed=False)
        produce(grandchild, "e")
        assert ["a", "b", "open", "c", "e"] == read(grandchild, 5, committed=False)


def test_nothing_is_missing_that_was_acknowledged_before_the_snapshot() -> None:
    with Cluster(brokers=3, topics=["orders:3"], config=SMALL) as origin:
        acknowledged: list[str] = []
        ends = threading.Event()

        def write(name: str, partition: int) -> None:
            producer = Producer({**settings(origin), "linger.ms": 0})
            number = 0
            while not ends.is_set():
                value = f"{name}-{number}"
                producer.produce(
                    "orders",
                    value,
                    partition=partition,
                    on_delivery=lambda error, message: acknowledged.append((message.value() or b"").decode()),
                )
                producer.poll(0.001)
                number += 1
            producer.flush(TIMEOUT_S)

        writers = [threading.Thread(target=write, args=(f"w{index}", index)) for index in range(3)]
        for writer in writers:
            writer.start()
        taken: list[tuple[set[str], Snapshot]] = []
        while len(taken) < 3:
            if len(acknowledged) > 200 * (len(taken) + 1):
                before = set(acknowledged)
                taken.append((before, origin.snapshot()))
        ends.set()
        for writer in writers:
            writer.join()
    for before, snapshot in taken:
        with Cluster(from_=snapshot) as fork:
            consumer = Consumer({**settings(fork), "group.id": "all", "auto.offset.reset": "earliest"})
            parts = [TopicPartition("orders", index, 0) for index in range(3)]
            count = sum(consumer.get_watermark_offsets(part, TIMEOUT_S)[1] for part in parts)
            consumer.assign(parts)
            found = [(message.value() or b"").decode() for message in consumer.consume(count, TIMEOUT_S)]
            consumer.close()
            assert len(found) == count
            assert len(found) == len(set(found))
            assert before <= set(found)
            for name in ("w0", "w1", "w2"):
                mine = [int(value.split("-")[1]) for value in found if value.startswith(name)]
                assert mine == list(range(len(mine)))


def test_leaders_and_brokers_of_several_are_those_of_the_moment() -> None:
    with Cluster(brokers=3, topics=["orders"], config=SMALL) as origin:
        produce(origin, "a")
        led = origin.move_leader("orders", 0)
        stopped = next(each for each in origin.broker_ids if each != led)
        origin.stop_broker(stopped, cleanly=True)
        produce(origin, "b")
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot) as fork:
        assert [1, 2, 3] == fork.broker_ids
        assert led == fork.leader("orders", 0)
        assert ["a", "b"] == read(fork, 2)
        # The broker that was stopped is there again, and in sync.
        assert stopped == fork.move_leader("orders", 0, to=stopped)
        produce(fork, "c")
        assert ["a", "b", "c"] == read(fork, 3)
        fork.stop_broker(stopped)
        assert ["a", "b", "c"] == read(fork, 3)


def test_markers_that_are_owed_are_written_unless_a_rule_holds_them() -> None:
    with Cluster(topics=["orders"], config=SMALL) as origin:
        held = origin.add_rule(rule(api="WriteTxnMarkers", hold=True))
        producer = Producer({**settings(origin), "transactional.id": "t"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", "a", partition=0)
        producer.flush(TIMEOUT_S)
        # The coordinator has decided, and answers; the marker waits.
        producer.commit_transaction(TIMEOUT_S)
        assert 0 == stable_end(origin)
        snapshot = origin.snapshot()
        origin.remove_rule(held)
    with Cluster(from_=snapshot) as fork:
        assert ["a"] == read(fork, 1)
    with Cluster(from_=snapshot, rules=[rule(api="WriteTxnMarkers", hold=True)]) as fork:
        assert 0 == stable_end(fork)


def test_a_clock_that_stands_still_stands_still_in_a_fork() -> None:
    with Cluster(topics=["orders"], config=SMALL) as origin:
        origin.advance(timedelta(days=3))
        origin.freeze()
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot) as fork:
        running = fork._running
        assert running.clock.frozen
        assert snapshot.cluster.taken_at_ms == running.clock.now()
        fork.resume()
        produce(fork, "a")


def test_clients_of_a_fork_may_be_ahead_of_it_by_the_age_of_the_snapshot() -> None:
    with Cluster(topics=["orders"], config=SMALL) as origin:
        snapshot = origin.snapshot()
    snapshot.cluster.taken_at_ms -= 3 * 3_600_000  # as if the suite had run for three hours since
    with Cluster(from_=snapshot) as fork:
        produce(fork, "a")
        assert ["a"] == read(fork, 1)
        producer = Producer({**settings(fork), "linger.ms": 0})
        errors: list[Any] = []
        ahead = fork._running.clock.now() + 3 * 3_600_000 + 2 * 3_600_000
        producer.produce("orders", "b", timestamp=ahead, on_delivery=lambda error, message: errors.append(error))
        producer.flush(TIMEOUT_S)
        assert "INVALID_TIMESTAMP" == errors[0].name().lstrip("_")


def test_a_fork_has_the_users_and_listeners_of_its_origin() -> None:
    with Cluster(topics=["orders"], security="sasl-plaintext", users={"alice": "secret"}, config=SMALL) as origin:
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot) as fork:
        producer = Producer(fork.access.librdkafka)
        producer.produce("orders", "a")
        assert 0 == producer.flush(TIMEOUT_S)
        assert "sasl" in str(fork.access.librdkafka["security.protocol"]).lower()


def test_a_fork_may_have_more_topics_and_settings(prepared: Snapshot) -> None:
    with Cluster(from_=prepared, topics=["orders", "more:2"], config={"auto.create.topics.enable": False}) as fork:
        produce(fork, "x", topic="more", partition=1)
        assert 2 == stable_end(fork)
        admin = AdminClient(settings(fork))
        resource = ConfigResource(ResourceType.BROKER, "1")
        configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        assert "false" == configs["auto.create.topics.enable"].value


async def test_in_the_event_loop_of_the_test(prepared: Snapshot) -> None:
    async with Cluster(from_=prepared) as fork:
        snapshot = fork.snapshot()
    async with Cluster(from_=snapshot) as second:
        assert 1 == second.leader("orders", 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"brokers": 3}, "A fork has the brokers of its snapshot, 1 broker, and not 3."),
        ({"node_ids": [7]}, "A fork has the node ids of its snapshot, 1, and not 7."),
        ({"dialect": "kip-939"}, "A fork is the release of its snapshot"),
        ({"security": "ssl"}, "A fork has the listeners of its snapshot"),
        ({"data_dir": "x"}, "A snapshot in memory is forked in memory"),
        (
            {"as_kafka": "3.6"},
            "odradek.as.kafka is settled when a cluster is new, and the snapshot was made without it:",
        ),
        ({"transaction_version": 1}, "odradek.transaction.version is settled when a cluster is new"),
    ],
)
def test_arguments_that_contradict_the_snapshot(
    prepared: Snapshot, arguments: dict[str, object], sentence: str
) -> None:
    with pytest.raises((ValueError, ConfigError)) as refused:
        Cluster(from_=prepared, **arguments)  # type: ignore[arg-type]
    assert str(refused.value).startswith(sentence)


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes what Cluster\.snapshot"):
        Cluster(from_=7)  # type: ignore[arg-type]


def test_a_cluster_that_does_not_run_has_no_state() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        Cluster().snapshot()


def test_the_page_does_as_it_says(tmp_path: Path) -> None:
    """Its suite passes as it stands, in a folder of its own."""
    page = (Path(__file__).parents[2] / "docs" / "fork.md").read_text()
    suite, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_suite.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in ran.stdout, ran.stdout


def test_a_replica_that_lags_goes_on_to_lag() -> None:
    with Cluster(brokers=3, topics=["orders"], config=SMALL) as origin:
        leader = origin.leader("orders", 0)
        for broker in origin.broker_ids:
            if broker != leader:
                origin.set_replica_lag(broker, None)
        sender = Producer({**settings(origin), "linger.ms": 0, "acks": 1})
        sender.produce("orders", "a", partition=0)
        assert 0 == sender.flush(TIMEOUT_S)
        assert 0 == stable_end(origin)
        snapshot = origin.snapshot()
    with Cluster(from_=snapshot) as one, Cluster(from_=snapshot) as other:
        for broker in one.broker_ids:
            one.set_replica_lag(broker, 0)
        assert ["a"] == read(one, 1)
        # As after a restart its leader does not say yet where the committed records end (KIP-207).
        with pytest.raises(KafkaException, match="OFFSET_NOT_AVAILABLE"):
            stable_end(other)
