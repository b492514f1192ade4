"""The share partitions of what this broker leads: made when they are first asked for, and gone with the leadership.

Locks end by the node's own time. What becomes of records goes to the share coordinator before anybody else gets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from odradek.config.share import BY_DURATION, duration_ms
from odradek.core.machine import Refused
from odradek.host.seams import HasPartitions, HasPurgatory, HasTimers, HasTurns
from odradek.log.offsets import EARLIEST, LATEST
from odradek.metadata.image import ResourceType
from odradek.share.asking import AsksShares
from odradek.share.coordinator import Written
from odradek.share.partition import Change, Limits, SharePartition
from odradek.share.sessions import ShareSession, ShareSessions
from odradek.share.shard import read_state, write_state
from odradek.share.state import NO_OFFSET, ShareKey
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.flow import Wait
    from odradek.log.partition import Partition

__all__ = ["HasShares", "Shares", "acquirable"]


class HasShares(Protocol):
    """The share partitions of what this broker leads."""

    @property
    def shares(self) -> Shares: ...


class Node(AsksShares, HasPartitions, HasPurgatory, HasTimers, HasTurns, Protocol):
    """What the share partitions of a broker touch of it."""


FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST})
"""The share coordinator knows better: what we know is read again."""
_TOLD = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a member hears when the share coordinator refuses; anything else is an error of the broker."""


def acquirable(key: ShareKey) -> tuple[str, ShareKey]:
    """Where fetches wait for records that others give back."""
    return ("acquirable", key)


class _Held(Struct):
    partition: Partition
    share: SharePartition


class Shares:
    """The share partitions and the sessions of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.sessions = ShareSessions()
        self._held: dict[ShareKey, _Held] = {}
        self._read_here: dict[tuple[str, int], dict[ShareKey, None]] = {}
        """The keys of what is held, by the partition."""
        self._beginning: dict[ShareKey, list[Wait[None]]] = {}

    # ------------------------------------------------------------------ settings

    def limits(self, group_id: str) -> Limits:
        """What holds for a group now: its own values, within the bounds of the broker, before those of the broker."""
        config, own = self._node.config, self._node.image.config(ResourceType.GROUP, group_id)

        def number(key: str, default: int, low: int, high: int) -> int:
            text = own.get(key)
            return default if text is None else min(max(int(text), low), high)

        return Limits(
            lock_ms=number(
                "share.record.lock.duration.ms",
                config.group_share_record_lock_duration_ms,
                config.group_share_min_record_lock_duration_ms,
                config.group_share_max_record_lock_duration_ms,
            ),
            deliveries=number(
                "share.delivery.count.limit",
                config.group_share_delivery_count_limit,
                config.group_share_min_delivery_count_limit,
                config.group_share_max_delivery_count_limit,
            ),
            locks=number(
                "share.partition.max.record.locks",
                config.group_share_partition_max_record_locks,
                config.group_share_min_partition_max_record_locks,
                config.group_share_max_partition_max_record_locks,
            ),
            renews=own.get("share.renew.acknowledge.enable") != "false",
        )

    def reads_committed(self, group_id: str) -> bool:
        """Whether a group is spared what is not decided, and what was aborted."""
        own = self._node.image.config(ResourceType.GROUP, group_id)
        return own.get("share.isolation.level") == "read_committed"

    # ------------------------------------------------------------------ share partitions

    def known(self, key: ShareKey, partition: Partition) -> SharePartition | None:
        """The share partition, if it was read since this broker leads."""
        held = self._held.get(key)
        return held.share if held is not None and held.partition is partition else None

    async def find(self, key: ShareKey, partition: Partition) -> SharePartition | Refused:
        """The share partition; what the leader before has left is read from the share coordinator first."""
        while (share := self.known(key, partition)) is None:
            waiting = self._beginning.get(key)
            if waiting is not None:
                wait = self._node.kernel.wait()
                waiting.append(wait)
                await wait
                continue
            self._beginning[key] = []
            try:
                refused = await self._begin(key, partition)
            finally:
                for each in self._beginning.pop(key):
                    each.settle(None)
            if refused is not None:
                return refused
        return share

    def begin_later(self, wanted: Sequence[tuple[ShareKey, Partition]]) -> None:
        """Read what the leader before has left of these share partitions, for whoever asks for them next."""
        if wanted:
            self._node.kernel.spawn(self._begin_all(wanted))

    async def _begin_all(self, wanted: Sequence[tuple[ShareKey, Partition]]) -> None:
        for key, partition in wanted:
            await self.find(key, partition)
            await self._node.turns.breathe_behind()

    async def _begin(self, key: ShareKey, partition: Partition) -> Refused | None:
        state = await read_state(self._node, key, partition.leader_epoch)
        if isinstance(state, Refused):
            return Refused(_TOLD.get(state.error, ErrorCode.UNKNOWN_SERVER_ERROR))
        if self._node.partitions.get(partition.key) is not partition:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        start = self._first_offset(key.group_id, partition) if state.start_offset == NO_OFFSET else state.start_offset
        share = SharePartition(key, state, partition.leader_epoch, start)
        self._held[key] = _Held(partition, share)
        self._read_here.setdefault(partition.key, {})[key] = None
        return None

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """Where a group begins that has never read the partition (KIP-1106)."""
        reset = self._node.image.config(ResourceType.GROUP, group_id).get("share.auto.offset.reset", "latest").lower()
        if reset == "earliest":
            return partition.list_offset(EARLIEST).offset
        if reset.startswith(BY_DURATION):
            ago = duration_ms(reset[len(BY_DURATION) :])
            found = partition.list_offset(self._node.now - (ago or 0)).offset
            if found != NO_OFFSET:
                return found
        return partition.list_offset(LATEST).offset

    def resign(self, partition: Partition) -> None:
        """Leadership is gone: the next leader asks the share coordinator."""
        for key in list(self._read_here.get(partition.key, ())):
            if self._held[key].partition is partition:
                self._drop(key)

    def _drop(self, key: ShareKey) -> None:
        partition = self._held.pop(key).partition
        keys = self._read_here[partition.key]
        del keys[key]
        if not keys:
            del self._read_here[partition.key]
        self._node.timers.set(("share_lock", key), None, self._nothing)
        self._node.purgatory.wake(acquirable(key))

    def _nothing(self) -> None:
        """Nobody waits for this time any more."""

    # ------------------------------------------------------------------ what becomes of records

    async def tell(self, share: SharePartition, change: Change) -> Refused | None:
        """Have the share coordinator keep a change; only then others may have the records."""
        written = Written(
            share.state_epoch, share.leader_epoch, change.start_offset, change.complete_count, change.batches
        )
        refused = await write_state(self._node, share.key, written)
        share.settled(change, kept=refused is None)
        if refused is not None and refused.error in FENCED:
            # Another one may have taken its place meanwhile, and knows what was written since.
            held = self._held.get(share.key)
            if held is not None and held.share is share:
                self._drop(share.key)
        else:
            self.watch(share)
            self._node.purgatory.wake(acquirable(share.key))
        return None if refused is None else Refused(_TOLD.get(refused.error, ErrorCode.UNKNOWN_SERVER_ERROR))

    def watch(self, share: SharePartition) -> None:
        """Look at the share partition again when its next lock ends."""
        held = self._held.get(share.key)
        if held is not None and held.share is share:
            self._node.timers.set(("share_lock", share.key), share.next_deadline(), partial(self._locks_end, share))

    def _locks_end(self, share: SharePartition) -> None:
        held = self._held.get(share.key)
        if held is None or held.share is not share:
            return
        change = share.expire(self.limits(share.key.group_id), self._node.now)
        if change is not None:
            self._node.kernel.spawn(self._give_back(share, change))
        self.watch(share)

    async def _give_back(self, share: SharePartition, change: Change) -> None:
        await self.tell(share, change)

    # ------------------------------------------------------------------ members that go

    async def release(self, session: ShareSession) -> None:
        """Others get what a member has of the partitions of its session that is over; the rest stays locked."""
        limits = self.limits(session.group_id)
        turns = self._node.turns
        for topic_id, index in list(session.partitions):
            # Leaders move and topics are deleted while another one is told.
            held = self._held.get(ShareKey(session.group_id, topic_id, index))
            if held is None:
                continue
            change = held.share.release(session.member_id, limits)
            if change is not None:
                await self.tell(held.share, change)
                await turns.breathe_behind()

    def disconnected(self, connection: int) -> None:
        """A client is gone, and with it the session that it began."""
        ended = self.sessions.disconnected(connection)
        if ended is not None:
            session, was_over = ended
            self._node.kernel.spawn(self._ended(session, releases=not was_over))

    async def _ended(self, session: ShareSession, *, releases: bool) -> None:
        if releases:
            await self.release(session)
        if not self.sessions.has_any(session.group_id):
            # Nobody reads: offsets may be altered or deleted now, so who comes next has them read again.
            for key in [key for key in self._held if key.group_id == session.group_id]:
                self._drop(key)
