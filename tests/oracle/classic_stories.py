"""Stories of a classic group: a member that joins, syncs, commits and goes, and requests of who never was one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.oracle.telling import mostly, of_clients, told, wait_for_the_end

__all__ = ["Members"]

NOBODY = '"nobody"'
SESSION = "session_timeout_ms=60000"
PROTOCOLS = (
    "",
    ' protocols=[{name: "range", metadata: subscription([t])}]',
    ' protocols=[{name: "roundrobin", metadata: hex("")}, {name: "range", metadata: subscription([t, u])}]',
    ' protocol_type="connect"',
)


@dataclass
class Members:
    """A second member would have to wait for the first to join again, so that there is one at a time."""

    dice: Random
    level: int

    @staticmethod
    def begin(dice: Random) -> list[str]:
        first = f"JoinGroup v{dice.choice((4, 5, 9))} g"
        joined = (f'{first} "" {SESSION} -> m=member_id', f"{first} m {SESSION} -> m=member_id n=generation_id")
        return ["topic t 2", "topic u", "InitProducerId v5 tid -> x e", *joined]

    @classmethod
    def tell(cls, dice: Random, level: int) -> Iterator[str]:
        teller = cls(dice, level)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.join: 3,
            teller.sync: 4,
            teller.beat: 3,
            teller.leave: 1,
            teller.commit: 5,
            teller.commit_in_transaction: 3,
            teller.fetch: 3,
            teller.remove: 1,
            teller.look: 2,
            teller.meet_the_newer_protocol: 1,
        }
        return told(dice, steps)

    def whose(self) -> str:
        """Member and generation, mostly right."""
        return f"{mostly(self.dice, 'm', NOBODY, weight=16)} {mostly(self.dice, 'n', 'n-1', 'n+1')}"

    def join(self) -> Iterator[str]:
        member, protocols = mostly(self.dice, "m", NOBODY), mostly(self.dice, *PROTOCOLS, weight=4)
        version = self.dice.choice((2, 4, 5, 7, 9))
        yield f"JoinGroup v{version} g {member} {SESSION}{protocols} -> m=member_id n=generation_id"

    def sync(self) -> Iterator[str]:
        assigned = mostly(self.dice, "", " assignments=[{member_id: m, assignment: assignment([t, 0, 1])}]", weight=1)
        yield f"SyncGroup v{self.dice.choice((1, 3, 4, 5))} g {self.whose()}{assigned}"

    def beat(self) -> Iterator[str]:
        yield f"Heartbeat v{self.dice.choice((0, 2, 3, 4))} g {self.whose()}"

    def leave(self) -> Iterator[str]:
        yield f"LeaveGroup v{self.dice.choice((1, 3, 4, 5))} g {mostly(self.dice, 'm', NOBODY, weight=4)}"
        if self.dice.random() < 0.7:
            yield f'JoinGroup v3 g "" {SESSION} -> m=member_id n=generation_id'

    def of(self) -> str:
        member, generation = self.whose().split()
        return f" generation_id_or_member_epoch={generation} member_id={member}"

    def commit(self) -> Iterator[str]:
        version, offset = self.dice.choice((2, 5, 7, 8, 9)), self.dice.randrange(9)
        partition = mostly(self.dice, "t-0", "t-1", "t-7", "unknown-0")
        yield f"OffsetCommit v{version} g{mostly(self.dice, self.of(), '', weight=4)} {partition} offset={offset}"

    def commit_in_transaction(self) -> Iterator[str]:
        whose = mostly(self.dice, self.of(), "", weight=4)
        version = self.dice.choice(of_clients(self.level, "TxnOffsetCommit", 3, 4, 5))
        offset = self.dice.randrange(9)
        if version < 5:
            yield "AddOffsetsToTxn v3 tid x e g until settled"
        yield f"TxnOffsetCommit v{version} tid g x e{whose} t-0 offset={offset} until settled"
        if self.dice.random() < 0.7:
            end = max(of_clients(self.level, "EndTxn", 4, 5))
            yield f"EndTxn v{end} tid x e {self.dice.choice(('commit', 'abort'))} until settled -> x e"
            yield wait_for_the_end("tid")

    def fetch(self) -> Iterator[str]:
        yield self.dice.choice(("OffsetFetch v7 g stable t-0", "OffsetFetch v5 g", "OffsetFetch v8 g t-0 t-1"))

    def remove(self) -> Iterator[str]:
        deleted = "OffsetDelete v0 group_id=g topics=[{name: t, partitions: [{partition_index: 0}]}]"
        yield self.dice.choice((deleted, deleted, "DeleteGroups v2 groups_names=[g]"))

    def look(self) -> Iterator[str]:
        yield self.dice.choice(("DescribeGroups v5 groups=[g]", "ConsumerGroupDescribe v1 group_ids=[g]"))

    def meet_the_newer_protocol(self) -> Iterator[str]:
        yield self.dice.choice(('ConsumerGroupHeartbeat v1 g "A" 0 t', 'ShareGroupHeartbeat v1 g "A" 0 t'))
        yield 'ConsumerGroupHeartbeat v1 g "A" -1'
