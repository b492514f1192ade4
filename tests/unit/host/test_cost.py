"""What a transaction costs a node, in calls: unlike a time, the count is the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from unittest import mock

import pytest
from bench.node_cost import own_costs
from tests.counted import Calls
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer
from tests.unit.host.helpers import batch, only, produce_request, topic_id

from odradek.broker import Node
from odradek.core.machine import LogRecord, Refused
from odradek.host.events import Effect, Event
from odradek.host.shard import Shard, Work
from odradek.records.batch import plain_batch
from odradek.sim import World
from odradek.txn.entry import Entry, encode_entry, encode_id
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest

CALLS_MAX, PYTHON_CALLS_MAX = 429, 206
"""All calls, and those of Python functions, in the steps of a broker that is its own coordinator; they only go down."""
WAYS_MAX = {
    "transactional Produce": (24, 56),
    "EndTxn": (24, 76),
    "TxnOffsetCommit": (26, 66),
    "heartbeat": (18, 35),
}
"""Modules and changes of file of each request (`bench.node_cost`); they only go down."""
HOPS = [
    "Connection.received",
    "FrameBuffer.whole",
    "Exchange._go_on",
    "Connection._serve",  # reads the header, finds the endpoint
    "read_v3",  # of all versions from 3 on
    "begin",
    "Exchange._run",
    "TransactionApi.end_txn",
]
"""The functions from the bytes of an EndTxn to its method: seven calls that every request pays for."""
BEAT_CALLS_MAX, BEAT_PYTHON_CALLS_MAX = 124, 68
"""The same of a heartbeat of a consumer group at rest, with its connection."""
PRODUCE_CALLS_MAX = {1: (96, 35), 150: (155, 45)}
"""The same of a Produce without a producer and with records of 100 bytes, from bytes to bytes over a connection that is
there, by the number of records."""
FEW = 10
BATCH = 1_000


def test_a_transaction_of_one_record(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(calls_itself=True, tells=False)
    calls, steps = cost(cluster, Producer.started(cluster))
    with capsys.disabled():
        print(f" {calls}, in {steps} steps", end="")
    assert calls.all <= CALLS_MAX
    assert calls.python <= PYTHON_CALLS_MAX


def test_the_way_of_a_request_through_the_modules() -> None:
    longer = {
        name: (each.modules, each.changes_of_file)
        for name, each in own_costs().items()
        if each.modules > WAYS_MAX[name][0] or each.changes_of_file > WAYS_MAX[name][1]
    }
    assert {} == longer


def test_the_hops_from_the_bytes_of_a_request_to_its_method() -> None:
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    for _ in range(2):
        transaction(cluster, producer)
    assert OK is producer.send(P)
    assert HOPS == hops(producer.commit, to=HOPS[-1])


def test_a_step_asks_a_shard_once_what_it_owes() -> None:
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    transaction(cluster, producer)
    assert OK is producer.commit_offset(6)  # the group's coordinator reads its log in this step, and is asked for that
    assert OK is producer.commit()
    asked: list[list[Shard[Work]]] = []
    step, settle = Node.step, Shard.settle

    def stepping(node: Node, event: Event, now: int) -> list[Effect]:
        asked.append([])
        return step(node, event, now)

    def settling(shard: Shard[Work]) -> None:
        asked[-1].append(shard)
        settle(shard)

    with mock.patch.multiple(Shard, settle=settling, pump=settling), mock.patch.object(Node, "step", stepping):
        transaction(cluster, producer)
        assert OK is producer.commit_offset(7)
        assert OK is producer.commit()
    often = [len(shards) for shards in asked if shards]
    assert len(often) >= 5
    assert {1} == {shards.count(each) for shards in asked for each in shards}


def hops(act: Callable[[], object], *, to: str) -> list[str]:
    """The functions of the package that a step enters, from the one that takes the bytes."""
    entered: list[str] = []
    step = Node.step

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/odradek/" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_qualname)

    def profiled(self: Node, *arguments: object) -> object:
        sys.setprofile(enter)
        try:
            return step(self, *arguments)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)

    with mock.patch.object(Node, "step", profiled):
        act()
    return entered[entered.index(HOPS[0]) : entered.index(to) + 1]


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
    shard = cluster.node(cluster.coordinator("x")).transaction_coordinators.of("x")
    assert not isinstance(shard, Refused)
    now = cluster.world.now
    for first in range(0, ids, BATCH):
        numbers = range(first, min(first + BATCH, ids))
        records = [LogRecord(encode_id(f"id-{number}"), encode_entry(at_rest(number, now), 1)) for number in numbers]
        shard.machine.apply(plain_batch(records, timestamp=now))
    assert ids + 1 == len(list(shard.machine.entries()))
    return cost(cluster, producer)[0].all


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
    return cost(cluster, Producer.started(cluster))[0].all


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
        print(f" {calls}", end="")
    assert calls.all <= BEAT_CALLS_MAX
    assert calls.python <= BEAT_PYTHON_CALLS_MAX


@pytest.mark.parametrize("records", PRODUCE_CALLS_MAX)
def test_a_produce(records: int, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(brokers=1, topics=["t"], tells=False)
    client = world.client(1)
    request = produce_request(batch(*[b"v" * 100] * records), topic_id=topic_id(world))

    def produce() -> None:
        assert ErrorCode.NONE == only(client.ask(request, 13)).error_code

    calls, steps = counted(produce)
    with capsys.disabled():
        print(f" {calls}", end="")
    assert steps == 1
    calls_max, python_calls_max = PRODUCE_CALLS_MAX[records]
    assert calls.all <= calls_max
    assert calls.python <= python_calls_max


def cost(cluster: Cluster, producer: Producer) -> tuple[Calls, int]:
    """The calls and the steps of a transaction of one record, once everything has been imported."""
    return counted(lambda: transaction(cluster, producer))


def counted(act: Callable[[], None]) -> tuple[Calls, int]:
    """The calls and the steps of something that has been done before."""
    for _ in range(3):
        act()
    calls, steps = Calls(), 0
    step = Node.step

    def profiled(self: Node, event: Event, now: int) -> list[Effect]:
        nonlocal steps
        steps += 1
        return calls.of(partial(step, self, event, now))

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
