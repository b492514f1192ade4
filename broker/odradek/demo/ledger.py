"""The transactions of the producers, by their reports."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from odradek.demo.lines import Began, Committing, Ended, Line

__all__ = ["Ledger", "Promise", "Stage"]


class Stage(StrEnum):
    """The progress of a transaction, as its producer knows it."""

    BEGAN = "began"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


ENDED = frozenset({Stage.COMMITTED, Stage.ABORTED})


class Promise(Struct):
    """A transaction; it stays in `BEGAN` if its producer crashed before it asked for a commit."""

    parts: int
    stage: Stage = Stage.BEGAN

    @property
    def may_be_committed(self) -> bool:
        """Whether a commit was asked for."""
        return self.stage in (Stage.COMMITTING, Stage.COMMITTED)


class Ledger:
    """All transactions of all producers."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        self._counts: Counter[Stage] = Counter()
        self._open: dict[int, str] = {}
        self.cut_off = 0

    def hear(self, producer: int, line: Line) -> None:
        """A line of the producer with this number."""
        match line:
            case Began(transfer=name, parts=parts):
                self.promises[name] = Promise(parts)
                self._open[producer] = name
            case Committing(transfer=name):
                self.promises[name].stage = Stage.COMMITTING
            case Ended(transfer=name, committed=committed):
                stage = self.promises[name].stage = Stage.COMMITTED if committed else Stage.ABORTED
                self._counts[stage] += 1
                self._open.pop(producer, None)

    def producer_is_gone(self, producer: int) -> None:
        """The process of a producer has ended; its open transaction is left to the coordinator."""
        if self._open.pop(producer, None) is not None:
            self.cut_off += 1

    @property
    def committed(self) -> int:
        """Transactions whose commit was confirmed to the producer."""
        return self._counts[Stage.COMMITTED]

    @property
    def aborted(self) -> int:
        """Transactions whose abort was confirmed to the producer."""
        return self._counts[Stage.ABORTED]

    @property
    def open(self) -> int:
        """Transactions of live producers that have not ended."""
        return len(self._open)
