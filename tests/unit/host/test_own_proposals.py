"""A coordinator adopts what it has proposed without reading it back: a replay of its log must lead to the same."""

from __future__ import annotations

import pytest
from tests.kips.cluster import ABORT, COMMIT, Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer
from tests.kips.styles import NEW, OLD

from odradek.core.machine import Refused
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.entry import VALUE_VERSIONS, Entry
from odradek.txn.shard import TransactionShard


def shard_of(cluster: Cluster, tid: str) -> TransactionShard:
    shard = cluster.node(cluster.coordinator(tid)).transaction_coordinators.of(tid)
    assert not isinstance(shard, Refused)
    return shard


def replayed(shard: TransactionShard) -> dict[str, Entry]:
    machine = TxnCoordinator(config=shard.settings.config, coordinator_epoch=0, leader_of=lambda topic, index: None)
    for batch in shard.partition.committed_since(0):
        machine.apply(batch)
    return {entry.transactional_id: entry for entry in machine.entries()}


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("calls_itself", [False, True])
def test_a_replay_leads_to_the_same(level: int, calls_itself: bool) -> None:
    cluster = Cluster(level, calls_itself=calls_itself)
    style = NEW if level == 2 else OLD
    producer = Producer.started(cluster, style)
    for outcome in (COMMIT, ABORT, COMMIT):
        producer.transact(P, b"v", outcome=outcome)
        cluster.world.run()
        assert OK is producer.init(producer.pair)
    producer.begin(P)
    assert OK is producer.send(P)
    shard = shard_of(cluster, "x")
    held = {entry.transactional_id: entry.as_stored(VALUE_VERSIONS[level]) for entry in shard.machine.entries()}
    assert held == {key: entry.as_stored(VALUE_VERSIONS[level]) for key, entry in replayed(shard).items()}
    assert held


def test_what_was_adopted_is_not_folded_again() -> None:
    cluster = Cluster()
    producer = Producer.started(cluster)
    shard = shard_of(cluster, "x")
    assert shard._mark == shard.partition.log_end_offset
    applied = shard.machine.apply
    try:
        shard.machine.apply = lambda batch: pytest.fail("it was read back")  # type: ignore[method-assign]
        assert OK is producer.send(P)
        assert shard._mark == shard.partition.log_end_offset
    finally:
        shard.machine.apply = applied  # type: ignore[method-assign]
