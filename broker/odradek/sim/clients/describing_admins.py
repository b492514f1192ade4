"""An admin who asks all the time what transactions there are (KIP-664), or who is in a group, and whether it was so.

What brokers tell has to have been true at some time between the question and the answer; the events say when what was,
and what members asked says since when they were silent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from msgspec import Struct

from odradek.log.machine import Fact
from odradek.node.coordinators import CoordinatorKind, partition_for
from odradek.sim.model.model import Fields
from odradek.sim.model.promises import Problem
from odradek.sim.schedules.schedule import PARTITIONS
from odradek.sim.world.actors import Ask, Asked, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.sync_group_request import SyncGroupRequest

__all__ = ["WORK_MS", "Group", "Told", "Watcher", "silent_problems", "watchers_problems"]

TOPIC = "t"
NEVER = 1 << 62
WORK_MS = 500
"""What a broker and the network may take besides, and a coordinator to load."""
HEARD = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest)
"""What a member says that it lives with."""


class Told(Struct, frozen=True):
    """A state of an id, or an open transaction of a partition, as a broker has shown it."""

    asked_at: int
    told_at: int
    transactional_id: str = ""
    state: str = ""
    partition: int = -1
    producer_id: int = -1
    first_offset: int = -1
    producer_epoch: int = -1
    members: tuple[str, ...] = ()
    """Of a group, in place of the others."""


class Group(Struct, frozen=True):
    """A group that is looked at."""

    name: str
    is_modern: bool
    """Whether its members speak the newer protocol."""
    session_ms: int


class Watcher:
    """Asks about ids and partitions in turn."""

    def __init__(
        self,
        world: World,
        *,
        random: Random,
        transactional_ids: Sequence[str],
        goes_on: Callable[[], bool],
        group: Group | None = None,
    ) -> None:
        self.world = world
        self._group = group
        self.told: list[Told] = []
        self._random = random
        self._transactional_ids = transactional_ids
        self._goes_on = goes_on

    def script(self) -> Script:
        """The whole life."""
        while self._goes_on():
            yield from self._ask_of_an_id(self._random.choice(self._transactional_ids))
            yield from self._ask_of_a_partition(self._random.randrange(PARTITIONS))
            if self._group is not None:
                yield from self._ask_of_a_group(self._group)
            yield Sleep(self._random.randint(20, 120))

    def _leader(self, topic: str, index: int) -> int:
        return self.world.leader_known_to(self._random.choice(self.world.running), topic, index)

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
        self.told += [
            Told(
                asked_at,
                self.world.now,
                partition=index,
                producer_id=each.producer_id,
                first_offset=each.current_txn_start_offset,
                producer_epoch=each.producer_epoch,
            )
            for each in response.topics[0].partitions[0].active_producers
        ]

    def _ask_of_a_group(self, group: Group) -> Script:
        leader = self._leader(CoordinatorKind.GROUP.topic, partition_for(group.name, 3))
        if leader < 0:
            return
        asked_at = self.world.now
        if group.is_modern:
            response = yield Ask(leader, ConsumerGroupDescribeRequest(group_ids=[group.name]), 1)
        else:
            response = yield Ask(leader, DescribeGroupsRequest(groups=[group.name]), 5)
        if response is not None and response.groups[0].error_code == ErrorCode.NONE:
            members = tuple(each.member_id for each in response.groups[0].members)
            self.told.append(Told(asked_at, self.world.now, members=members))


def watchers_problems(watchers: Iterable[Watcher], facts: Iterable[tuple[int, int, Fact]]) -> Iterator[Problem]:
    """What was told and had never been so while it was asked for."""
    told = [each for watcher in watchers for each in watcher.told]
    if not told:
        return
    states: dict[str, list[tuple[int, str, str]]] = {}
    epochs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    """Of the markers of a producer in a partition."""
    truncated: set[int] = set()
    """Partitions of which something was lost."""
    opened: dict[tuple[int, int, int], int] = {}
    closed: dict[tuple[int, int, int], int] = {}
    for at, _, fact in facts:
        fields: Fields = fact.fields
        if fact.kind == "state_change":
            change = at, fields.get("state_from", ""), fields["state_to"]
            states.setdefault(fields["transactional_id"], []).append(change)
        elif fact.kind == "transaction_opened" and fields["topic"] == TOPIC:
            opened.setdefault((fields["partition"], fields["producer_id"], fields["offset"]), at)
        elif fact.kind == "transaction_closed" and fields["topic"] == TOPIC:
            closed[fields["partition"], fields["producer_id"], fields["first_offset"]] = at
        elif fact.kind == "marker_written" and fields["topic"] == TOPIC:
            written = epochs.setdefault((fields["partition"], fields["producer_id"]), [])
            written.append((at, fields["producer_epoch"]))
        elif fact.kind == "log_truncated" and fields["topic"] == TOPIC:
            truncated.add(fields["partition"])
    for each in told:
        if each.transactional_id:
            changes = states.get(each.transactional_id, [])
            # An id is empty from the moment its first record is written, and a change when that is committed.
            before = [state for at, _, state in changes if at < each.asked_at][-1:] or ["Empty"]
            meanwhile = [state for at, _, state in changes if each.asked_at <= at <= each.told_at]
            # What a coordinator finds in its log when it loads is no change, and told by the next one.
            found = [state for at, state, _ in changes if at >= each.asked_at][:1]
            if each.state not in (*before, *meanwhile, *found):
                yield Problem("wrong description", f"{each.transactional_id} was told to be in {each.state}")
        elif each.partition >= 0:
            marked = [epoch for at, epoch in epochs.get((each.partition, each.producer_id), ()) if at < each.asked_at]
            if each.producer_epoch < max(marked, default=-1) and each.partition not in truncated:
                seen = f"{TOPIC}-{each.partition} told epoch {each.producer_epoch} of producer {each.producer_id}"
                yield Problem("wrong description", f"{seen} after a marker of {max(marked)}")
            if each.first_offset < 0:
                continue
            key = each.partition, each.producer_id, each.first_offset
            if opened.get(key, NEVER) > each.told_at or closed.get(key, NEVER) < each.asked_at:
                where = f"{TOPIC}-{each.partition} at {each.first_offset}"
                yield Problem("wrong description", f"a transaction was told to be open in {where}")


def silent_problems(
    watchers: Iterable[Watcher], asked: Iterable[Asked], facts: Iterable[tuple[int, int, Fact]], group: Group
) -> Iterator[Problem]:
    """Who was told to be a member, and had said nothing for longer than its session (KIP-62, KIP-848).

    A coordinator that takes over gives every member its time anew. Brokers do not stand still.
    """
    heard: dict[str, list[int]] = {}
    for request in asked:
        if not isinstance(request.request, HEARD) or request.request.group_id != group.name:
            continue
        # One that was not answered may have been served while it was waited for.
        until = request.at if request.ended_at is None else request.ended_at
        for member_id in (request.request.member_id, getattr(request.response, "member_id", "")):
            heard.setdefault(member_id or "", []).append(until)
    taken_over = [
        at
        for at, _, fact in facts
        if fact.kind == "leadership_taken" and fact.fields["topic"] == CoordinatorKind.GROUP.topic
    ]
    for each in heard.values():
        each.sort()
    for told in (each for watcher in watchers for each in watcher.told if each.members):
        for member_id in told.members:
            last = max(_last(heard.get(member_id, ()), told.asked_at), _last(taken_over, told.asked_at))
            silent_ms = told.asked_at - last
            if last and silent_ms > group.session_ms + WORK_MS:
                yield Problem("silent member", f"{member_id} was in {group.name} after {silent_ms} ms without a word")


def _last(times: Sequence[int], until: int) -> int:
    """The last of these times that is no later; 0 if there is none."""
    number = bisect_right(times, until)
    return times[number - 1] if number else 0
