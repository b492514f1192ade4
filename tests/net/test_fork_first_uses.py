"""Partitions without records in a fork: they are led from their first use on, and nobody hears of the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.net.test_fork import TIMEOUT_S, hang, produce, read, settings, stable_end
from tests.net.test_replay import check

from odradek.control.state import led_partitions
from odradek.core.machine import Fact
from odradek.testing import Cluster, Snapshot

pytestmark = pytest.mark.client

BROKERS = 3
INTERNAL = {"offsets.topic.num.partitions": 10, "transaction.state.log.num.partitions": 10}
TOPICS = {"orders": 1, "teas": 6}


class Told:
    """The events of a cluster."""

    def __init__(self) -> None:
        self.facts: list[tuple[int, Fact]] = []

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        self.facts += [(node_id, fact) for fact in facts]

    def of(self, topic: str, index: int) -> list[tuple[int, str, object]]:
        """Who took the lead of a partition and gave it up, with the leader epoch."""
        return [
            (node_id, fact.kind, fact.fields["leader_epoch"])
            for node_id, fact in self.facts
            if fact.kind in ("leadership_taken", "leadership_given_up")
            and (fact.fields["topic"], fact.fields["partition"]) == (topic, index)
        ]


@pytest.fixture(scope="module", params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """One topic with a record, one without."""
    path = tmp_path_factory.mktemp("kept") if request.param == "disk" else None
    where = None if path is None else path / "origin"
    names = [f"{name}:{count}" for name, count in TOPICS.items()]
    with Cluster(brokers=BROKERS, topics=names, config=INTERNAL, data_dir=where) as origin:
        produce(origin, "a")
        return origin.snapshot(None if path is None else path / "kept")


def led(fork: Cluster) -> int:
    """How many partitions the brokers lead already."""
    return sum(len(driver.node.partitions) for driver in fork._running.drivers.values())


def test_each_is_led_when_it_is_used_and_told_once(kept: Snapshot) -> None:
    told = Told()
    expected = sum(TOPICS.values()) + sum(INTERNAL.values())
    with Cluster(from_=kept, events=told) as fork:
        # The one with a record.
        assert 1 == led(fork)
        assert expected == sum(fork.metrics(broker)["partitions"] for broker in fork.broker_ids)
        taken = Counter(
            (fact.fields["topic"], fact.fields["partition"])
            for _, fact in told.facts
            if fact.kind == "leadership_taken" and fact.fields["topic"] != "__cluster_metadata"
        )
        assert (expected, {1}) == (len(taken), set(taken.values()))
        produce(fork, "b", topic="teas", partition=3)
        assert 2 == led(fork)
        assert [(fork.leader("teas", 3), "leadership_taken", 0)] == told.of("teas", 3)
        hang(fork).commit_transaction(TIMEOUT_S)
        assert ["a", "open"] == read(fork, 2)
        assert expected == sum(fork.metrics(broker)["partitions"] for broker in fork.broker_ids)
        assert all(len(told.of("__consumer_offsets", index)) == 1 for index in range(10))
        # Whoever looks at all of them finds all of them.
        assert sum(TOPICS.values()) == len(led_partitions(fork._running))


def test_another_leader_begins_in_its_epoch(kept: Snapshot) -> None:
    told = Told()
    with Cluster(from_=kept, events=told) as fork:
        before = fork.leader("teas", 0)
        after = fork.move_leader("teas", 0)
        assert [
            (before, "leadership_taken", 0),
            (before, "leadership_given_up", 0),
            (after, "leadership_taken", 1),
        ] == sorted(told.of("teas", 0), key=lambda each: (each[2], each[1] == "leadership_given_up"))
        produce(fork, "b", topic="teas")
        assert ["b"] == read(fork, 1, topic="teas")


def test_a_broker_that_ends_is_missing_in_the_isr_until_it_is_back(kept: Snapshot) -> None:
    with Cluster(from_=kept) as fork:
        gone = fork.leader("teas", 0)
        fork.stop_broker(gone)
        assert gone != fork.leader("teas", 0)
        assert gone not in isr(fork)
        produce(fork, "b", topic="teas")
        fork.start_broker(gone)
        assert gone == fork.move_leader("teas", 0, to=gone)
        assert ["b"] == read(fork, 1, topic="teas")
        assert {1, 2, 3} == isr(fork)


def isr(fork: Cluster) -> set[int]:
    registered = fork._running.controller.node.image.partition("teas", 0)
    assert registered is not None
    return set(registered.isr)


def test_a_follower_that_lags_from_before_the_first_record_on(kept: Snapshot) -> None:
    with Cluster(from_=kept) as fork:
        for broker in fork.broker_ids:
            if broker != fork.leader("teas", 0):
                fork.set_replica_lag(broker, None)
        producer = Producer({**settings(fork), "linger.ms": 0, "acks": 1})
        producer.produce("teas", "b", partition=0)
        assert 0 == producer.flush(TIMEOUT_S)
        assert 0 == stable_end(fork, "teas")
        for broker in fork.broker_ids:
            fork.set_replica_lag(broker, 0)
        assert ["b"] == read(fork, 1, topic="teas")


def test_a_topic_is_deleted_and_made_again_before_its_first_record(kept: Snapshot) -> None:
    told = Told()
    with Cluster(from_=kept, events=told) as fork:
        admin = AdminClient(settings(fork))
        admin.delete_topics(["teas"])["teas"].result(TIMEOUT_S)
        with pytest.raises(KafkaException):
            produce_to_none(fork)
        admin.create_topics([NewTopic("teas", 1, BROKERS)])["teas"].result(TIMEOUT_S)
        produce(fork, "b", topic="teas")
        assert ["b"] == read(fork, 1, topic="teas")
        kinds = [kind for _, kind, _ in told.of("teas", 0)]
        assert ["leadership_taken", "leadership_given_up", "leadership_taken"] == kinds


def produce_to_none(fork: Cluster) -> None:
    """Raises `KafkaException` if there is no topic."""
    errors: list[object] = []
    producer = Producer({**settings(fork), "allow.auto.create.topics": False, "message.timeout.ms": 3000})
    producer.produce("teas", "b", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    for error in filter(None, errors):
        raise KafkaException(error)


def test_a_fork_of_a_fork_whose_partitions_nobody_has_used(kept: Snapshot, tmp_path: Path) -> None:
    with Cluster(from_=kept) as fork:
        snapshot = fork.snapshot(None if kept.directory is None else tmp_path / "kept")
    with Cluster(from_=snapshot) as fork:
        produce(fork, "b", topic="teas", partition=5)
        assert ["a"] == read(fork, 1)


def test_a_recording(kept: Snapshot, tmp_path: Path) -> None:
    with Cluster(from_=kept, record=tmp_path / "recording") as fork:
        led_partitions(fork._running)
        produce(fork, "b", topic="teas", partition=3)
        fork.move_leader("teas", 0)
        produce(fork, "c", topic="teas")
        hang(fork).commit_transaction(TIMEOUT_S)
    check(tmp_path / "recording", answers=8)
