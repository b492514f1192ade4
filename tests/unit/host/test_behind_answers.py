"""The client hears of the outcome of its transaction before the markers are written, and finds them written after.

Whoever begins a transaction meanwhile comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from unittest import mock

import pytest
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer
from tests.unit.host.helpers import batch, only, produce_request

from odradek.broker import Node
from odradek.core.by_type import taken
from odradek.core.timers import Pumps, Timers
from odradek.host.events import Effect, Event, NextTurn, Send, Turn
from odradek.net.clock import Clock
from odradek.net.driver import Driver
from odradek.net.post import Post
from odradek.sim import World
from odradek.wire.errors import ErrorCode


def steps_of_a_commit(cluster: Cluster, producer: Producer) -> list[tuple[Event, Sequence[Effect], int]]:
    """Each step of it: what came in, what went out, and how many markers had been written by then."""
    taken: list[tuple[Event, Sequence[Effect], int]] = []
    step = Node.step

    def watched(node: Node, event: Event, now: int) -> list[Effect]:
        effects = step(node, event, now)
        taken.append((event, effects, node.counters.markers_written))
        return effects

    with mock.patch.object(Node, "step", watched):
        assert OK is producer.commit()
        cluster.world.run()
    return taken


def test_an_answer_does_not_wait_for_markers() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    steps = steps_of_a_commit(cluster, producer)
    answered = next(number for number, (_, effects, _) in enumerate(steps) if any(isinstance(e, Send) for e in effects))
    _, effects, markers = steps[answered]
    assert ([Send, NextTurn], 0) == ([type(effect) for effect in effects], markers)
    # The driver comes back with this before it reads again, and by then all is done.
    event, effects, markers = steps[answered + 1]
    assert (Turn(), 1) == (event, markers)
    assert [] == effects
    assert OK is producer.send(P)


def test_many_answers_leave_before_any_marker_and_one_turn_writes_them_all() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    node = cluster.node(1)
    producers = [Producer.started(cluster, tid=f"x{number}") for number in range(5)]
    for producer in producers:
        assert OK is producer.send(P)
    turn, held = node._turn, list[Turn]()
    with mock.patch.dict(node._steps, {Turn: held.append}):
        for producer in producers:
            assert OK is producer.commit()
    assert (0, 1) == (node.counters.markers_written, len(held))
    node._steps.update([taken(Turn, turn)])
    node.step(held[0], cluster.world.now)
    assert len(producers) == node.counters.markers_written


def test_whoever_ends_a_transaction_comes_before_whoever_begins_one() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    node = cluster.node(1)
    node.turns.is_over = lambda: False  # as a driver with a clock has it
    first, second, beginning = (Producer.started(cluster, tid=tid) for tid in "abc")
    assert OK is first.send(P)
    assert OK is second.send(P)
    turn, held = node._turn, list[Turn]()
    with mock.patch.dict(node._steps, {Turn: held.append}):
        assert OK is first.commit()
        begins = beginning.sending(P)
        plain = produce_request(batch(b"v"), topic_id=cluster.topic_id("t"))
        assert ErrorCode.NONE == only(cluster.ask(1, plain, 13)).error_code
        assert not begins.arrived
        assert OK is second.commit()
        assert (1, 0) == (len(held), node.counters.markers_written)
    node._steps.update([taken(Turn, turn)])
    answers = node.step(held[0], cluster.world.now)
    assert ([Send], 2) == ([type(effect) for effect in answers], node.counters.markers_written)
    assert 1 == cluster.producers(P)[-1].last_sequence + 1


def test_without_a_clock_all_are_served_as_they_come() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    node = cluster.node(1)
    ending, beginning = (Producer.started(cluster, tid=tid) for tid in "ab")
    assert OK is ending.send(P)
    with mock.patch.dict(node._steps, {Turn: lambda _: None}):
        assert OK is ending.commit()
        assert OK is beginning.send(P)


def test_a_work_is_asked_for_by_its_earliest_time() -> None:
    timers = Timers()
    pumps = Pumps(timers)
    shard = mock.Mock()
    for at in (20, 30):
        pumps.by(shard, at)
    assert 20 == timers.wake_at()
    pumps.by(shard, 10)
    assert 10 == timers.wake_at()
    timers.run(10)
    assert [shard] == list(pumps.waiting)
    assert timers.wake_at() is None
    pumps.by(shard, 30)
    assert 30 == timers.wake_at()


@pytest.mark.parametrize(("times", "made"), [((2_000, 3_000, 2_500), 1), ((2_000, None, 1_000), 2), ((None,), 0)])
def test_a_driver_sets_no_timer_that_comes_later_than_the_one_it_has(times: Sequence[int | None], made: int) -> None:
    world, loop, clock = World(), mock.Mock(), Clock()
    node = world.nodes[1]
    driver = Driver(node, peers={}, clock=clock, post=Post(loop), loop=loop)
    now = clock.now()
    for number, seconds in enumerate(times):
        at = None if seconds is None else now + seconds * 1_000
        with mock.patch.object(Node, "wake_at", return_value=at):
            driver.act(partial(node.timers.set, number, at, lambda: None))
    assert made == loop.call_later.call_count


def test_a_timer_that_came_in_vain_is_set_for_what_is_wanted_then() -> None:
    world, loop, clock = World(), mock.Mock(), Clock()
    driver = Driver(world.nodes[1], peers={}, clock=clock, post=Post(loop), loop=loop)
    for wanted in (clock.now() + 10_000, clock.now() + 90_000):
        with mock.patch.object(Node, "wake_at", return_value=wanted):
            driver.act(lambda: None)
    assert 1 == loop.call_later.call_count
    with mock.patch.object(Node, "wake_at", return_value=clock.now() + 90_000):
        driver._tick()
    assert 2 == loop.call_later.call_count
    assert 80 < loop.call_later.call_args.args[0] <= 90
