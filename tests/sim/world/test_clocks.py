"""Clocks of simulated brokers that are set."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer

from odradek.host.events import Turn
from odradek.sim.run import KEPT_MS, Run
from odradek.sim.schedules.nemesis import DAY_MS, HOUR_MS, Nemesis
from odradek.sim.workloads.draw import draw
from odradek.sim.world.world import World
from odradek.txn.states import TxnState

AHEAD_MS = 5_000


def clock(world: World, node_id: int) -> int:
    """What the broker takes the time for."""
    world.post(node_id, Turn())
    world.run()
    return world.nodes[node_id].clock.now


def test_one_broker_is_ahead_of_the_others() -> None:
    world = World(brokers=2)
    world.set_clock(1, ahead_ms=AHEAD_MS)
    assert (world.now + AHEAD_MS, world.now) == (clock(world, 1), clock(world, 2))
    world.advance(70)
    assert (world.now + AHEAD_MS, world.now) == (clock(world, 1), clock(world, 2))


def test_a_clock_that_is_set_back_stands_still_until_its_time_has_come() -> None:
    world = World(brokers=1)
    world.set_clock(1, ahead_ms=AHEAD_MS)
    shown = clock(world, 1)
    world.set_clock(1, ahead_ms=0)
    assert shown == clock(world, 1)
    world.advance(AHEAD_MS - 1)
    assert shown == clock(world, 1)
    world.advance(2)
    assert shown + 1 == clock(world, 1) == world.now


def test_a_broker_that_starts_again_has_the_clock_of_its_machine() -> None:
    world = World(brokers=2)
    world.set_clock(2, ahead_ms=AHEAD_MS)
    world.stop_broker(2)
    world.start_broker(2)
    assert world.now + AHEAD_MS == world.nodes[2].clock.now


def test_a_transaction_times_out_by_the_clock_of_its_coordinator() -> None:
    cluster = Cluster(transaction_abort_timed_out_transaction_cleanup_interval_ms=100)
    producer = Producer.started(cluster, timeout_ms=AHEAD_MS - 1_000)
    assert OK is producer.send(P)
    coordinator = cluster.coordinator("x")
    others = [node_id for node_id in cluster.world.nodes if node_id != coordinator]
    for node_id in others:
        cluster.world.set_clock(node_id, ahead_ms=AHEAD_MS)
    cluster.world.run()
    assert TxnState.ONGOING is state_of(cluster)
    cluster.world.set_clock(coordinator, ahead_ms=AHEAD_MS)
    cluster.world.run()
    assert TxnState.COMPLETE_ABORT is state_of(cluster)


def test_what_is_to_happen_at_a_time_happens_by_the_clock_that_is_ahead() -> None:
    cluster = Cluster(brokers=1, transaction_abort_timed_out_transaction_cleanup_interval_ms=10)
    producer = Producer.started(cluster, timeout_ms=3_000)
    assert OK is producer.send(P)
    cluster.world.set_clock(cluster.coordinator("x"), ahead_ms=2_000)
    cluster.world.advance(900)
    assert TxnState.ONGOING is state_of(cluster)
    cluster.world.advance(200)
    assert TxnState.COMPLETE_ABORT is state_of(cluster)


def test_a_clock_is_set_days_ahead_as_long_as_what_a_run_needs_is_kept() -> None:
    steps = set()
    for seed in range(4):
        world = World(brokers=1)
        nemesis = Nemesis(world, deeds=(), duration_ms=0, levels=(2,))
        nemesis.random = Random(seed)
        ahead = [0]
        for _ in range(20):
            nemesis.set_a_clock_days_ahead()
            ahead.append(world.clock_ahead(1))
        steps |= {after - before for before, after in pairwise(ahead)}
        assert ahead[-1] < KEPT_MS
        assert 20 == len(nemesis.days_passed)
    assert {DAY_MS, 8 * DAY_MS, HOUR_MS} == steps


def state_of(cluster: Cluster) -> TxnState:
    shard = cluster.node(cluster.coordinator("x")).transaction_coordinators.led()
    [entry] = [entry for each in shard for entry in each.machine.entries()]
    return entry.state


def test_clocks_are_set_in_their_workload() -> None:
    run = Run(draw(1, "set-clocks"))
    run.play()
    told = [what for _, what in run.nemesis.deeds if what.startswith("the clock of")]
    ahead = {int(what.split()[-3]) for what in told}
    assert {0} < ahead
    assert any(run.world.clock_ahead(node_id) for node_id in run.world.nodes)
