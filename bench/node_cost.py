"""How far a transaction goes through the code: modules, calls, and changes of file, in one broker's steps.

    python -m bench.node_cost

Two simulated brokers. A Produce that joins a transaction whose coordinator is the other broker, and the EndTxn of that
transaction until its marker is written. Counted are distinct files below `broker/odradek` without what is generated and
what simulates, Python calls in them, and consecutive calls in different files.
Then the time of a whole transaction of one record in the steps of one broker that is its own coordinator, as the least
of many: what else a machine does makes times longer, never shorter.
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
from odradek.node.coordinators import CoordinatorKind, partition_for
from odradek.node.events import Effect, Event
from odradek.node.node import Node

__all__ = ["Cost", "costs", "least_us"]

PACKAGE = Path(odradek.__file__).parent
ROUNDS = 2_000
LEFT_OUT = tuple(str(PACKAGE / folder) for folder in ("sim", "wire/messages"))


class Cost(Struct, frozen=True):
    """What was passed."""

    modules: int
    calls: int
    changes_of_file: int


def cost(act: Callable[[], object]) -> Cost:
    """What the steps of all brokers pass while this is done."""
    files: list[str] = []
    known: dict[CodeType, bool] = {}

    def entered(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in known:
            known[code] = code.co_filename.startswith(str(PACKAGE)) and not code.co_filename.startswith(LEFT_OUT)
        if known[code]:
            files.append(code.co_filename)

    step = Node.step

    def profiled(node: Node, event: Event, now: int) -> list[Effect]:
        sys.setprofile(entered)
        try:
            return step(node, event, now)
        finally:
            sys.setprofile(None)

    with mock.patch.object(Node, "step", profiled):
        act()
    return Cost(len(set(files)), len(files), sum(a != b for a, b in pairwise(files)))


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


def least_us(rounds: int = ROUNDS) -> float:
    """The least time of a transaction of one record in the steps of a broker that asks itself."""
    cluster = Cluster(calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    spent: list[int] = []
    step = Node.step

    def timed(node: Node, event: Event, now: int) -> list[Effect]:
        began = perf_counter_ns()
        effects = step(node, event, now)
        spent[-1] += perf_counter_ns() - began
        return effects

    with mock.patch.object(Node, "step", timed):
        for _ in range(rounds):
            spent.append(0)
            _do(cluster, lambda: producer.send(P))
            _do(cluster, producer.commit)
    return min(spent) / 1_000


def coordinates(tid: str) -> tuple[str, int]:
    """The partition that coordinates a transactional id, in a cluster of the tests."""
    return CoordinatorKind.TRANSACTION.topic, partition_for(tid, 3)


def _do(cluster: Cluster, act: Callable[[], object]) -> None:
    assert act() is OK
    cluster.world.run()


if __name__ == "__main__":
    print("| request | modules | calls | changes of file |\n| --- | ---: | ---: | ---: |")
    for name, each in costs().items():
        print(f"| {name} | {each.modules} | {each.calls} | {each.changes_of_file} |")
    print(f"\n{least_us():.0f} µs for a transaction of one record, the least of {ROUNDS:,}")
