"""What a shard's pump costs, and that nothing owed is forgotten."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from msgspec.structs import replace
from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.kips.view import P

from odradek.core.machine import LogRecord, Proposed, Refused
from odradek.txn.entry import encode_entry, encode_id
from odradek.txn.shard import TransactionShard
from odradek.txn.states import TxnState
from odradek.txn.works import TxnWork
from odradek.wire.registry import ApiKey


def calls_in(act: Callable[[], object]) -> int:
    """How many Python functions are entered meanwhile."""
    count = 0

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(entered)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def shard_of(cluster: Cluster, tid: str) -> TransactionShard:
    shard = cluster.node(cluster.coordinator(tid)).transaction_coordinators.of(tid)
    assert not isinstance(shard, Refused)
    return shard


def _append(shard: TransactionShard, records: list[LogRecord]) -> None:
    assert shard.propose(Proposed(tuple(records), None)) is None


def prepared(count: int) -> tuple[Cluster, Producer]:
    """So many transactions whose markers nobody acknowledges, and a producer of the same coordinator."""
    cluster = Cluster(transaction_state_log_num_partitions=1)
    producer = Producer.started(cluster)
    producer.begin(P)
    producer.send(P)
    shard = shard_of(cluster, "x")
    entry = shard.machine.entry("x")
    assert entry is not None
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    records = []
    for number in range(count):
        other = replace(
            entry,
            transactional_id=f"id-{number}",
            producer_id=100_000 + number,
            state=TxnState.PREPARE_COMMIT,
            partitions=(P,),
            start_timestamp=cluster.world.now,
        )
        records.append(LogRecord(encode_id(other.transactional_id), encode_entry(other, 1)))
    cluster.do(partial(_append, shard, records))
    cluster.world.advance(1)  # a thousand are listed at a time
    assert count == shard.machine.transactions_owing_markers
    return cluster, producer


@pytest.mark.slow
def test_an_end_costs_the_same_however_much_is_owed() -> None:
    costs = {}
    for count in (10, 1000, 4000):
        cluster, producer = prepared(count)
        costs[count] = calls_in(producer.commit)
        assert count + 1 == shard_of(cluster, "x").machine.transactions_owing_markers
    assert costs[4000] < 1.2 * costs[10], costs


def test_a_work_that_comes_to_nothing_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    producer = Producer.started(cluster)
    producer.begin(P)
    producer.send(P)
    shard = shard_of(cluster, "x")
    real = shard.perform
    given: list[TxnWork] = []

    async def forgetful(work: TxnWork) -> None:
        given.append(work)
        if len(given) > 2:
            await real(work)

    monkeypatch.setattr(shard, "perform", forgetful)
    producer.commit()
    cluster.world.run()
    assert 3 == len(given)
    assert {given[0].key} == {work.key for work in given}
    assert "CompleteCommit" == cluster.state("x")
