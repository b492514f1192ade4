"""What a record of the transaction coordinators' log may say behind the one before it, and what it may not.

The states and their order are those of KIP-98, with the epochs of KIP-890: a decision of level 2 has the next one. The
log has no record of PrepareEpochFence, which a coordinator keeps in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from odradek_pipeline.logs.payload import TransactionRecord

__all__ = ["OF_STATES", "SHARED", "Known", "Told", "told_of"]

NOTHING = ""
"""The state of a tombstone, and of an id that was not there before."""

_RESTING = frozenset(("Empty", "CompleteCommit", "CompleteAbort"))
_BEFORE: Mapping[str, frozenset[str]] = {
    NOTHING: _RESTING | {NOTHING, "Dead"},
    "Empty": _RESTING | {NOTHING},
    "Ongoing": _RESTING | {"Ongoing"},
    "PrepareCommit": frozenset(("Ongoing",)),
    "PrepareAbort": _RESTING | {"Ongoing", "PrepareEpochFence"},
    "CompleteCommit": frozenset(("PrepareCommit",)),
    "CompleteAbort": frozenset(("PrepareAbort",)),
    "Dead": _RESTING,
    "PrepareEpochFence": frozenset(("Ongoing",)),
}
"""By state the ones that it may follow."""

CLOCKS_MS = 3_600_000
"""The clock of a coordinator may be set back by its operator, and two have clocks of their own."""
_LEVEL_2 = 2

SHARED = "txn-shared-producer"
"""Two transactional ids with one producer id: not of one record alone."""
OF_STATES = (
    SHARED,
    "txn-bad-producer",
    "txn-epoch-not-bumped",
    "txn-epoch-regression",
    "txn-bad-timeout",
    "txn-bad-times",
    "txn-unknown-partition",
    "txn-bad-transition",
)
"""What is said of records of the coordinators' log, what says most first."""

Told = tuple[TransactionRecord, str, str]
"""The record, the anomaly, and what is to be said of it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known around the coordinators' log."""

    shortened: frozenset[int] = frozenset()
    """Its partitions from which compaction has removed what is not the newest: there any step may be missing."""
    topics: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many partitions topics have, and when they were made, ms; none where there is no metadata log."""


def told_of(before: TransactionRecord | None, record: TransactionRecord, known: Known) -> Iterator[Told]:
    """What is wrong with a record, and with it behind the one before it of the same transactional id."""
    earlier = NOTHING if before is None else before.state
    if record.partition not in known.shortened and earlier not in _BEFORE[record.state]:
        names = {NOTHING: "nothing" if before is None else "a tombstone"}
        what = f"{record.state or 'a tombstone'} behind {names.get(earlier, earlier)}, which no coordinator writes"
        of = record
        if before is not None and record.state == NOTHING:
            of = replace(record, producer_id=before.producer_id, producer_epoch=before.producer_epoch)
        yield of, "txn-bad-transition", what
    if record.state == NOTHING:
        return
    yield from _alone(record, known)
    if before is None or before.producer_id != record.producer_id:
        return
    if record.producer_epoch < before.producer_epoch:
        what = f"{record.state} with epoch {record.producer_epoch} behind {before.state} with {before.producer_epoch}"
        yield record, "txn-epoch-regression", what
    # A client may begin at level 2 and end below it, with the newest AddPartitionsToTxn and an older EndTxn:
    # coordinators bump epochs by the latter alone.
    # Whoever fences a producer gives it the next epoch beforehand, so only commits tell.
    begun = before.state == "Ongoing" and before.client_transaction_version >= _LEVEL_2
    begun = begun and record.client_transaction_version >= _LEVEL_2
    if begun and record.state == "PrepareCommit" and record.producer_epoch == before.producer_epoch:
        what = f"begun at level 2, and decided with the same epoch {record.producer_epoch} (KIP-890)"
        yield record, "txn-epoch-not-bumped", what


def _alone(record: TransactionRecord, known: Known) -> Iterator[Told]:
    if record.timeout_ms <= 0:
        yield record, "txn-bad-timeout", f"{record.state} with a timeout of {record.timeout_ms} ms"
    if record.state in _RESTING:
        return
    if record.producer_id < 0 or record.producer_epoch < 0:
        who = f"producer {record.producer_id} and epoch {record.producer_epoch}"
        yield record, "txn-bad-producer", f"{record.state} of {who}"
    if record.start > record.last_update + CLOCKS_MS > CLOCKS_MS:
        later = (record.start - record.last_update) // 1000
        yield record, "txn-bad-times", f"{record.state}, and it began {later:,} s behind that"
    if 0 < record.timestamp < record.last_update - CLOCKS_MS:
        later = (record.last_update - record.timestamp) // 1000
        yield (
            record,
            "txn-bad-times",
            f"{record.state}, and its time is {later:,} s behind that at which it was written",
        )
    for topic, partition in record.partitions:
        count, created = known.topics.get(topic, (partition + 1, 0))
        # A transaction may be open while its topic is deleted, and made again with fewer partitions.
        if partition >= count and (record.start if record.start > 0 else record.last_update) > created:
            what = f"{record.state} for {topic}-{partition}; the topic has {count} partitions"
            yield record, "txn-unknown-partition", what
