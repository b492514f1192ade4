"""The share partitions of this broker: made at the first request for them, and dropped with the leadership.

Locks end by the broker's own clock. The share coordinator stores the state of a record before another member gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.config.share import BY_DURATION, duration_ms
from odradek.core.flow import Wait
from odradek.core.machine import Refused
from odradek.log.offsets import EARLIEST, LATEST
from odradek.metadata.image import ResourceType
from odradek.share.coordinator import Owner, Written
from odradek.share.dead_letters import has_queue
from odradek.share.partition import Change, DeadLetters, Limits, SharePartition
from odradek.share.sessions import ShareSession, ShareSessions
from odradek.share.state import NO_OFFSET, ShareKey
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.log.partition import Partition
    from odradek.share.dead_letters import DeadLetterQueues
    from odradek.share.state_client import ShareStateClient

__all__ = ["Shares", "acquirable"]


FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST})
"""The share coordinator has a newer state: ours is dropped, and read again."""
_TOLD = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.TRANSACTION_ABORTABLE,
}
"""Errors for a member when the share coordinator refuses; any other one is UNKNOWN_SERVER_ERROR.

The last ones are those of transactions, which only staged acknowledgements meet (KIP-1289).
"""
STAGED_WAIT_MS = 20
STAGED_WAIT_MAX_MS = 1_000
"""How long a leader waits before it asks for the state of staged records; it doubles up to the limit."""


def acquirable(key: ShareKey) -> tuple[str, ShareKey]:
    """Purgatory key of fetches that wait for records of this share partition."""
    return ("acquirable", key)


class _Held(Struct):
    partition: Partition
    share: SharePartition


class Shares:
    """The share partitions and the sessions of one broker."""

    def __init__(self, node: Host, states: ShareStateClient, queues: DeadLetterQueues) -> None:
        self._states = states
        self._queues = queues
        self._partitions = node.partitions
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._kernel = node.kernel
        self._turns = node.turns
        self._timers = node.timers
        self._purgatory = node.purgatory
        self.sessions = ShareSessions()
        self._held: dict[ShareKey, _Held] = {}
        self._read_here: dict[tuple[str, int], dict[ShareKey, None]] = {}
        """The keys of `_held`, by partition."""
        self._beginning: dict[ShareKey, list[Wait[None]]] = {}

    def limits(self, group_id: str) -> Limits:
        """The limits of a group: its own configs, within the bounds of the broker, else those of the broker."""
        config, own = self._settings.config, self._metadata.image.config(ResourceType.GROUP, group_id)

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
            dead_letters=has_queue(self._metadata.image, own),
        )

    def reads_committed(self, group_id: str) -> bool:
        """Whether a group reads committed records only."""
        own = self._metadata.image.config(ResourceType.GROUP, group_id)
        return own.get("share.isolation.level") == "read_committed"

    def known(self, key: ShareKey, partition: Partition) -> SharePartition | None:
        """The share partition, if it was loaded since this broker leads."""
        held = self._held.get(key)
        return held.share if held is not None and held.partition is partition else None

    async def find(self, key: ShareKey, partition: Partition) -> SharePartition | Refused:
        """The share partition; the first request reads its state from the share coordinator."""
        while (share := self.known(key, partition)) is None:
            waiting = self._beginning.get(key)
            if waiting is not None:
                wait: Wait[None] = Wait(self._kernel)
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
        """Load these share partitions for later requests."""
        if wanted:
            self._kernel.spawn(self._begin_all(wanted))

    async def _begin_all(self, wanted: Sequence[tuple[ShareKey, Partition]]) -> None:
        for key, partition in wanted:
            await self.find(key, partition)
            await self._turns.breathe_behind()

    async def _begin(self, key: ShareKey, partition: Partition) -> Refused | None:
        state = await self._states.read(key, partition.leader_epoch)
        if isinstance(state, Refused):
            return Refused(_TOLD.get(state.error, ErrorCode.UNKNOWN_SERVER_ERROR))
        if self._partitions.get(partition.key) is not partition:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        start = self._first_offset(key.group_id, partition) if state.start_offset == NO_OFFSET else state.start_offset
        share = SharePartition(key, state, partition.leader_epoch, start)
        self._held[key] = _Held(partition, share)
        self._read_here.setdefault(partition.key, {})[key] = None
        self._bury_later(partition, share, share.unwritten(self.limits(key.group_id)))
        if share.has_staged:
            self._ask_later(share, STAGED_WAIT_MS)
        return None

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """The start offset of a group that has never read the partition (KIP-1106)."""
        reset = (
            self._metadata.image.config(ResourceType.GROUP, group_id).get("share.auto.offset.reset", "latest").lower()
        )
        if reset == "earliest":
            return partition.list_offset(EARLIEST).offset
        if reset.startswith(BY_DURATION):
            ago = duration_ms(reset[len(BY_DURATION) :])
            found = partition.list_offset(self._clock.now - (ago or 0)).offset
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
        self._timers.set(("share_lock", key), None, self._nothing)
        self._timers.set(("share_staged", key), None, self._nothing)
        self._purgatory.wake(acquirable(key))

    def _nothing(self) -> None:
        """Does nothing: the timer is off."""

    async def tell(
        self, share: SharePartition, change: Change, *, even_if_refused: bool = False, owner: Owner | None = None
    ) -> Refused | None:
        """Have the share coordinator store a change; only then other members may have the records.

        A change that it refuses is undone, unless it holds `even_if_refused`. With an `owner` it is a part of that
        transaction, which decides what becomes of the records.
        """
        written = Written(
            share.state_epoch, share.leader_epoch, change.start_offset, change.complete_count, change.batches, owner
        )
        refused = await self._states.write(share.key, written)
        share.settled(change, kept=refused is None or even_if_refused)
        held = self._held.get(share.key)
        # A newer share partition may have taken its place meanwhile.
        own = held if held is not None and held.share is share else None
        if refused is not None and refused.error in FENCED:
            if own is not None:
                self._drop(share.key)
        else:
            self.watch(share)
            self._purgatory.wake(acquirable(share.key))
        if own is not None and refused is None:
            self._bury_later(own.partition, share, share.dead_letters(change))
            if owner is not None:
                self._ask_later(share, STAGED_WAIT_MS)
        return None if refused is None else Refused(_TOLD.get(refused.error, ErrorCode.UNKNOWN_SERVER_ERROR))

    def watch(self, share: SharePartition) -> None:
        """Look at the share partition again when its next lock ends."""
        held = self._held.get(share.key)
        if held is not None and held.share is share:
            self._timers.set(("share_lock", share.key), share.next_deadline(), partial(self._locks_end, share))

    def _locks_end(self, share: SharePartition) -> None:
        held = self._held.get(share.key)
        if held is None or held.share is not share:
            return
        change = share.expire(self.limits(share.key.group_id), self._clock.now)
        if change is not None:
            self._kernel.spawn(self._give_back(share, change))
        self.watch(share)

    async def _give_back(self, share: SharePartition, change: Change) -> None:
        await self.tell(share, change)

    def _ask_later(self, share: SharePartition, wait_ms: int) -> None:
        """Ask later what has become of staged records: markers go to the share coordinator alone (KIP-1289)."""
        act = partial(self._ask_now, share, wait_ms)
        self._timers.set(("share_staged", share.key), self._clock.now + wait_ms, act)

    def _ask_now(self, share: SharePartition, waited_ms: int) -> None:
        self._kernel.spawn(self._ask(share, waited_ms))

    async def _ask(self, share: SharePartition, waited_ms: int) -> None:
        before = share.stagings
        state = await self._states.read(share.key, share.leader_epoch)
        held = self._held.get(share.key)
        if held is None or held.share is not share:
            return
        if isinstance(state, Refused):
            if state.error in FENCED:
                self._drop(share.key)
                return
        elif state.state_epoch != share.state_epoch:
            # The offsets of the group were altered, which has ended all that was in flight.
            self._drop(share.key)
            return
        elif before == share.stagings:
            # A state that was read before the last staging may be older than that, and says nothing.
            self._bury_later(held.partition, share, share.take_over(state))
            self._purgatory.wake(acquirable(share.key))
        if share.has_staged:
            self._ask_later(share, min(2 * waited_ms, STAGED_WAIT_MAX_MS))

    def _bury_later(self, partition: Partition, share: SharePartition, dead: Sequence[DeadLetters]) -> None:
        if dead:
            self._kernel.spawn(self._bury_all(partition, share, dead))

    async def _bury_all(self, partition: Partition, share: SharePartition, dead: Sequence[DeadLetters]) -> None:
        """Begin with all of them, a few in each turn."""
        for letters in dead:
            self._kernel.spawn(self._bury(partition, share, letters))
            await self._turns.breathe_behind()

    async def _bury(self, partition: Partition, share: SharePartition, letters: DeadLetters) -> None:
        """Write records to the dead letter queue, and archive them whether they got there or not (KIP-1191)."""
        await self._queues.write(share.key, partition, letters)
        held = self._held.get(share.key)
        change = share.archive(letters) if held is not None and held.share is share else None
        if change is not None:
            await self.tell(share, change, even_if_refused=True)

    async def release(self, session: ShareSession) -> None:
        """Release the records that a member has in the partitions of its ended session; other records stay locked."""
        limits = self.limits(session.group_id)
        turns = self._turns
        for topic_id, index in list(session.partitions):
            # Leaders move and topics are deleted during the calls to the coordinator.
            held = self._held.get(ShareKey(session.group_id, topic_id, index))
            if held is None:
                continue
            change = held.share.release(session.member_id, limits)
            if change is not None:
                await self.tell(held.share, change)
                await turns.breathe_behind()

    def disconnected(self, connection: int) -> None:
        """A client disconnected, which ends its session."""
        ended = self.sessions.disconnected(connection)
        if ended is not None:
            session, was_over = ended
            self._kernel.spawn(self._ended(session, releases=not was_over))

    async def _ended(self, session: ShareSession, *, releases: bool) -> None:
        if releases:
            await self.release(session)
        if not self.sessions.has_any(session.group_id):
            # Without members offsets may be altered or deleted, so the next member loads them again.
            for key in [key for key in self._held if key.group_id == session.group_id]:
                self._drop(key)
