"""How far a transaction goes through the code: modules, calls, and changes of file, in one broker's steps.

    python -m bench.node_cost

First requests to one broker, which is its own coordinator: a Produce that joins a transaction, the EndTxn of that
transaction until its marker is written, a TxnOffsetCommit that joins one, and a heartbeat of a consumer group at rest.
Then two simulated brokers. A Produce that joins a transaction whose coordinator is the other broker, and the EndTxn of
that transaction until its marker is written; the producer is connected. Counted are distinct files below
`broker/odradek` without what is generated and what simulates, and consecutive calls in different files of them; then
all calls of Python functions and of C functions, those of generated code included.
Then the time of a whole transaction of one record in the steps of one broker that is its own coordinator, that of its
EndTxn alone, and the bound: the bytes that have to be read, checked, written and appended, in a loop with nothing
around it. Each is the least of many: what else a machine does makes times longer, never shorter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from types import CodeType, FrameType
from unittest import mock

from msgspec import Struct
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer

import odradek
from odradek.broker import Node
from odradek.config.table import TopicConfig
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import LogRecord
from odradek.host.events import Connected, Effect, Event
from odradek.log.log import Log
from odradek.log.log_store import LogStore
from odradek.records.batch import plain_batch
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek.records.validate import TopicRules, Validated, validate_produce
from odradek.txn.entry import Entry, encode_entry, encode_id
from odradek.txn.states import TxnState
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.wire.registry import decode, encode

__all__ = ["Cost", "costs", "least_us", "own_costs"]

PACKAGE = Path(odradek.__file__).parent
ROUNDS = 2_000
LEFT_OUT = tuple(str(PACKAGE / folder) for folder in ("sim", "wire/messages"))


class Cost(Struct, frozen=True):
    """What was passed."""

    modules: int
    changes_of_file: int
    python_calls: int
    c_calls: int


def cost(act: Callable[[], object]) -> Cost:
    """What the steps of all brokers pass while this is done."""
    files: list[str] = []
    known: dict[CodeType, bool] = {}
    python_calls = c_calls = 0

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal python_calls, c_calls
        if event == "c_call":
            c_calls += 1
        elif event == "call":
            python_calls += 1
            code = frame.f_code
            if code not in known:
                known[code] = code.co_filename.startswith(str(PACKAGE)) and not code.co_filename.startswith(LEFT_OUT)
            if known[code]:
                files.append(code.co_filename)

    step = Node.step

    def profiled(node: Node, event: Event, now: int) -> list[Effect]:
        nonlocal c_calls
        if isinstance(event, Connected):
            return step(node, event, now)
        sys.setprofile(entered)
        try:
            return step(node, event, now)
        finally:
            sys.setprofile(None)
            c_calls -= 1  # this one

    with mock.patch.object(Node, "step", profiled):
        act()
    return Cost(len(set(files)), sum(a != b for a, b in pairwise(files)), python_calls, c_calls)


def own_costs() -> dict[str, Cost]:
    """The requests to a broker that is its own coordinator, once everything has been imported."""
    cluster = Cluster(brokers=1, calls_itself=True, tells=False, group_consumer_assignment_interval_ms=0)
    producer = Producer.started(cluster)
    beat = heartbeat(cluster)
    for _ in range(3):
        _do(cluster, lambda: producer.commit_offset(1))
        _do(cluster, lambda: producer.send(P))
        _do(cluster, producer.commit)
        beat()
    found = {
        "transactional Produce": cost(lambda: _do(cluster, lambda: producer.send(P))),
        "EndTxn": cost(lambda: _do(cluster, producer.commit)),
        "TxnOffsetCommit": cost(lambda: _do(cluster, lambda: producer.commit_offset(1))),
    }
    _do(cluster, producer.commit)
    return {**found, "heartbeat": cost(beat)}


def heartbeat(cluster: Cluster) -> Callable[[], None]:
    """A heartbeat of the one member of a consumer group, which has all of its partitions."""
    [node_id] = cluster.world.nodes
    joins = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000)
    joins.subscribed_topic_names, joins.topic_partitions = ["t"], []
    member = cluster.ask(node_id, joins, 1)
    cluster.world.run()
    indexes = range(len(cluster.node(node_id).image.topics["t"].partitions))
    owned = [TopicPartitions(topic_id=cluster.topic_id("t"), partitions=[*indexes])]
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=member.member_epoch, topic_partitions=owned
    )

    def beat() -> None:
        assert cluster.ask(node_id, request, 1).error_code == 0

    return beat


def costs() -> dict[str, Cost]:
    """Both requests, once everything has been imported and connected."""
    cluster = Cluster(brokers=2, tells=False)
    leader = cluster.leader(P)
    tid = next(f"x{n}" for n in range(100) if cluster.leader(coordinates(f"x{n}")) != leader)
    producer = Producer.started(cluster, tid=tid)
    for _ in range(3):
        _do(cluster, lambda: producer.send(P))
        _do(cluster, producer.commit)
    return {
        "Produce that joins a transaction": cost(lambda: _do(cluster, lambda: producer.send(P))),
        "EndTxn with its marker": cost(lambda: _do(cluster, producer.commit)),
    }


def least_us(rounds: int = ROUNDS) -> tuple[float, float]:
    """The least time of a transaction of one record in the steps of a broker that asks itself, and of its EndTxn."""
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    spent: list[int] = []
    step = Node.step

    def timed(node: Node, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Connected):
            return step(node, event, now)
        began = perf_counter_ns()
        effects = step(node, event, now)
        spent[-1] += perf_counter_ns() - began
        return effects

    with mock.patch.object(Node, "step", timed):
        for _ in range(rounds):
            for act in (lambda: producer.send(P), producer.commit):
                spent.append(0)
                _do(cluster, act)
    produces, ends = spent[::2], spent[1::2]
    return min(map(sum, zip(produces, ends, strict=True))) / 1_000, min(ends) / 1_000


def bare_us(rounds: int = ROUNDS) -> tuple[float, float]:
    """The same for the work on bytes alone: two requests, five appends with four records of ours, two responses."""
    log = Log(LogStore(bytes_max=1 << 28), topic_id=bytes(16), index=0, config=TopicConfig())
    log.leader_epoch = 0
    rules = TopicRules(name="t")
    batch = build_batch(
        [Record(timestamp=1, value=b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    produce = encode(_produce(batch), 13)
    end = encode(EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 5)
    entry = Entry("x", 1, 0, 60_000, TxnState.ONGOING, 1, 1, (P,))
    answer = ProduceResponse(
        responses=[TopicProduceResponse(topic_id=bytes(16), partition_responses=[PartitionProduceResponse()])]
    )

    def append(key: bytes, value: bytes) -> None:
        log.append(plain_batch((LogRecord(key, value),), timestamp=1), leader_epoch=0, now=1)

    def of_produce() -> None:
        request = decode(ProduceRequest, produce, 13)
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        validated = validate_produce(records, produce_version=13, topic=rules, now=1, at_once=True)
        assert isinstance(validated, Validated)
        append(encode_id("x"), encode_entry(entry, 1))
        log.append(validated.batch, leader_epoch=0, now=1)
        encode(answer, 13)

    def of_end() -> None:
        request = decode(EndTxnRequest, end, 5)
        append(encode_id(request.transactional_id), encode_entry(entry, 1))
        marker = end_txn_marker(producer_id=1, producer_epoch=1, commit=True, coordinator_epoch=0, timestamp=1)
        log.append(marker, leader_epoch=0, now=1)
        append(encode_id(request.transactional_id), encode_entry(entry, 1))
        encode(EndTxnResponse(producer_id=1, producer_epoch=1), 5)

    times = [(_timed(of_produce), _timed(of_end)) for _ in range(rounds)]
    return min(map(sum, times)) / 1_000, min(end for _, end in times) / 1_000


def _produce(batch: bytes) -> ProduceRequest:
    data = TopicProduceData(
        topic_id=bytes(16), partition_data=[PartitionProduceData(index=0, records=memoryview(batch))]
    )
    return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1, topic_data=[data])


def _timed(act: Callable[[], None]) -> int:
    began = perf_counter_ns()
    act()
    return perf_counter_ns() - began


def coordinates(tid: str) -> tuple[str, int]:
    """The partition that coordinates a transactional id, in a cluster of the tests."""
    return CoordinatorKind.TRANSACTION.topic, partition_for(tid, 3)


def _do(cluster: Cluster, act: Callable[[], object]) -> None:
    assert act() is OK
    cluster.world.run()


if __name__ == "__main__":
    print("| request | modules | changes of file | calls of Python functions | of C functions |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, each in {**own_costs(), **costs()}.items():
        print(f"| {name} | {each.modules} | {each.changes_of_file} | {each.python_calls} | {each.c_calls} |")
    for name, (whole, end) in (("in a broker", least_us()), ("the bytes alone", bare_us())):
        print(f"\n{name}: {whole:.0f} µs for a transaction of one record, {end:.0f} of them for its EndTxn")
