"""What a transaction costs a node, in calls: unlike a time, the count is the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from unittest import mock

import pytest
from bench.node_cost import own_costs
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer

from odradek.broker import Node
from odradek.core.machine import LogRecord, Refused
from odradek.records.plain import plain_batch
from odradek.txn.entry import Entry, encode_entry, encode_id
from odradek.txn.states import TxnState
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest

CALLS_MAX = 531
"""Of Python and of C, in the steps of a broker that is its own coordinator; it was 679 with messages to itself."""
WAYS_MAX = {
    "transactional Produce": (33, 79),
    "EndTxn": (28, 92),
    "TxnOffsetCommit": (42, 112),
    "heartbeat": (20, 38),
}
"""Modules and changes of file of each request (`bench.node_cost`); they only go down."""
BEAT_CALLS_MAX = 165
"""The same of a heartbeat of a consumer group at rest, with its connection; it was 194."""
FEW = 10
BATCH = 1_000


def test_a_transaction_of_one_record(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(calls_itself=True, tells=False)
    calls, steps = cost(cluster, Producer.started(cluster))
    with capsys.disabled():
        print(f" {calls} calls in {steps} steps", end="")
    assert calls <= CALLS_MAX


def test_the_way_of_a_request_through_the_modules() -> None:
    longer = {
        name: (each.modules, each.changes_of_file)
        for name, each in own_costs().items()
        if each.modules > WAYS_MAX[name][0] or each.changes_of_file > WAYS_MAX[name][1]
    }
    assert {} == longer


@pytest.mark.parametrize("ids", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_it_costs_the_same_with_many_transactional_ids(ids: int) -> None:
    assert cost_beside_ids(ids) <= cost_beside_ids(FEW)


def test_it_costs_the_same_with_many_open_transactions() -> None:
    # Its deadlines lie elsewhere among theirs, so that one or two of its own are forgotten sooner or later.
    assert cost_beside_open(300) <= cost_beside_open(FEW) + 4


def cost_beside_ids(ids: int) -> int:
    """The calls of a transaction whose coordinator knows so many ids besides."""
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    shard = cluster.node(cluster.coordinator("x")).coordinators.transactional("x")
    assert not isinstance(shard, Refused)
    now = cluster.world.now
    for first in range(0, ids, BATCH):
        numbers = range(first, min(first + BATCH, ids))
        records = [LogRecord(encode_id(f"id-{number}"), encode_entry(at_rest(number, now), 1)) for number in numbers]
        shard.machine.apply(plain_batch(records, timestamp=now))
    assert ids + 1 == len(list(shard.machine.entries()))
    return cost(cluster, producer)[0]


def at_rest(number: int, now: int) -> Entry:
    """An id that has ended its transaction."""
    return Entry(
        transactional_id=f"id-{number}",
        producer_id=1_000_000 + number,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TxnState.COMPLETE_COMMIT,
        last_update_timestamp=now,
        start_timestamp=now,
        previous_producer_id=1_000_000 + number,
    )


def cost_beside_open(transactions: int) -> int:
    """The calls of a transaction while so many others are open in its partition."""
    cluster = Cluster(calls_itself=True, tells=False)
    for number in range(transactions):
        assert OK is Producer.started(cluster, tid=f"id-{number}").send(P)
    return cost(cluster, Producer.started(cluster))[0]


def test_a_heartbeat_of_a_consumer_group_at_rest(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(calls_itself=True, tells=False, brokers=1, group_consumer_assignment_interval_ms=0)
    [node_id] = cluster.world.nodes
    cluster.ask(node_id, FindCoordinatorRequest(key_type=0, key="g"), 3)
    cluster.world.run()
    joins = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000)
    joins.subscribed_topic_names, joins.topic_partitions = ["t"], []
    epoch = cluster.ask(node_id, joins, 1).member_epoch
    owned = [TopicPartitions(topic_id=cluster.topic_id("t"), partitions=[0, 1, 2])]

    def beat() -> None:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, topic_partitions=owned)
        answer = cluster.ask(node_id, request, 1)
        assert (answer.error_code, answer.member_epoch) == (0, epoch)

    calls, _ = counted(beat)
    with capsys.disabled():
        print(f" {calls} calls", end="")
    assert calls < BEAT_CALLS_MAX


def cost(cluster: Cluster, producer: Producer) -> tuple[int, int]:
    """The calls and the steps of a transaction of one record, once everything has been imported."""
    return counted(lambda: transaction(cluster, producer))


def counted(act: Callable[[], None]) -> tuple[int, int]:
    """The calls and the steps of something that has been done before."""
    for _ in range(3):
        act()
    calls = steps = 0

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    step = Node.step

    def profiled(self: Node, *arguments: object) -> object:
        nonlocal steps
        steps += 1
        sys.setprofile(entered)
        try:
            return step(self, *arguments)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)

    gc.collect()
    gc.disable()  # what ends with the garbage of other tests is no cost of this one
    try:
        with mock.patch.object(Node, "step", profiled):
            act()
    finally:
        gc.enable()
    return calls, steps


def transaction(cluster: Cluster, producer: Producer) -> None:
    """One record, committed."""
    assert OK is producer.send(P)
    assert OK is producer.commit()
    cluster.world.run()
