"""Real clients while the cluster misbehaves on demand: coordinators move, epochs run out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.clients.driver import Result, play
from tests.clients.lacking import with_toolchains
from tests.clients.matrix.expectations import families_that_play

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

RECORDS_PER_TRANSACTION = 10
EXHAUSTED_EPOCH = 32_766
MOVE_EVERY_S = 0.2
# Those that speak transaction version 2 have their epoch bumped by every EndTxn.
BUMPED = ["java", "franz-go", "krafka"]
TRANSACTIONAL = families_that_play("transactions")
# It looks for its coordinator once, and gives up when that one says NOT_COORDINATOR.
STAYS_WITH_ITS_COORDINATOR = "kafkajs"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


def played(cluster: Cluster, family: str, scenario: str, topic: str, **options: Any) -> Result:
    with with_toolchains(family):
        return play(family, scenario, cluster.bootstrap.split(",")[0], topic=topic, **options)


def meanwhile(act: Callable[[], object], play_it: Callable[[], Result]) -> tuple[Result, int]:
    """Play something while the other is done again and again; how often it was done."""
    done, count = threading.Event(), 0
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(play_it)
        playing.add_done_callback(lambda _: done.set())
        while not done.wait(MOVE_EVERY_S):
            act()
            count += 1
        return playing.result(), count


@pytest.mark.parametrize("family", [family for family in TRANSACTIONAL if family != STAYS_WITH_ITS_COORDINATOR])
def test_the_coordinator_moves_in_the_middle_of_transactions(cluster: Cluster, name: str, family: str) -> None:
    identity = f"{name}-id"
    result, moves = meanwhile(
        lambda: cluster.move_transaction_coordinator(identity),
        lambda: played(cluster, family, "transactions", name, transactions=40, transactional_id=identity),
    )
    assert 21 * RECORDS_PER_TRANSACTION == result.counts["committed_records"]
    assert moves > 0


@pytest.mark.parametrize("family", BUMPED)
def test_ten_thousand_transactions_over_an_epoch_that_runs_out(cluster: Cluster, name: str, family: str) -> None:
    identity, before = f"{name}-id", 3_000
    played(cluster, family, "transactions", f"{name}-first", transactions=2, transactional_id=identity)
    cluster.set_producer_epoch(identity, EXHAUSTED_EPOCH - before)
    result = played(cluster, family, "transactions", name, transactions=10_000, transactional_id=identity, timeout=300)
    assert 5_001 * RECORDS_PER_TRANSACTION == result.counts["committed_records"]


@pytest.mark.parametrize("family", [family for family in TRANSACTIONAL if family not in BUMPED])
def test_a_producer_that_keeps_its_epoch_begins_at_an_exhausted_one(cluster: Cluster, name: str, family: str) -> None:
    """Its InitProducerId rotates to another producer id; transactions go on as before."""
    identity = f"{name}-id"
    played(cluster, family, "transactions", f"{name}-first", transactions=2, transactional_id=identity)
    cluster.set_producer_epoch(identity, EXHAUSTED_EPOCH)
    result = played(cluster, family, "transactions", name, transactions=20, transactional_id=identity)
    assert 11 * RECORDS_PER_TRANSACTION == result.counts["committed_records"]
