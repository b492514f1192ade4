"""An admin who asks all the time what transactions there are (KIP-664), and whether it was so.

What brokers tell has to have been true at some time between the question and the answer; the events say when what was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from msgspec import Struct

from odradek.log.machine import Fact
from odradek.node.coordinators import CoordinatorKind, partition_for
from odradek.sim.actors import Ask, Script, Sleep
from odradek.sim.model import Fields
from odradek.sim.promises import Problem
from odradek.sim.schedule import PARTITIONS
from odradek.sim.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest

__all__ = ["Told", "Watcher", "watchers_problems"]

TOPIC = "t"
NEVER = 1 << 62


class Told(Struct, frozen=True):
    """A state of an id, or an open transaction of a partition, as a broker has shown it."""

    asked_at: int
    told_at: int
    transactional_id: str = ""
    state: str = ""
    partition: int = -1
    producer_id: int = -1
    first_offset: int = -1


class Watcher:
    """Asks about ids and partitions in turn."""

    def __init__(
        self, world: World, *, random: Random, transactional_ids: Sequence[str], goes_on: Callable[[], bool]
    ) -> None:
        self.world = world
        self.told: list[Told] = []
        self._random = random
        self._transactional_ids = transactional_ids
        self._goes_on = goes_on

    def script(self) -> Script:
        """The whole life."""
        while self._goes_on():
            yield from self._ask_of_an_id(self._random.choice(self._transactional_ids))
            yield from self._ask_of_a_partition(self._random.randrange(PARTITIONS))
            yield Sleep(self._random.randint(20, 120))

    def _leader(self, topic: str, index: int) -> int:
        registered = self.world.nodes[self._random.choice(self.world.running)].image.partition(topic, index)
        return -1 if registered is None else registered.leader

    def _ask_of_an_id(self, name: str) -> Script:
        leader = self._leader(CoordinatorKind.TRANSACTION.topic, partition_for(name, 3))
        if leader < 0:
            return
        asked_at = self.world.now
        response = yield Ask(leader, DescribeTransactionsRequest(transactional_ids=[name]), 0)
        if response is not None and response.transaction_states[0].error_code == ErrorCode.NONE:
            state = response.transaction_states[0].transaction_state
            self.told.append(Told(asked_at, self.world.now, transactional_id=name, state=state))

    def _ask_of_a_partition(self, index: int) -> Script:
        leader = self._leader(TOPIC, index)
        if leader < 0:
            return
        asked_at = self.world.now
        wanted = TopicRequest(name=TOPIC, partition_indexes=[index])
        response = yield Ask(leader, DescribeProducersRequest(topics=[wanted]), 0)
        if response is None:
            return
        for each in response.topics[0].partitions[0].active_producers:
            if each.current_txn_start_offset >= 0:
                self.told.append(
                    Told(
                        asked_at,
                        self.world.now,
                        partition=index,
                        producer_id=each.producer_id,
                        first_offset=each.current_txn_start_offset,
                    )
                )


def watchers_problems(watchers: Iterable[Watcher], facts: Iterable[tuple[int, int, Fact]]) -> Iterator[Problem]:
    """What was told and had never been so while it was asked for."""
    told = [each for watcher in watchers for each in watcher.told]
    if not told:
        return
    states: dict[str, list[tuple[int, str]]] = {}
    opened: dict[tuple[int, int, int], int] = {}
    closed: dict[tuple[int, int, int], int] = {}
    for at, _, fact in facts:
        fields: Fields = fact.fields
        if fact.kind == "state_change":
            states.setdefault(fields["transactional_id"], []).append((at, fields["state_to"]))
        elif fact.kind == "transaction_opened" and fields["topic"] == TOPIC:
            opened.setdefault((fields["partition"], fields["producer_id"], fields["offset"]), at)
        elif fact.kind == "transaction_closed" and fields["topic"] == TOPIC:
            closed[fields["partition"], fields["producer_id"], fields["first_offset"]] = at
    for each in told:
        if each.transactional_id:
            changes = states.get(each.transactional_id, [])
            before = [state for at, state in changes if at < each.asked_at][-1:]
            meanwhile = [state for at, state in changes if each.asked_at <= at <= each.told_at]
            if each.state not in (*before, *meanwhile):
                yield Problem("wrong description", f"{each.transactional_id} was told to be in {each.state}")
        else:
            key = each.partition, each.producer_id, each.first_offset
            if opened.get(key, NEVER) > each.told_at or closed.get(key, NEVER) < each.asked_at:
                where = f"{TOPIC}-{each.partition} at {each.first_offset}"
                yield Problem("wrong description", f"a transaction was told to be open in {where}")
