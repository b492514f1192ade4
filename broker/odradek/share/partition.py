"""A partition of a share group at its leader (KIP-932): the acquired records, their members and their locks.

It neither reads nor writes a log. ShareFetch passes the batches that it has read, and a member acquires some of them.
A `Change` of records goes to the share coordinator first, and is then `settled`: kept, or undone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.share.state import NO_OFFSET, Delivery, ShareKey, ShareState, Staged, StateBatch
from odradek.share.stretches import NOBODY, Lot, Stretch, Stretches
from odradek.wire.errors import ErrorCode

__all__ = [
    "LOST",
    "AckType",
    "Acknowledged",
    "Acquired",
    "Change",
    "DeadLetters",
    "Limits",
    "Pair",
    "ReadBatch",
    "SharePartition",
]

_last = attrgetter("last")
Pair = tuple[int, int]
"""Id and epoch of a producer."""

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
REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
FINISHED = Refused(
    ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged in a transaction. It is not in flight any more."
)
NOT_RENEWABLE = Refused(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")


class AckType(IntEnum):
    """Acknowledgement of a record, numbered as in ShareAcknowledge."""

    GAP = 0
    """The offset has no record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Acknowledged(Struct, frozen=True):
    """Acknowledgement of consecutive records: one type for all, or one for each."""

    first: int
    last: int
    types: tuple[AckType, ...]


class ReadBatch(Struct, frozen=True):
    """A batch of the log that could be delivered; a group that reads committed skips those of aborted transactions."""

    first: int
    last: int
    aborted: bool = False


class Limits(Struct, frozen=True):
    """The present limits of a group; times in ms."""

    lock_ms: int
    deliveries: int
    """Number of deliveries after which a record is archived."""
    locks: int
    """Limit of acquired records; whole batches may exceed it a little."""
    renews: bool = True
    """Whether members may prolong their locks (KIP-1222)."""
    dead_letters: bool = False
    """Whether the group has a dead letter queue (KIP-1191)."""


class Acquired(Struct):
    """Acquired records, with their delivery count."""

    first: int
    last: int
    count: int


class DeadLetters(Struct, frozen=True):
    """Consecutive records for the dead letter queue; they become ARCHIVED when they are there, or cannot get there."""

    first: int
    last: int
    count: int
    cause: str


class Change(Struct, frozen=True):
    """A change of records that takes effect when the share coordinator has stored it."""

    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]
    stretches: tuple[tuple[int, int, Delivery], ...]
    """First and last record, and new state, of each stretch: a stretch may be cut before the change is settled."""


class SharePartition:
    """The leader's state of a share partition: volatile, except for the part that the share coordinator stores."""

    def __init__(self, key: ShareKey, state: ShareState, leader_epoch: int, start_offset: int) -> None:
        """`start_offset`: the start if the state has none, or one that is no longer in the log."""
        self.key = key
        self.state_epoch = state.state_epoch
        self.leader_epoch = leader_epoch
        self.looked_at = NO_OFFSET
        """The offset of the last read."""
        self.stagings = 0
        """Number of changes that have staged records in a transaction (KIP-1289)."""
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
        """The offset at which the next fetch reads."""
        return self.stretches.first_free()

    @property
    def is_looked_at(self) -> bool:
        """Whether the last fetch read at the same offset: there were no records, or others came first."""
        return self.looked_at == self.next_offset

    def can_acquire(self, limits: Limits) -> bool:
        """Whether another record can be acquired: the limit is not reached, or one was released."""
        stretches = self.stretches
        return stretches.end - stretches.start < limits.locks or stretches.first_free() < stretches.end

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
        """Acquire records of these batches for the member.

        Whole batches, so there may be a few more than `max_records`, unless `strict`. Records that are acquired for the
        first time form lots of about `batch_size`.
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
                # Offsets that compaction removed between batches belong to the records behind them.
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
                        # Other members may get the rest of a lot that was acquired before, or it is gone.
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
        """The first of these batches, up to the limit of acquired records and to `max_records`."""
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

    def acknowledge(
        self, member: str, acknowledged: Iterable[Acknowledged], limits: Limits, now: int, producer: Pair | None = None
    ) -> Change | Refused | None:
        """Take a member's acknowledgements. None if there is nothing to store; a refusal changes nothing.

        With a producer the records are staged in its transaction, which ends their locks (KIP-1289).
        """
        changed: dict[int, tuple[Stretch, Delivery]] = {}
        renewed: list[Stretch] = []
        before = -1
        for said in acknowledged:
            if producer is not None and said.first < self.stretches.start:
                # Without a transaction this succeeds; in one it would count for what another member has finished.
                return FINISHED
            if said.first <= before and said.last >= self.stretches.start:
                # They were acknowledged just now.
                return NOT_ACQUIRED
            before = said.last
            refused = self._acknowledge(member, said, limits, changed, renewed)
            if refused is not None:
                return refused
        for stretch in renewed:
            stretch.deadline = now + limits.lock_ms
        return self._change(list(changed.values()), producer) if changed else None

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
            # It seems to be finished already.
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
        """A lot that was not split has one owner and one state, and is refused as a whole."""
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

    @property
    def has_staged(self) -> bool:
        """Whether there are records that wait for the end of a transaction."""
        return any(each.state is Delivery.TX_PENDING for each in self.stretches)

    def take_over(self, state: ShareState) -> list[DeadLetters]:
        """Give staged records the state that the share coordinator has of them now, at the end of a transaction.

        Returns the records for the dead letter queue.
        """
        ended = [batch for batch in state.batches if batch.state != Delivery.TX_PENDING]
        waiting = [
            (each.first, each.last) for each in self.stretches if each.state is Delivery.TX_PENDING and not each.pending
        ]
        dead: list[DeadLetters] = []
        for first, last in waiting:
            for batch in ended:
                begin, end = max(first, batch.first), min(last, batch.last)
                if begin > end:
                    continue
                for stretch in self.stretches.cut(begin, end):
                    stretch.lot.split = stretch.lot.split or (begin, end) != (stretch.lot.first, stretch.lot.last)
                    self.stretches.become(stretch, Delivery(batch.state))
                    stretch.cause = REJECTED
                dead += self._dead_letters(begin, end)
        self.stretches.move_on()
        return dead

    def dead_letters(self, change: Change) -> list[DeadLetters]:
        """The records of a kept change that go to the dead letter queue.

        As in Kafka, records that were acquired together and acknowledged alike go together, others one by one.
        """
        return [
            each
            for first, last, state in change.stretches
            if state is Delivery.ARCHIVING
            for each in self._dead_letters(first, last)
        ]

    def unwritten(self, limits: Limits) -> list[DeadLetters]:
        """The records that an earlier leader has left between both writes; the queue may have got them already."""
        found = [each for each in self.stretches if each.state is Delivery.ARCHIVING]
        for stretch in found:
            stretch.cause = DELIVERED_TOO_OFTEN if stretch.count >= limits.deliveries else REJECTED
        return [each for stretch in found for each in self._dead_letters(stretch.first, stretch.last)]

    def _dead_letters(self, first: int, last: int) -> Iterable[DeadLetters]:
        for stretch in self.stretches.within(first, last):
            if stretch.state is not Delivery.ARCHIVING:
                continue
            if not stretch.lot.split:
                yield DeadLetters(stretch.first, stretch.last, stretch.count, stretch.cause)
                continue
            for offset in range(stretch.first, stretch.last + 1):
                yield DeadLetters(offset, offset, stretch.count, stretch.cause)

    def archive(self, letters: DeadLetters) -> Change | None:
        """Archive records that the dead letter queue has, or will never have; None if they are gone meanwhile."""
        first, last = max(letters.first, self.stretches.start), letters.last
        if first > last:
            return None
        archiving = [each for each in self.stretches.cut(first, last) if each.state is Delivery.ARCHIVING]
        return self._change([(each, Delivery.ARCHIVED) for each in archiving]) if archiving else None

    def release(self, member: str, limits: Limits) -> Change | None:
        """Release the records of a member that is gone."""
        return self._release([each for each in self.stretches if each.member == member], limits)

    def expire(self, limits: Limits, now: int) -> Change | None:
        """Release records whose locks have expired."""
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

    def _change(self, changed: list[tuple[Stretch, Delivery]], producer: Pair | None = None) -> Change:
        changed.sort(key=lambda each: each[0].first)
        complete = self.stretches.complete
        batches: list[StateBatch] = []
        ended: list[tuple[int, int, Delivery]] = []
        lot: Lot | None = None
        staged: Staged | None = None
        for stretch, state in changed:
            stretch.pending = True
            if producer is not None:
                staged, state = Staged(*producer, state), Delivery.TX_PENDING
            ended.append((stretch.first, stretch.last, state))
            if state in (Delivery.ACKNOWLEDGED, Delivery.ARCHIVED) and stretch.first >= self.stretches.start:
                complete += stretch.size
            before = batches[-1] if batches else None
            if (
                before is not None
                and lot is stretch.lot
                and before.last + 1 == stretch.first
                and (before.state, before.count, before.staged) == (state, stretch.count, staged)
            ):
                batches[-1] = StateBatch(before.first, stretch.last, state, stretch.count, staged)
            else:
                batches.append(StateBatch(stretch.first, stretch.last, state, stretch.count, staged))
            lot = stretch.lot
        return Change(self.stretches.start, complete, tuple(batches), tuple(ended))

    def settled(self, change: Change, *, kept: bool) -> None:
        """The share coordinator has stored the change, or failed to: then it is undone."""
        for first, last, state in change.stretches:
            self.stretches.unlock_gone(first, last, kept=kept)
            # An acknowledgement of a part of it was refused meanwhile, and has cut it.
            for stretch in self.stretches.within(first, last):
                stretch.pending = False
                if kept:
                    self.stretches.become(stretch, state)
        if kept:
            self.stagings += any(state is Delivery.TX_PENDING for _, _, state in change.stretches)
            self.stretches.move_on()


def _outcome(kind: AckType, stretch: Stretch, limits: Limits) -> Delivery:
    if kind is AckType.ACCEPT:
        return Delivery.ACKNOWLEDGED
    if kind is AckType.RELEASE and stretch.count < limits.deliveries:
        return Delivery.AVAILABLE
    if kind is AckType.GAP or not limits.dead_letters:
        return Delivery.ARCHIVED
    stretch.cause = REJECTED if kind is AckType.REJECT else DELIVERED_TOO_OFTEN
    return Delivery.ARCHIVING


def _runs(said: Acknowledged, first: int, last: int) -> list[tuple[int, int, AckType]]:
    """Runs of records of a lot with the same acknowledgement."""
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
    """The ends of lots: each has as many whole batches as it takes for `batch_size` records."""
    last = first - 1
    for batch in batches:
        last = batch.last
        if last - first + 1 >= batch_size:
            yield last
            first = last + 1
    if last >= first:
        yield last


def _joined(stretches: Iterable[Stretch]) -> list[Acquired]:
    """Acquired records for the response: those of one lot with the same delivery count are joined."""
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
