"""Verification guards: the memory, on one leader, of transactions that are about to begin in a partition.

The first batch of a transaction waits while the coordinator is asked (KIP-890, part 1); a marker may pass meanwhile.
So each verification gets a guard, the marker takes it away, and the append is refused without it.
All this is volatile: another leader has no guards, and verifies again.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Guard", "Guards", "Pending"]


class Guard(Struct, frozen=True):
    """Proof that the coordinator was asked about the transaction that is about to begin; guards compare by identity."""

    number: int


class Pending(Struct):
    """A producer whose first transactional write here is being verified.

    `lowest_sequence` is the lowest base sequence of its requests: a later batch must not overtake it while it is
    retried. `supports_epoch_bump` is that of the first request of the epoch, even if a later one differs.
    """

    guard: Guard
    producer_epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    since: int


class Guards:
    """Pending producers by producer id, for one partition on one leader."""

    def __init__(self) -> None:
        self.pending: dict[int, Pending] = {}
        self._issued = 0

    def ask(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, supports_epoch_bump: bool, now: int
    ) -> Guard:
        """The producer's present guard, or a new one."""
        pending = self.pending.get(producer_id)
        if pending is None:
            self._issued += 1
            guard = Guard(self._issued)
            self.pending[producer_id] = Pending(guard, producer_epoch, base_sequence, supports_epoch_bump, now)
            return guard
        if producer_epoch > pending.producer_epoch:
            pending.producer_epoch = producer_epoch
            pending.lowest_sequence = base_sequence
            # Kafka keeps the value of the very first request. Then a late batch of a newer client, which was refused,
            # has the effect that the marker of the older client that replaced it does not remove the guard.
            pending.supports_epoch_bump = supports_epoch_bump
        elif producer_epoch == pending.producer_epoch:
            pending.lowest_sequence = min(pending.lowest_sequence, base_sequence)
        return pending.guard

    def holds(self, producer_id: int, guard: Guard | None) -> bool:
        """Whether this is the producer's guard, and no marker has taken it away since."""
        pending = self.pending.get(producer_id)
        return guard is not None and pending is not None and pending.guard is guard

    def lets_begin(self, producer_id: int, guard: Guard, sequence: int) -> bool:
        """Whether it `holds`, and no other request with the producer's first sequence comes before this one."""
        pending = self.pending.get(producer_id)
        return (
            pending is not None
            and pending.guard is guard
            and sequence <= pending.lowest_sequence
            and not (sequence and pending.supports_epoch_bump)
        )

    def transaction_opened(self, producer_id: int) -> None:
        """The first batch of the transaction is in the log: from now on the log itself is the proof."""
        self.pending.pop(producer_id, None)

    def marker_passed(self, producer_id: int, *, producer_epoch: int) -> None:
        """A marker ends the earlier transaction.

        KIP-890, part 2: the marker carries the bumped epoch, with which the next transaction may have asked already
        while this marker was on its way; that one keeps its guard.
        """
        pending = self.pending.get(producer_id)
        if pending is not None and not (pending.supports_epoch_bump and pending.producer_epoch == producer_epoch):
            del self.pending[producer_id]

    def expire(self, now: int, *, after_ms: int) -> None:
        """Forget producers that verified this long ago and never appended."""
        for producer_id in [key for key, pending in self.pending.items() if now - pending.since >= after_ms]:
            del self.pending[producer_id]
