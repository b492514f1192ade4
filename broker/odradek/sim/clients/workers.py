"""Consume, transform, produce (KIP-447): members of one group, of which one at a time has the work.

Each number must be processed once. The member with the work takes the group's offset for the number, writes a record,
and commits the next offset in the same transaction, with the generation in which it began. Its consumer runs on
meanwhile: it may join the next generation, in which another member has the work, before the transaction is over.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind
from odradek.sim.clients.producers import AGAIN, TOPIC, MustAbort, Producer, Transaction
from odradek.sim.schedules.schedule import Txn
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.dice import Dice
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["WORK_GROUP", "Worker"]

WORK_GROUP = "workers"
WORK = b"work"
RESTARTS_MS = (300, 1_200)
SESSION_MS, REBALANCE_MS = 1_500, 400


class Membership(Struct, frozen=True):
    """The membership that a transaction commits offsets with."""

    member_id: str = ""
    generation: int = -1
    has_work: bool = False


class Worker(Producer):
    """A producer whose transactions do the work of a group; `consume` is the script of its consumer."""

    membership = Membership()
    _own = Membership()
    """The membership of the present transaction."""

    def __init__(self, world: World, **how: Any) -> None:
        super().__init__(world, **how)
        self._dice = Dice(self.plan.seed + 1)
        """Random numbers of the member, which outlives transactions."""

    def _get_ready(self) -> Script:
        while self.goes_on() and not self.membership.has_work:
            yield Sleep(30)
        self._own = self.membership

    def _transact(self, transaction: Transaction, plan: Txn) -> Script:
        number = yield from self._next_number()
        try:
            if not self.new and plan.sends:
                yield from self._add([(TOPIC, send.partition) for send in plan.sends])
            for position, send in enumerate(plan.sends):
                yield from self._produce(transaction, send, position)
                yield Sleep(send.pause_ms)
            transaction.work = number
            yield from self._commit_offset(
                transaction,
                group=WORK_GROUP,
                offset=number + 1,
                member_id=self._own.member_id,
                generation=self._own.generation,
                instance_id=self.plan.instance_id or None,
            )
            yield Sleep(plan.pause_ms)
        except MustAbort:
            yield from self._end(transaction, commit=False)
            if not self.new:
                yield from self._init(self.pair)
            return
        yield from self._end(transaction, commit=True)

    def _next_number(self) -> Script:
        wanted = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        request = OffsetFetchRequest(group_id=WORK_GROUP, topics=[wanted], require_stable=True)
        while True:
            response = yield from self._ask_group(request, 7)
            if response is not None and response.error_code == ErrorCode.NONE:
                [answer] = response.topics[0].partitions
                if answer.error_code == ErrorCode.NONE:
                    return max(0, answer.committed_offset)
            yield Sleep(self.random.randint(5, 50))

    def consume(self) -> Script:
        """Join, assign the work as the leader of the group, and send heartbeats, until it must rejoin."""
        member_id = ""
        while self.goes_on():
            if self.plan.dies and not self.plan.away_ms and self._dice.random() < self.plan.dies:
                # Like a killed process: it sends nothing, and its successor is another member.
                member_id = ""
            response = yield from self._ask_group(self._joining(member_id), 5)
            error = None if response is None else ErrorCode(response.error_code)
            if error is ErrorCode.FENCED_INSTANCE_ID:
                # Another process has its name. A process ends then, and may be started again.
                yield Sleep(self._dice.randint(*RESTARTS_MS))
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                member_id = ""
            elif error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE):
                member_id = response.member_id
            if error is ErrorCode.NONE and (yield from self._take_part(response)):
                member_id = ""
                yield Sleep(self.plan.away_ms)
            yield Sleep(self._dice.randint(5, 50))

    def _take_part(self, joined: Any) -> Script:
        """Take part in a generation; True if it vanishes, False if it must rejoin."""
        assignments = []
        if joined.leader == joined.member_id:
            chosen = self._dice.choice(joined.members).member_id
            assignments = [SyncGroupRequestAssignment(member_id=chosen, assignment=WORK)]
        me: dict[str, Any] = {"member_id": joined.member_id, "generation_id": joined.generation_id}
        if self.plan.instance_id:
            me["group_instance_id"] = self.plan.instance_id
        request = SyncGroupRequest(group_id=WORK_GROUP, assignments=assignments, **me)
        response = yield from self._ask_group(request, 3)
        if response is None or response.error_code != ErrorCode.NONE:
            return False
        self.membership = Membership(joined.member_id, joined.generation_id, response.assignment == WORK)
        while self.goes_on() and self._dice.random() >= self.plan.rejoins:
            if self.plan.away_ms and self._dice.random() < self.plan.dies:
                return True
            yield Sleep(self._dice.randint(20, 120))
            response = yield from self._ask_group(HeartbeatRequest(group_id=WORK_GROUP, **me), 3)
            if response is not None and response.error_code not in (ErrorCode.NONE, *AGAIN):
                return False
        return False

    def _joining(self, member_id: str) -> JoinGroupRequest:
        news = self._dice.randbytes(2)
        return JoinGroupRequest(
            group_id=WORK_GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=self.plan.instance_id or None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="one", metadata=news)],
        )

    def _ask_group(self, request: Struct, version: int) -> Script:
        node_id = yield from self.directory.coordinator(CoordinatorKind.GROUP, WORK_GROUP)
        if node_id < 0:
            return None
        response = yield Ask(node_id, request, version)
        error = None if response is None else response.error_code
        self.directory.answered(CoordinatorKind.GROUP, WORK_GROUP, node_id, error)
        return response
