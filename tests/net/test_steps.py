"""What follows from a hit is done to a real cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.unit.host.helpers import batch, produce_request

from odradek.net.client import BlockingClient
from odradek.testing import Cluster, RuleError, rule
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow


def ask(cluster: Cluster, request: Any, version: int, broker: int = 1) -> Any:
    address = cluster.bootstrap.split(",")[broker - 1]
    with BlockingClient(address, client_id="t") as client:
        return client.ask(request, version)


def produce(cluster: Cluster) -> None:
    ask(cluster, produce_request(batch(b"a")), 9, cluster.leader("t", 0))


def test_a_leader_moves() -> None:
    with Cluster(brokers=3, topics=["t"]) as cluster:
        first = cluster.leader("t", 0)
        cluster.add_rule(rule("PRODUCE", then=[{"move_leader": "next"}], expect=1))
        produce(cluster)
        cluster.wait_for(lambda: cluster.leader("t", 0) != first)
        cluster.add_rule(rule("PRODUCE", then=[{"move_leader": first}], expect=1))
        produce(cluster)
        cluster.wait_for(lambda: cluster.leader("t", 0) == first)


def test_a_coordinator_moves_and_takes_its_time() -> None:
    with Cluster(brokers=2, config={"transaction.state.log.num.partitions": 1}) as cluster:
        before = cluster.leader("__transaction_state", 0)
        steps: list[dict[str, Any]] = [{"set_coordinator_load_ms": 60_000}, {"move_transaction_coordinator": "next"}]
        cluster.add_rule(rule("END_TXN", then=steps, expect=1))
        ask(cluster, EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0), 3)
        cluster.wait_for(lambda: cluster.leader("__transaction_state", 0) != before)
        answer = ask(cluster, EndTxnRequest(transactional_id="x"), 3, cluster.leader("__transaction_state", 0))
        assert 14 == answer.error_code  # COORDINATOR_LOAD_IN_PROGRESS


def test_a_broker_that_was_asked_starts_again() -> None:
    with Cluster(brokers=2) as cluster:
        node = cluster._running.node(2)
        cluster.add_rule(rule("METADATA", broker=2, hold=True, then=[{"restart_broker": "asked"}], expect=1))
        with pytest.raises((ConnectionError, OSError)):
            ask(cluster, MetadataRequest(topics=[]), 12, 2)
        cluster.wait_for(lambda: cluster._running.node(2) is not node)
        assert ask(cluster, MetadataRequest(topics=[]), 12, 2).brokers


def test_rules_release_and_remove_each_other() -> None:
    with Cluster(topics=["t"]) as cluster:
        held = cluster.add_rule(rule("PRODUCE", name="held", times="all", hold=True))
        cluster.add_rule(rule("METADATA", then=[{"release": "held"}]))
        cluster.add_rule(rule("METADATA", skip=1, then=[{"remove": "held"}]))
        for _ in range(2):
            with ThreadPoolExecutor(1) as beside:
                producing = beside.submit(produce, cluster)
                cluster.wait_for(lambda: held.held)
                ask(cluster, MetadataRequest(topics=[]), 12)
                producing.result(10)
        produce(cluster)
        assert 2 == held.hits


def test_time_passes_and_levels_change() -> None:
    with Cluster() as cluster:
        now = cluster._running.clock.now()
        steps = [{"advance_ms": 3_600_000}, {"set_transaction_version": 0}]
        cluster.add_rule(rule("METADATA", then=steps))
        ask(cluster, MetadataRequest(topics=[]), 12)
        cluster.wait_for(lambda: cluster._running.clock.now() >= now + 3_600_000)
        cluster.wait_for(lambda: cluster._running.node(1).image.transaction_version == 0)


def test_an_epoch_is_set() -> None:
    with Cluster() as cluster:
        cluster.add_rule(rule("INIT_PRODUCER_ID", transactional_id="x", then=[{"set_producer_epoch": 100}]))
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
        cluster.wait_for(lambda: ask(cluster, request, 4).error_code == 0)
        cluster.wait_for(lambda: ask(cluster, request, 4).producer_epoch > 100)


def test_what_cannot_be_done_fails_the_test() -> None:
    def play() -> None:
        with Cluster() as cluster:
            cluster.add_rule(rule("METADATA", then=[{"set_transaction_version": 9}]))
            ask(cluster, MetadataRequest(topics=[]), 12)
            cluster.wait_for(lambda: cluster._running.rules.failures)

    with pytest.raises(ValueError, match="only supports versions 0-2"):
        play()


def test_the_simulation_has_no_such_steps() -> None:
    from odradek.sim import World

    with pytest.raises(RuleError, match="this is for real clusters"):
        World().arm(rule("METADATA", then=[{"advance_ms": 1}]))
