"""The transaction coordinators' own log, folded: who has what under way, what was decided, what is overdue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from odradek_pipeline.directories.levels import UNKNOWN, Levels
from odradek_pipeline.directories.proof import CLOCKS_MS
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.transactions.steps import SHARED, Known, Told, told_of

__all__ = ["NEVER_WHOLE", "Coordinators", "shared"]

STUCK_MS = 60_000
"""Markers are written within milliseconds of a decision; where a leader is away, within the seconds that it is."""
TIMEOUT_SLACK_MS = 20_000
"""Coordinators look for transactions that took too long every 10 s, and may be late."""

NEVER_WHOLE = 1 << 62
"""Since no time, ms."""

_UNDER_WAY = frozenset(("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"))
_LEVEL_2 = 2


@dataclass(slots=True)
class Coordinators:
    """The transaction coordinators' log, by producer id."""

    known: bool
    """Whether any of it was found; without it an open transaction cannot be told from a hanging one."""
    missing: frozenset[int] = frozenset()
    """Its partitions that are not there, or not whole: what they say cannot be known."""
    astray: frozenset[tuple[int, str]] = frozenset()
    """Transactional ids in a partition that is not the one of their name: that partition, and the id."""
    shortened: frozenset[int] = frozenset()
    """Its partitions from which compaction has removed what is not the newest."""
    whole_since: int = NEVER_WHOLE
    """Since when, ms, all partitions of the log have every decision that was taken, see `whole_since`."""
    last: dict[int, TransactionRecord] = field(default_factory=dict)
    level_2: set[tuple[int, int]] = field(default_factory=set)
    """Producer id and epoch of transactions begun at level 2, whose markers carry the next epoch."""
    begun_at_level_2: dict[tuple[int, int], TransactionRecord] = field(default_factory=dict)
    """The records that say so: the last of each transaction, which names all its partitions."""
    ended_below: set[tuple[int, int]] = field(default_factory=set)
    """Producer id and epoch of those that were begun at level 2 and ended at a lower one, where the epoch stays."""
    decisions: list[TransactionRecord] = field(default_factory=list)
    """Every PrepareCommit and PrepareAbort."""
    complete: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and offset, decisions whose markers have all been written, says the coordinator, and when, ms."""
    longest_ms: int = 0
    """The longest timeout that any client has asked for, ms."""
    overdue: list[tuple[TransactionRecord, int]] = field(default_factory=list)
    """Transactions that lived longer than their timeout allows, and how long, ms."""
    stuck: list[tuple[TransactionRecord, int]] = field(default_factory=list)
    """Decisions that have waited for their markers far too long, and how long, ms."""

    premature: list[tuple[TransactionRecord, int]] = field(default_factory=list)
    """Transactions of a level that had never been finalized when they began, and the highest one that had."""
    odd: list[Told] = field(default_factory=list)
    """Records that no coordinator would write."""

    @classmethod
    def fold(
        cls,
        records: Iterable[TransactionRecord],
        *,
        known: bool,
        now: int,
        levels: Levels | None = None,
        around: Known | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Coordinators:
        """Fold the records; `now` is the newest timestamp of all logs, the clock of an audit.

        Without `around` nothing is said of records that no coordinator would write. `until` has the clocks of
        partitions of a running broker: the other logs may have been copied later than these.
        """
        self = cls(known)
        finalized = levels or Levels()
        by_id: dict[str, TransactionRecord] = {}
        for record in records:
            before = by_id.get(record.transactional_id)
            by_id[record.transactional_id] = record
            self._note(before, record)
            if around is not None:
                self.odd += told_of(before, record, around)
            if record.state == "Ongoing" and (before is None or before.state != "Ongoing"):
                self._check_level(record, finalized)
        for record in by_id.values():
            clock = min(now, (until or {}).get(record.partition, now))
            for producer_id in {record.producer_id, record.previous_producer_id, record.next_producer_id} - {-1}:
                other = self.last.get(producer_id)
                if around is not None and other is not None:
                    self.odd.append(shared(producer_id, other, record))
                self.last[producer_id] = record
            if record.state == "Ongoing":
                self._check_age(record, clock)
            if record.state.startswith("Prepare") and clock - record.last_update > STUCK_MS:
                self.stuck.append((record, clock - record.last_update))
        return self

    def _note(self, before: TransactionRecord | None, record: TransactionRecord) -> None:
        who = record.producer_id, record.producer_epoch
        self.longest_ms = max(self.longest_ms, record.timeout_ms)
        if record.state == "Ongoing" and record.client_transaction_version >= _LEVEL_2 and who not in self.ended_below:
            self.level_2.add(who)
            self.begun_at_level_2[who] = record
        decided = record.state in ("PrepareCommit", "PrepareAbort")
        if decided and record.client_transaction_version < _LEVEL_2 and who in self.level_2:
            self.ended_below.add(who)
            self.level_2.discard(who)
            self.begun_at_level_2.pop(who, None)
        if (
            record.state.startswith("Complete")
            and before is not None
            and before.state == record.state.replace("Complete", "Prepare")
        ):
            self.complete[before.partition, before.offset] = max(record.last_update, 0)
        if decided:
            self.decisions.append(record)
        if record.state == "PrepareCommit":
            self._check_age(record, record.last_update)

    def _check_level(self, record: TransactionRecord, finalized: Levels) -> None:
        highest = finalized.highest_until(record.start if record.start > 0 else record.last_update)
        if highest != UNKNOWN and record.client_transaction_version > highest:
            self.premature.append((record, highest))

    def _check_age(self, record: TransactionRecord, until: int) -> None:
        age = until - record.start
        if record.start > 0 and record.timeout_ms > 0 and age > record.timeout_ms + TIMEOUT_SLACK_MS:
            self.overdue.append((record, age))

    def status(self, row: Mapping[str, Any]) -> tuple[str, TransactionRecord | None]:
        """What an open transaction is: ongoing, hanging, or unknown where there is no coordinator to ask."""
        record = self.last.get(row["producer_id"])
        if not self.known or (bool(self.missing) if record is None else record.partition in self.missing):
            return "unknown", record
        if (
            record is None
            or record.state not in _UNDER_WAY
            or (row["topic"], row["partition"]) not in record.partitions
        ):
            return "hanging", record
        ongoing_elsewhen = record.state == "Ongoing" and record.producer_epoch != row["epoch"]
        return ("hanging" if ongoing_elsewhen else "ongoing"), record

    def partition_of(self, producer_id: int) -> int:
        """The partition of the log that has the records of a producer, -1 where none is known."""
        record = self.last.get(producer_id)
        return -1 if record is None else record.partition

    def has_history(self, producer_id: int) -> bool:
        """Whether every decision about this producer is there, not only the last."""
        record = self.last.get(producer_id)
        return record is not None and record.partition not in self.missing | self.shortened

    def lacks_decision(self, row: Mapping[str, Any]) -> bool:
        """Whether a marker was never decided: it is one too many, and the log has all that was decided by then."""
        is_later = row["marker_timestamp"] - CLOCKS_MS > self.whole_since
        return bool(row["surplus"]) and is_later and not self.missing

    def transactional_id(self, producer_id: int) -> str:
        """The transactional id of a producer id, as far as the log tells."""
        record = self.last.get(producer_id)
        return record.transactional_id if record else ""


def shared(producer_id: int, one: TransactionRecord, other: TransactionRecord) -> Told:
    """What is said of two transactional ids that have one producer id, at the record of either."""
    first, second = sorted((one, other), key=lambda record: (record.last_update, record.partition, record.offset))
    what = f"producer {producer_id} is that of {first.transactional_id} too; no two ids are given the same"
    return replace(second, producer_id=producer_id), SHARED, what
