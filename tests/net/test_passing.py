"""Time that is advanced passes from one thing that is due to the next, and brokers talk in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from odradek.core.machine import Fact
from odradek.net.client import BlockingClient
from odradek.net.post import Post
from odradek.testing import Cluster
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol

MINUTE = timedelta(minutes=1)
GRAIN_MS = 300
"""A two-hundredth of a minute: what lies closer together happens at once."""


class Heard:
    """Takes facts, each with the brokers' time."""

    def __init__(self) -> None:
        self.clock: Any = None
        self.facts: list[tuple[int, Fact]] = []

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        if self.clock is not None:
            self.facts += [(self.clock.now(), fact) for fact in facts]

    def when(self, kind: str, **fields: object) -> int:
        [at] = [at for at, fact in self.facts if fact.kind == kind and fields.items() <= fact.fields.items()]
        return at


def _join(group: str, session_timeout_ms: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms,
        protocol_type="consumer",
        protocols=protocols,
    )


def _begin(cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
    for address in cluster.bootstrap.split(","):
        with BlockingClient(address, client_id="till") as client:
            init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
            answer = client.ask(init, 4)
            if answer.error_code:  # another broker coordinates it
                continue
            topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1, 2])]
            addition = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=answer.producer_id,
                v3_and_below_producer_epoch=answer.producer_epoch,
                v3_and_below_topics=topics,
            )
            client.ask(addition, 3)


@pytest.mark.slow
def test_sessions_and_transactions_end_in_the_order_of_their_deadlines() -> None:
    heard = Heard()
    with Cluster(topics=["t:3"], events=heard) as cluster:
        cluster.freeze()
        heard.clock = cluster._running.clock
        start = heard.clock.now()
        with BlockingClient(cluster.bootstrap, client_id="members") as client:
            for group, seconds in (("late", 40), ("early", 10), ("middle", 25)):
                client.ask(_join(group, seconds * 1000), 3)
        _begin(cluster, "x", 30_000)
        cluster.advance(MINUTE)
        for group, seconds in (("early", 10), ("middle", 25), ("late", 40)):
            at = heard.when("group_state_change", group_id=group, state_to="Empty") - start
            assert seconds * 1000 <= at <= seconds * 1000 + GRAIN_MS, group
        assert start + 60_000 == heard.clock.now()


@pytest.mark.slow
def test_brokers_hear_of_one_another_before_time_goes_on() -> None:
    """The markers of a transaction that took too long are written when they are due, not when all time has passed."""
    heard = Heard()
    with Cluster(brokers=3, topics=["t:3"], events=heard) as cluster:
        cluster.freeze()
        heard.clock = cluster._running.clock
        start = heard.clock.now()
        _begin(cluster, "x", 15_000)
        cluster.advance(timedelta(days=1))
        decided = heard.when("state_change", state_to="PrepareAbort") - start
        done = heard.when("state_change", state_to="CompleteAbort") - start
        grain_ms = 86_400_000 // 200
        assert 15_000 <= decided <= done <= 30_000 + 2 * grain_ms


@pytest.mark.slow
async def test_it_is_the_same_in_the_loop_of_the_test() -> None:
    heard = Heard()
    async with Cluster(brokers=3, topics=["t:3"], events=heard) as cluster:
        cluster.freeze()
        heard.clock = cluster._running.clock
        start = heard.clock.now()
        await asyncio.to_thread(_begin, cluster, "x", 15_000)
        cluster.advance(MINUTE)
        assert heard.when("state_change", state_to="CompleteAbort") - start < 30_000


# ---------------------------------------------------------------------- the post


async def test_what_follows_from_a_delivery_has_its_own_turn() -> None:
    post, got = Post(asyncio.get_running_loop()), list[str]()

    def deliver(what: str) -> None:
        got.append(what)
        if what == "first":
            post.send(deliver, "what follows")

    post.send(deliver, "first")
    post.send(deliver, "second")
    assert [] == got
    await asyncio.sleep(0)
    assert ["first", "second"] == got
    await asyncio.sleep(0)
    assert ["first", "second", "what follows"] == got


async def test_everything_can_be_delivered_now_and_nothing_twice() -> None:
    post, got = Post(asyncio.get_running_loop()), list[str]()
    post.send(got.append, "first")
    post.send(lambda _: post.send(got.append, "what follows"), None)
    post.deliver_all()
    assert ["first", "what follows"] == got
    await asyncio.sleep(0)
    assert ["first", "what follows"] == got
    post.send(got.append, "later")
    await asyncio.sleep(0)
    assert "later" == got[-1]


async def test_a_delivery_that_fails_stops_no_other() -> None:
    loop, failures = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    post, got = Post(loop), list[str]()
    post.send(lambda _: 1 // 0, None)
    post.send(got.append, "after it")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (["after it"], 1) == (got, len(failures))


async def test_those_who_never_end_do_not_stop_the_rest() -> None:
    post, count = Post(asyncio.get_running_loop()), 0

    def again(_: None) -> None:
        nonlocal count
        count += 1
        post.send(again, None)

    post.send(again, None)
    post.deliver_all()
    assert 10_000 == count
