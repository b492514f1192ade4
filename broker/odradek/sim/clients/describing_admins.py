"""An admin that describes transactions (KIP-664) and groups all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.sim.schedules.schedule import PARTITIONS
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest

__all__ = ["TOPIC", "Group", "Told", "Watcher"]

TOPIC = "t"


class Told(Struct, frozen=True):
    """The state of a transactional id, an open transaction of a partition, or the members of a group, in a response."""

    asked_at: int
    told_at: int
    transactional_id: str = ""
    state: str = ""
    partition: int = -1
    producer_id: int = -1
    first_offset: int = -1
    producer_epoch: int = -1
    members: tuple[str, ...] = ()
    """The members of the group; the other fields are empty then."""


class Group(Struct, frozen=True):
    """The group to describe."""

    name: str
    is_modern: bool
    """Whether its members use the newer protocol (KIP-848)."""
    session_ms: int


class Watcher:
    """Describes ids, partitions and a group in turn."""

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
