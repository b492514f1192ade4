"""A partition of a share group at its leader (KIP-932): which records are on their way to whom, and until when.

Nothing here reads a log or writes one. Who serves a ShareFetch has read batches and asks which of them a member gets;
what becomes of records is first told to the share coordinator (`Change`) and then `settled`, one way or the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.share.state import NO_OFFSET, Delivery, ShareKey, ShareState, StateBatch
from odradek.share.stretches import NOBODY, Lot, Stretch, Stretches
from odradek.wire.errors import ErrorCode

__all__ = ["LOST", "Acknowledged", "Acquired", "AckType", "Change", "Limits", "ReadBatch", "SharePartition"]

_last = attrgetter("last")

NOTHING_ACQUIRED = Refused(
    ErrorCode.INVALID_RECORD_STATE, "Batch record not found. The request batch offsets are not found in the cache."
)
LOST = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
"""Kafka fails with the whole request if the start has moved into the batch, and nothing is acquired behind it."""
PAST_FIRST = Refused(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
)
PAST_LAST = Refused(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
)
NOT_OWNER_OF_BATCH = Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
NOT_OWNER = Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
BATCH_NOT_ACQUIRED = Refused(
    ErrorCode.INVALID_RECORD_STATE,
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
)
NOT_ACQUIRED = Refused(ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired.")
NOT_RENEWABLE = Refused(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")


class AckType(IntEnum):
    """What a member says of a record, numbered as in ShareAcknowledge."""

    GAP = 0
    """There is no such record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Acknowledged(Struct, frozen=True):
    """What a member says of records in a row: one type for all, or one for each."""

    first: int
    last: int
    types: tuple[AckType, ...]


class ReadBatch(Struct, frozen=True):
    """A batch of the log that could be delivered; one of an aborted transaction is for nobody who reads committed."""

    first: int
    last: int
    aborted: bool = False


class Limits(Struct, frozen=True):
    """What holds for a group now; times in ms."""

    lock_ms: int
    deliveries: int
    """How often a record is delivered before it is given up."""
    locks: int
    """How many records are on their way at most; whole batches may be a few more."""
    renews: bool = True
    """Whether members may prolong their locks (KIP-1222)."""


class Acquired(Struct):
    """Records that a member has got, and how often they were delivered."""

    first: int
    last: int
    count: int


class Change(Struct, frozen=True):
    """What is to become of records once the share coordinator knows of it."""

    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]
    stretches: tuple[tuple[int, int, Delivery], ...]
    """The first and the last record of each stretch: it may be cut until the coordinator knows."""


class SharePartition:
    """What the leader knows of a partition of a share group: volatile, but for what the share coordinator keeps."""

    def __init__(self, key: ShareKey, state: ShareState, leader_epoch: int, start_offset: int) -> None:
        """`start_offset`: where to begin if the state does not say, or says what is gone from the log."""
        self.key = key
        self.state_epoch = state.state_epoch
        self.leader_epoch = leader_epoch
        self.looked_at = NO_OFFSET
        """Where a fetch has read last."""
        begin = start_offset if state.start_offset == NO_OFFSET else state.start_offset
        self.stretches = Stretches(begin)
        for batch in state.batches:
            if batch.first > self.stretches.end:
                self._restore(self.stretches.end, batch.first - 1, Delivery.AVAILABLE, 0)
            self._restore(batch.first, batch.last, Delivery(batch.state), batch.count)
        self.stretches.move_on()
        self.stretches.begin_at(start_offset if state.start_offset == NO_OFFSET else max(begin, 0))

    def _restore(self, first: int, last: int, state: Delivery, count: int) -> None:
        self.stretches.append(Stretch(first, last, state, count, Lot(first, last)))

    @property
    def next_offset(self) -> int:
        """Where a member that fetches is to read."""
        return self.stretches.first_free()

    @property
    def is_looked_at(self) -> bool:
        """Whether a fetch has read where the next one is to read: there were no records, or others came first."""
        return self.looked_at == self.next_offset

    def can_acquire(self, limits: Limits) -> bool:
        """Whether there is room for another record on its way, or one that was on its way before."""
        stretches = self.stretches
        return stretches.end - stretches.start < limits.locks or stretches.first_free() < stretches.end

    # ------------------------------------------------------------------ acquiring

    def acquire(
        self,
        member: str,
        batches: Sequence[ReadBatch],
        *,
        max_records: int,
        batch_size: int,
        strict: bool,
        limits: Limits,
        now: int,
    ) -> list[Acquired]:
        """The records of these batches that the member gets.

        Whole batches, so that a few more than `max_records` may come, unless it is `strict`; records that are acquired
        for the first time are told apart into lots of about `batch_size`.
        """
        stretches = self.stretches
        if batches:
            stretches.pass_gap(batches[0].first)
        batches = self._wanted(batches, max_records, limits)
        if not batches:
            return []
        aborted = [batch for batch in batches if batch.aborted]
        got: list[Stretch] = []
        left = max_records
        position = min(self.next_offset, batches[0].first)
        for lot_last in _ends(batches, position, max(batch_size, 1)):
            lot_first, position = position, lot_last + 1
            if left <= 0:
                break
            if lot_last >= stretches.end:
                # What compaction has left out between batches goes with the records behind it.
                new = Stretch(stretches.end, lot_last, Delivery.AVAILABLE, 0, Lot(stretches.end, lot_last))
                stretches.append(new)
            stretches.cut(lot_first, lot_last)
            for at in range(bisect_left(aborted, lot_first, key=_last), len(aborted)):
                batch = aborted[at]
                if batch.first > lot_last:
                    break
                stretches.cut(max(batch.first, lot_first), min(batch.last, lot_last))
            for stretch in stretches.within(lot_first, lot_last):
                if left > 0 and stretch.is_free:
                    if strict and stretch.size > left:
                        stretch.lot.split = True
                        stretches.cut(stretch.first, stretch.first + left - 1)
                    if stretch.lot.first < max(lot_first, stretches.start) or stretch.lot.last > lot_last:
                        # Others may get the rest of what was one lot when it was acquired before, or it is gone.
                        stretch.lot.split = True
                    left -= stretch.size
                    got.append(stretch)
        for stretch in got:
            stretch.count += 1
            stretch.state, stretch.member, stretch.deadline = Delivery.ACQUIRED, member, now + limits.lock_ms
            at = bisect_left(aborted, stretch.first, key=_last)
            if at < len(aborted) and aborted[at].first <= stretch.first and stretch.last <= aborted[at].last:
                stretch.lot.split = True
                stretches.become(stretch, Delivery.ARCHIVED)
        return _joined(each for each in got if each.state is Delivery.ACQUIRED)

    def _wanted(self, batches: Sequence[ReadBatch], max_records: int, limits: Limits) -> list[ReadBatch]:
        """The first of these batches: as many as there is room for, and as have that many records in them."""
        stretches = self.stretches
        wanted: list[ReadBatch] = []
        records = 0
        for batch in batches:
            new = max(batch.first, stretches.end)
            if records >= max_records or (batch.last >= new and new - stretches.start >= limits.locks):
                break
            records += sum(
                min(each.last, batch.last) - max(each.first, batch.first) + 1
                for each in stretches.within(batch.first, batch.last)
                if each.is_free
            )
            records += max(batch.last - new + 1, 0)
            wanted.append(batch)
        return wanted

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(
        self, member: str, acknowledged: Iterable[Acknowledged], limits: Limits, now: int
    ) -> Change | Refused | None:
        """What a member says of records it has; None where there is nothing to tell, and nothing changes if refused."""
        changed: dict[int, tuple[Stretch, Delivery]] = {}
        renewed: list[Stretch] = []
        before = -1
        for said in acknowledged:
            if said.first <= before and said.last >= self.stretches.start:
                # It has just been said what becomes of them.
                return NOT_ACQUIRED
            before = said.last
            refused = self._acknowledge(member, said, limits, changed, renewed)
            if refused is not None:
                return refused
        for stretch in renewed:
            stretch.deadline = now + limits.lock_ms
        return self._change(list(changed.values())) if changed else None

    def _acknowledge(
        self,
        member: str,
        said: Acknowledged,
        limits: Limits,
        changed: dict[int, tuple[Stretch, Delivery]],
        renewed: list[Stretch],
    ) -> Refused | None:
        stretches = self.stretches
        if said.last < stretches.start:
            # It is done with already, as far as anybody can tell.
            return None
        first = max(said.first, stretches.start)
        if stretches.start == stretches.end:
            return NOTHING_ACQUIRED if said.first >= stretches.start else LOST
        if first >= stretches.end:
            return PAST_FIRST
        if said.last >= stretches.end:
            return PAST_LAST
        told = stretches.within(first, said.last)
        if all(each.is_gap for each in told):
            return PAST_FIRST
        if told[-1].is_gap:
            return PAST_LAST
        lots: dict[int, Lot] = {id(each.lot): each.lot for each in told if not each.is_gap}
        for lot in lots.values():
            refused = self._check_lot(member, lot, first, said.last)
            if refused is not None:
                return refused
            begin, end = max(lot.first, first), min(lot.last, said.last)
            runs = _runs(said, begin, end)
            if len(runs) > 1:
                lot.split = True
            for run_first, run_last, kind in runs:
                for stretch in stretches.cut(run_first, run_last):
                    if stretch.state is not Delivery.ACQUIRED or stretch.pending:
                        return NOT_ACQUIRED
                    if stretch.member != member:
                        return NOT_OWNER
                    if kind is AckType.RENEW:
                        if not limits.renews:
                            return NOT_RENEWABLE
                        renewed.append(stretch)
                    else:
                        changed[id(stretch)] = stretch, _outcome(kind, stretch, limits)
        return None

    def _check_lot(self, member: str, lot: Lot, first: int, last: int) -> Refused | None:
        """A lot that nobody has split has one owner and one state, and is refused as a whole."""
        if lot.split:
            return None
        of_lot = self.stretches.within(max(lot.first, self.stretches.start), lot.last)
        if of_lot[0].member not in (member, NOBODY):
            return NOT_OWNER_OF_BATCH
        if of_lot[0].state is not Delivery.ACQUIRED:
            return BATCH_NOT_ACQUIRED
        if first > lot.first or last < lot.last:
            lot.split = True
        return None

    # ------------------------------------------------------------------ giving back

    def release(self, member: str, limits: Limits) -> Change | None:
        """The member is gone: others get what it has."""
        return self._release([each for each in self.stretches if each.member == member], limits)

    def expire(self, limits: Limits, now: int) -> Change | None:
        """Locks whose time is over are opened."""
        return self._release([each for each in self.stretches if each.deadline <= now], limits)

    def _release(self, stretches: Iterable[Stretch], limits: Limits) -> Change | None:
        held = [each for each in stretches if each.state is Delivery.ACQUIRED and not each.pending]
        if not held:
            return None
        start = self.stretches.start
        return self._change(
            [
                (each, Delivery.ARCHIVED if each.last < start else _outcome(AckType.RELEASE, each, limits))
                for each in held
            ]
        )

    def next_deadline(self) -> int | None:
        """When the next lock ends (ms)."""
        held = (each.deadline for each in self.stretches if each.state is Delivery.ACQUIRED and not each.pending)
        return min(held, default=None)

    # ------------------------------------------------------------------ what becomes of records

    def _change(self, changed: list[tuple[Stretch, Delivery]]) -> Change:
        changed.sort(key=lambda each: each[0].first)
        complete = self.stretches.complete
        batches: list[StateBatch] = []
        ended: list[tuple[int, int, Delivery]] = []
        lot: Lot | None = None
        for stretch, state in changed:
            stretch.pending = True
            ended.append((stretch.first, stretch.last, state))
            if state in (Delivery.ACKNOWLEDGED, Delivery.ARCHIVED) and stretch.first >= self.stretches.start:
                complete += stretch.size
            before = batches[-1] if batches else None
            if (
                before is not None
                and lot is stretch.lot
                and before.last + 1 == stretch.first
                and (before.state, before.count) == (state, stretch.count)
            ):
                batches[-1] = StateBatch(before.first, stretch.last, state, stretch.count)
            else:
                batches.append(StateBatch(stretch.first, stretch.last, state, stretch.count))
            lot = stretch.lot
        return Change(self.stretches.start, complete, tuple(batches), tuple(ended))

    def settled(self, change: Change, *, kept: bool) -> None:
        """The share coordinator knows of the change, or could not be told: then everything is as before."""
        for first, last, state in change.stretches:
            self.stretches.unlock_gone(first, last, kept=kept)
            # Whoever has asked for a part of it meanwhile was refused, and has cut it.
            for stretch in self.stretches.within(first, last):
                stretch.pending = False
                if kept:
                    self.stretches.become(stretch, state)
        if kept:
            self.stretches.move_on()


def _outcome(kind: AckType, stretch: Stretch, limits: Limits) -> Delivery:
    if kind is AckType.ACCEPT:
        return Delivery.ACKNOWLEDGED
    if kind is AckType.RELEASE and stretch.count < limits.deliveries:
        return Delivery.AVAILABLE
    return Delivery.ARCHIVED


def _runs(said: Acknowledged, first: int, last: int) -> list[tuple[int, int, AckType]]:
    """The records of a lot, by what is said of them."""
    if len(said.types) == 1:
        return [(first, last, said.types[0])]
    runs: list[tuple[int, int, AckType]] = []
    for offset in range(first, last + 1):
        kind = said.types[offset - said.first]
        if runs and runs[-1][2] is kind:
            runs[-1] = (runs[-1][0], offset, kind)
        else:
            runs.append((offset, offset, kind))
    return runs


def _ends(batches: Sequence[ReadBatch], first: int, batch_size: int) -> Iterable[int]:
    """Where lots end: behind as many whole batches as it takes to have so many records."""
    last = first - 1
    for batch in batches:
        last = batch.last
        if last - first + 1 >= batch_size:
            yield last
            first = last + 1
    if last >= first:
        yield last


def _joined(stretches: Iterable[Stretch]) -> list[Acquired]:
    """What a member is told: records of one lot, delivered as often, are told together."""
    told: list[Acquired] = []
    lot: Lot | None = None
    for stretch in sorted(stretches, key=lambda each: each.first):
        before = told[-1] if told else None
        follows = before is not None and (before.last + 1, before.count) == (stretch.first, stretch.count)
        if before is not None and follows and lot is stretch.lot:
            before.last = stretch.last
        else:
            told.append(Acquired(stretch.first, stretch.last, stretch.count))
        lot = stretch.lot
    return told
