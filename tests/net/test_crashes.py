"""A crash that the controller notices later: the broker refuses connections, and clients are still sent to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from tests.unit.host.helpers import batch, produce_request

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.net.client import BlockingClient
from odradek.testing import Cluster, rule
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

SESSION_MS = 9_000
MILLISECOND = timedelta(milliseconds=1)
BROKERS = (1, 2, 3)


def three(**arguments: Any) -> Cluster:
    return Cluster(brokers=3, topics=["t:3"], **arguments)


def addresses(cluster: Cluster) -> dict[int, str]:
    return dict(zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True))


def ask(cluster: Cluster, broker: int, request: Any, version: int) -> Any:
    with BlockingClient(addresses(cluster)[broker], client_id="client") as client:
        return client.ask(request, version)


def named(cluster: Cluster, asked: int) -> tuple[set[int], set[int]]:
    """The brokers and the leaders of the topic that a broker names."""
    answer = ask(cluster, asked, MetadataRequest(topics=None), 9)
    [topic] = [topic for topic in answer.topics if topic.name == "t"]
    return {each.node_id for each in answer.brokers}, {each.leader_id for each in topic.partitions}


def led_by(cluster: Cluster, broker: int) -> int:
    return next(index for index in range(3) if cluster.leader("t", index) == broker)


def group_of(cluster: Cluster, broker: int) -> str:
    """A group that this broker coordinates."""
    topic, partitions = CoordinatorKind.GROUP.topic, 50
    groups = (f"g{number}" for number in range(1_000))
    return next(group for group in groups if cluster.leader(topic, partition_for(group, partitions)) == broker)


def coordinator(cluster: Cluster, asked: int, group: str) -> int:
    answer: int = ask(cluster, asked, FindCoordinatorRequest(key=group, key_type=0), 2).node_id
    return answer


@pytest.mark.parametrize("crashed", BROKERS)
def test_until_a_crash_is_noticed_clients_are_sent_to_a_broker_that_refuses_them(crashed: int) -> None:
    """Broker 1 is the controller: another one is at once, and notices the crash when it is time."""
    others = sorted(set(BROKERS) - {crashed})
    with three() as cluster:
        group = group_of(cluster, crashed)
        cluster.freeze()
        cluster.stop_broker(crashed, fence_after_ms=SESSION_MS)
        with pytest.raises(ConnectionRefusedError):
            named(cluster, crashed)
        cluster.set_replica_lag(others[0], 0)  # which the controller decides
        for advanced in (timedelta(0), SESSION_MS * MILLISECOND - MILLISECOND):
            cluster.advance(advanced)
            for asked in others:
                assert (set(BROKERS), set(BROKERS)) == named(cluster, asked)
                assert crashed == coordinator(cluster, asked, group)
        cluster.advance(MILLISECOND)
        for asked in others:
            assert (set(others), set(others)) == named(cluster, asked)
            assert coordinator(cluster, asked, group) in others
        cluster.start_broker(crashed)
        assert set(BROKERS) == named(cluster, crashed)[0]
        assert coordinator(cluster, crashed, group) in others


def test_a_crash_is_noticed_at_once_if_nothing_else_is_said() -> None:
    with three() as cluster:
        cluster.freeze()
        cluster.stop_broker(2)
        assert ({1, 3}, {1, 3}) == named(cluster, 1)


def test_its_replicas_acknowledge_nothing_until_it_is_fenced() -> None:
    config = {"min.insync.replicas": 2}
    with three(config=config) as cluster, ThreadPoolExecutor(1) as beside:
        index = led_by(cluster, 1)
        cluster.freeze()
        cluster.stop_broker(2, fence_after_ms=5_000)
        counted = cluster.add_rule(rule("PRODUCE", expect=1))
        request = produce_request(batch(b"a"), partition=index)
        request.timeout_ms = 60_000
        producing = beside.submit(ask, cluster, 1, request, 9)
        cluster.wait_for(lambda: counted.hits)
        named(cluster, 1)
        cluster.advance(4_999 * MILLISECOND)
        named(cluster, 1)
        assert not producing.done()
        cluster.advance(MILLISECOND)
        [topic] = producing.result(10).responses
        assert [0] == [each.error_code for each in topic.partition_responses]


def test_a_broker_that_comes_back_before_is_a_new_one() -> None:
    """It leads nothing, and its crash is not noticed any more."""
    with three() as cluster:
        cluster.freeze()
        cluster.stop_broker(2, fence_after_ms=SESSION_MS)
        cluster.start_broker(2)
        everybody = set(BROKERS)
        assert (everybody, {1, 3}) == named(cluster, 2)
        cluster.move_leader("t", 0, to=2)
        cluster.advance(2 * SESSION_MS * MILLISECOND)
        assert 2 == cluster.leader("t", 0)
        assert everybody == named(cluster, 2)[0]


def test_a_broker_that_starts_meanwhile_notices_nothing_either() -> None:
    with three() as cluster:
        cluster.freeze()
        cluster.stop_broker(3)
        cluster.stop_broker(2, fence_after_ms=SESSION_MS)
        cluster.start_broker(3)
        assert set(BROKERS) == named(cluster, 3)[0]
        cluster.advance(SESSION_MS * MILLISECOND)
        assert {1, 3} == named(cluster, 3)[0]


def test_a_crash_is_noticed_by_whoever_runs_by_then() -> None:
    with three() as cluster:
        cluster.freeze()
        cluster.stop_broker(2, fence_after_ms=SESSION_MS)
        for broker in (1, 3):
            cluster.stop_broker(broker)
        cluster.advance(SESSION_MS * MILLISECOND)
        cluster.start_broker(3)
        cluster.wait_for(lambda: {3} == named(cluster, 3)[0])


def test_a_broker_that_was_paused_may_crash_unnoticed() -> None:
    with three() as cluster:
        cluster.freeze()
        cluster.pause_broker(2)
        cluster.stop_broker(2, fence_after_ms=20_000)
        cluster.advance(19_999 * MILLISECOND)
        assert set(BROKERS) == named(cluster, 1)[0]
        cluster.advance(MILLISECOND)
        assert {1, 3} == named(cluster, 1)[0]


def test_a_step_of_a_rule_stops_a_broker_unnoticed_and_another_starts_it() -> None:
    with three() as cluster:
        cluster.freeze()
        cluster.add_rule(rule("METADATA", broker=2, then=[{"stop_broker": "asked", "fence_after_ms": SESSION_MS}]))
        with suppress(ConnectionError):  # it may have answered before
            named(cluster, 2)
        cluster.wait_for(lambda: 2 not in cluster._running.heard)
        assert set(BROKERS) == named(cluster, 1)[0]
        cluster.advance(SESSION_MS * MILLISECOND)
        assert {1, 3} == named(cluster, 1)[0]
        cluster.add_rule(rule("METADATA", broker=1, then=[{"start_broker": 2}]))
        named(cluster, 1)
        cluster.wait_for(lambda: 2 in cluster._running.heard)
        assert set(BROKERS) == named(cluster, 2)[0]


@pytest.mark.client
def test_a_real_client_meets_refused_connections_and_goes_on_when_the_crash_is_noticed() -> None:
    refused: list[KafkaError] = []
    delivered: list[KafkaError | None] = []
    with three() as cluster:
        index = led_by(cluster, 2)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "error_cb": refused.append,
                "topic.metadata.refresh.interval.ms": 200,
                "reconnect.backoff.max.ms": 200,
            }
        )
        producer.list_topics("t", timeout=10)
        cluster.freeze()
        cluster.stop_broker(2, fence_after_ms=SESSION_MS)
        producer.produce("t", b"a", partition=index, on_delivery=lambda error, _: delivered.append(error))
        cluster.wait_for(lambda: producer.poll(0.05) or any("Connection refused" in each.str() for each in refused))
        topic = producer.list_topics("t", timeout=10).topics["t"]
        assert 2 == topic.partitions[index].leader
        assert [] == delivered
        cluster.advance(SESSION_MS * MILLISECOND)
        assert 0 == producer.flush(20)
        assert [None] == delivered
        assert 2 != producer.list_topics("t", timeout=10).topics["t"].partitions[index].leader
