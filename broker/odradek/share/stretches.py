"""The records in flight of a share partition, as stretches of consecutive records in the same state.

They lie one behind the other from the start offset of the group to the offset at which it reads on. Offsets without
records, which compaction removed, are stretches of their own that are never delivered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from copy import copy

from msgspec import Struct

from odradek.share.state import Delivery

__all__ = ["NOBODY", "Lot", "Stretch", "Stretches"]

NOBODY = ""
_TERMINAL = frozenset({Delivery.ACKNOWLEDGED, Delivery.ARCHIVED})


class Lot(Struct):
    """Records that were acquired together; an acknowledgement of a part makes it `split` for good."""

    first: int
    last: int
    split: bool = False


class Stretch(Struct):
    """Consecutive records in the same state; `deadline` is the end of their lock (ms)."""

    first: int
    last: int
    state: Delivery
    count: int
    lot: Lot
    member: str = NOBODY
    deadline: int = 0
    pending: bool = False
    """Whether a change of them is on its way to the share coordinator: they must not change meanwhile."""
    cause: str = ""
    """The reason for which the records go to the dead letter queue."""
    is_gap: bool = False
    """Whether these are offsets without records: they are neither delivered nor counted."""

    @property
    def size(self) -> int:
        return 0 if self.is_gap else self.last - self.first + 1

    @property
    def is_terminal(self) -> bool:
        return self.state in _TERMINAL

    @property
    def is_free(self) -> bool:
        """Whether a member can acquire them."""
        return self.state is Delivery.AVAILABLE and not self.pending


def _first(stretch: Stretch) -> int:
    return stretch.first


class Stretches:
    """The stretches from `start` up to `end`, the first offset that was never acquired.

    Acquired records stay locked when they are deleted from the log, and hold the start back until they are released.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.complete = 0
        """Number of finished records."""
        self._all: list[Stretch] = []
        self._gone: list[Stretch] = []
        """Records before the start that are still locked."""
        self._last_gone = -1
        """The last record that was counted when some of these were deleted; -1 if none is locked."""

    def __iter__(self) -> Iterator[Stretch]:
        yield from self._gone
        yield from self._all

    def append(self, stretch: Stretch) -> None:
        """Add records behind all others."""
        assert stretch.first == self.end, f"{stretch.first} does not follow {self.end}"
        self._all.append(stretch)
        self.end = stretch.last + 1
        if stretch.is_terminal:
            self.complete += stretch.size

    def pass_gap(self, first: int) -> None:
        """The log has no records before this offset: drop the free ones; the next stretch begins here."""
        free = self.first_free()
        if first <= free:
            return
        for stretch in self.cut(free, first - 1):
            if stretch.is_free:
                self.become(stretch, Delivery.ARCHIVED)
        if first <= self.end:
            return
        if self._all:
            self.append(
                Stretch(self.end, first - 1, Delivery.ARCHIVED, 0, Lot(self.end, first - 1, split=True), is_gap=True)
            )
        else:
            self.begin_at(first)

    def within(self, first: int, last: int) -> list[Stretch]:
        """The stretches that hold any of these records, as they are."""
        every = self._all
        at = max(bisect_right(every, first, key=_first) - 1, 0)
        found = []
        while at < len(every) and every[at].first <= last:
            if every[at].last >= first:
                found.append(every[at])
            at += 1
        return found

    def unlock_gone(self, first: int, last: int, *, kept: bool) -> None:
        """The release of deleted records was stored by the share coordinator, or failed."""
        for each in self._gone:
            if first <= each.first and each.last <= last:
                each.pending = False
        if kept:
            self._gone = [each for each in self._gone if not (first <= each.first and each.last <= last)]

    def cut(self, first: int, last: int) -> list[Stretch]:
        """The stretches of exactly these records; those at the ends are cut."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self.within(first, last)

    def _cut_before(self, offset: int) -> None:
        every = self._all
        at = bisect_right(every, offset, key=_first) - 1
        if at < 0 or every[at].first == offset or every[at].last < offset:
            return
        left = every[at]
        right = copy(left)
        right.first = offset
        left.last = offset - 1
        every.insert(at + 1, right)

    def become(self, stretch: Stretch, state: Delivery) -> None:
        """Change the state of a whole stretch, which takes it from its member."""
        if stretch.is_terminal:
            self.complete -= stretch.size
        stretch.state, stretch.member, stretch.pending = state, NOBODY, False
        if stretch.is_terminal:
            self.complete += stretch.size

    def first_free(self) -> int:
        """The offset to read next: the first free record."""
        return next((each.first for each in self._all if each.is_free), self.end)

    def move_on(self) -> None:
        """Move the start behind finished records, unless earlier records are locked."""
        if self._gone:
            return
        if not self._all and self._last_gone >= 0:
            # As in Kafka, which then continues behind the last record that it has counted, at any log start.
            self.start = self.end = self._last_gone + 1
        self._last_gone = -1
        done = 0
        for each in self._all:
            if not each.is_terminal or each.pending:
                break
            done += 1
            self.complete -= each.size
            self.start = each.last + 1
        del self._all[:done]

    def begin_at(self, offset: int) -> None:
        """Records before this offset were deleted from the log."""
        if offset <= self.start:
            return
        self._cut_before(offset)
        gone = [each for each in self._all if each.last < offset]
        self.complete -= sum(each.size for each in gone if each.is_terminal)
        self._all = self._all[len(gone) :]
        self._gone += [each for each in gone if each.state is Delivery.ACQUIRED]
        if self._gone and gone:
            self._last_gone = gone[-1].last
        self.start = offset
        self.end = max(self.end, offset)
