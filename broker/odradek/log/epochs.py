"""The history of leader epochs of one log: the start offset of each leader (KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

__all__ = ["NO_EPOCH", "NO_OFFSET", "EpochEnd", "LeaderEpochs"]

NO_EPOCH = -1
NO_OFFSET = -1


class EpochEnd(Struct, frozen=True):
    """The end of an epoch: the largest known epoch up to the requested one, and the offset behind its last record."""

    leader_epoch: int
    end_offset: int


UNKNOWN = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """Epochs and their start offsets, both growing."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        """All epochs with their start offsets, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """A leader with this epoch begins at this offset; entries behind that were never committed, and are removed."""
        if self._epochs and self.latest == epoch and self._starts[-1] <= start_offset:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch in which this offset was or would be written; -1 before the first known epoch."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def end_of(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """The answer of OffsetForLeaderEpoch: offset and epoch are -1 for an epoch beyond the latest."""
        if epoch < 0 or epoch > self.latest:
            return UNKNOWN
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._epochs, epoch)
        # Older than all known epochs: its records ended at the start of the first known one.
        known = self._epochs[index - 1] if index else epoch
        return EpochEnd(known, self._starts[index])

    def truncate_end(self, offset: int) -> None:
        """Forget the epochs that began at or behind this offset."""
        while self._starts and self._starts[-1] >= offset:
            self._pop()

    def truncate_start(self, offset: int) -> None:
        """The log begins here now: only the last of the earlier epochs, which reaches into it, stays."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0:
            del self._epochs[:index], self._starts[:index]
            self._starts[0] = max(self._starts[0], offset)

    def _pop(self) -> None:
        self._epochs.pop()
        self._starts.pop()
