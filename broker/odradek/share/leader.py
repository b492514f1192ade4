"""The share partitions of this broker: made at the first request for them, and dropped with the leadership.

Locks end by the broker's own clock. The share coordinator stores the state of a record before another member gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.config.share import BY_DURATION, duration_ms
from odradek.core.machine import Refused
from odradek.log.offsets import EARLIEST, LATEST
from odradek.metadata.image import ResourceType
from odradek.share.coordinator import Written
from odradek.share.partition import Change, Limits, SharePartition
from odradek.share.sessions import ShareSession, ShareSessions
from odradek.share.state import NO_OFFSET, ShareKey
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.core.flow import Kernel, Purgatory, Wait
    from odradek.core.timers import Timers
    from odradek.core.turns import Turns
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings
    from odradek.log.partition import Partition
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
}
"""Errors for a member when the share coordinator refuses; any other one is UNKNOWN_SERVER_ERROR."""


def acquirable(key: ShareKey) -> tuple[str, ShareKey]:
    """Purgatory key of fetches that wait for records of this share partition."""
    return ("acquirable", key)


class _Held(Struct):
    partition: Partition
    share: SharePartition


class Shares:
    """The share partitions and the sessions of one broker."""

    def __init__(
        self,
        states: ShareStateClient,
        partitions: Mapping[tuple[str, int], Partition],
        *,
        metadata: Metadata,
        settings: Settings,
        clock: Clock,
        kernel: Kernel,
        turns: Turns,
        timers: Timers,
        purgatory: Purgatory,
    ) -> None:
        """`partitions`: those that this broker leads, by topic and index."""
        self._states = states
        self._partitions = partitions
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._kernel = kernel
        self._turns = turns
        self._timers = timers
        self._purgatory = purgatory
        self.sessions = ShareSessions()
        self._held: dict[ShareKey, _Held] = {}
        self._read_here: dict[tuple[str, int], dict[ShareKey, None]] = {}
        """The keys of `_held`, by partition."""
        self._beginning: dict[ShareKey, list[Wait[None]]] = {}

    # ------------------------------------------------------------------ settings

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
        )

    def reads_committed(self, group_id: str) -> bool:
        """Whether a group reads committed records only."""
        own = self._metadata.image.config(ResourceType.GROUP, group_id)
        return own.get("share.isolation.level") == "read_committed"

    # ------------------------------------------------------------------ share partitions

    def known(self, key: ShareKey, partition: Partition) -> SharePartition | None:
        """The share partition, if it was loaded since this broker leads."""
        held = self._held.get(key)
        return held.share if held is not None and held.partition is partition else None

    async def find(self, key: ShareKey, partition: Partition) -> SharePartition | Refused:
        """The share partition; the first request reads its state from the share coordinator."""
        while (share := self.known(key, partition)) is None:
            waiting = self._beginning.get(key)
            if waiting is not None:
                wait = self._kernel.wait()
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
        self._purgatory.wake(acquirable(key))

    def _nothing(self) -> None:
        """Does nothing: the timer is off."""

    # ------------------------------------------------------------------ what becomes of records

    async def tell(self, share: SharePartition, change: Change) -> Refused | None:
        """Have the share coordinator store a change; only then other members may have the records."""
        written = Written(
            share.state_epoch, share.leader_epoch, change.start_offset, change.complete_count, change.batches
        )
        refused = await self._states.write(share.key, written)
        share.settled(change, kept=refused is None)
        if refused is not None and refused.error in FENCED:
            # A newer share partition may have taken its place meanwhile.
            held = self._held.get(share.key)
            if held is not None and held.share is share:
                self._drop(share.key)
        else:
            self.watch(share)
            self._purgatory.wake(acquirable(share.key))
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

    # ------------------------------------------------------------------ members that go

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
