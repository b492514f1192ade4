"""The coordinators' decisions, held against the markers in the partitions.

A decision is a record PrepareCommit or PrepareAbort of a coordinator, for one of the partitions that it names. Each is
answered by one marker of the same producer, epoch and outcome; where one is written again, by more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from odradek_pipeline.directories.proof import CLOCKS_MS
from odradek_pipeline.logs.payload import TransactionRecord

__all__ = [
    "DECISION_COLUMNS",
    "decision_frame",
    "exchanged",
    "lacking_markers",
    "surplus",
    "undecided",
    "unmatched",
    "wrong_outcomes",
]

DECISION_COLUMNS: dict[str, str] = {
    "topic": "object",
    "partition": "i4",
    "path": "object",
    "position": "i8",
    "producer_id": "i8",
    "epoch": "i4",
    "offset": "i8",
    "timestamp": "i8",
    "commit": "?",
    "completed": "i8",
    "name": "object",
}
"""A row for each decision in each partition: where its record is, when it was taken, when the coordinator has noted
that all markers are written (ms, -1 if it has not), and the transactional id."""

_KEY = ["topic", "partition", "producer_id", "epoch", "commit"]
_ORDER = ["path", "position", "offset"]
Partition = tuple[str, int]
EXCHANGED_MIN = 2
"""So many markers in the wrong partition are no coincidence."""


def decision_frame(decisions: Iterable[TransactionRecord], complete: Mapping[tuple[int, int], int]) -> pd.DataFrame:
    """Decisions as rows; `complete` has, by partition and offset, when their markers were written, says the log."""
    rows = [
        (
            topic,
            partition,
            one.path,
            one.position,
            one.producer_id,
            one.producer_epoch,
            one.offset,
            one.last_update,
            one.state == "PrepareCommit",
            complete.get((one.partition, one.offset), -1),
            one.transactional_id,
        )
        for one in decisions
        for topic, partition in one.partitions
    ]
    return pd.DataFrame(rows, columns=list(DECISION_COLUMNS)).astype(DECISION_COLUMNS)


def lacking_markers(
    decisions: pd.DataFrame,
    txns: pd.DataFrame,
    starts: Mapping[Partition, int],
    cleaned: Mapping[Partition, int],
    created: Mapping[str, int],
    cut: Mapping[Partition, int],
) -> pd.DataFrame:
    """Complete decisions that no marker answers, in partitions of which nothing has been removed.

    A topic that was deleted and made again has no marker of what was decided before it was `created`; a partition that
    is only looked at up to a time, `cut`, none of what was decided behind it.
    """
    keys = list(zip(decisions["topic"], decisions["partition"], strict=True))
    whole = np.array([starts.get(key, 1) == 0 and not cleaned.get(key) for key in keys], bool)
    since = np.array([created.get(topic, 0) for topic in decisions["topic"]], np.int64)
    until = np.array([cut.get(key, (1 << 62) + CLOCKS_MS) for key in keys], np.int64) - CLOCKS_MS
    within = (decisions["timestamp"] >= since) & (decisions["timestamp"] < until)
    due = decisions[(decisions["completed"] >= 0) & whole & within].sort_values(
        _ORDER, kind="stable", ignore_index=True
    )
    return _short(due, "timestamp", _markers(txns), "marker_timestamp")


def undecided(decisions: pd.DataFrame, txns: pd.DataFrame) -> pd.Series[bool]:
    """Which markers answer no decision."""
    markers = _markers(txns)
    lacking = _short(markers, "marker_timestamp", decisions, "timestamp", later=False)
    return pd.Series(txns.index.isin(lacking.index), index=txns.index)


def surplus(decisions: pd.DataFrame, txns: pd.DataFrame) -> pd.Series[bool]:
    """Which markers end data here, and are more than the decisions of their partition, producer, epoch and outcome.

    Below level 2 an epoch has many transactions: times say which of its markers is the one too many, but not how many
    there are. Markers that are written again, or for a partition that nothing was written to, end no data.
    """
    markers = _markers(txns[txns["batches"] > 0])
    lacking = _short(markers, "marker_timestamp", decisions, "timestamp", later=False)
    return pd.Series(txns.index.isin(lacking.index), index=txns.index)


def wrong_outcomes(
    decisions: pd.DataFrame,
    txns: pd.DataFrame,
    unanswered: pd.Series[bool],
    starts: Mapping[Partition, int],
    cleaned: Mapping[Partition, int],
) -> pd.Series[bool]:
    """Which markers say the opposite of what was decided.

    A decision has no marker, and the first one behind it of the same producer and epoch, which answers no other, has
    the other outcome. `unanswered` are the markers that no decision is there for; for `starts` and `cleaned` see
    `_removed_until`.
    """
    markers = _markers(txns[unanswered])
    if markers.empty or decisions.empty:
        return pd.Series(False, index=txns.index)
    all_markers = _markers(txns)
    lacking = _short(decisions.sort_values(_ORDER, ignore_index=True), "timestamp", all_markers, "marker_timestamp")
    pairs = lacking.assign(commit=~lacking["commit"]).merge(markers.reset_index(names="row"), on=_KEY)
    pairs = pairs[pairs["marker_timestamp"] >= pairs["timestamp"] - CLOCKS_MS]
    # At level 2 an epoch is one transaction, and this marker ends its data, so it is the one of that decision.
    is_its_own = (pairs["batches"] > 0) & (pairs["marker_epoch"] == pairs["data_epoch"] + 1)
    pairs = pairs[is_its_own | (pairs["timestamp"] > _removed_until(pairs, all_markers, starts, cleaned) + CLOCKS_MS)]
    wrong = pairs.sort_values("marker_timestamp", kind="stable").drop_duplicates(["topic", "partition", "offset"])
    return pd.Series(txns.index.isin(wrong["row"]), index=txns.index)


def exchanged(lacking: pd.DataFrame, markers: pd.DataFrame) -> dict[Partition, Partition]:
    """Partitions all of whose missing markers are in another one of the topic, which no decision is there for; and in
    which. `markers` are transactions, of which those count that are undecided."""
    if lacking.empty or markers.empty:
        return {}
    key = ["topic", "producer_id", "epoch", "commit"]
    there = _markers(markers[markers["undecided"] & (markers["batches"] > 0)])
    both = lacking[["partition", *key]].merge(there[["partition", *key]], on=key, suffixes=("", "_there"))
    both = both[both["partition"] != both["partition_there"]].drop_duplicates()
    due = lacking.drop_duplicates(["partition", *key]).groupby(["topic", "partition"], sort=False).size()
    found: dict[Partition, Partition] = {}
    for (topic, partition, other), count in (
        both.groupby(["topic", "partition", "partition_there"], sort=True).size().items()
    ):
        if count >= EXCHANGED_MIN and count == due[topic, partition]:
            found.setdefault((topic, partition), (topic, other))
    return found


_ALWAYS, _NEVER = -(1 << 62), 1 << 62


def _removed_until(
    rows: pd.DataFrame, markers: pd.DataFrame, starts: Mapping[Partition, int], cleaned: Mapping[Partition, int]
) -> NDArray[np.int64]:
    """Up to which time, ms, retention or compaction may have removed markers of a producer, for each row.

    `starts` has the first offset of each partition that is still there, `cleaned` how far compaction has gone. What was
    decided later than the producer's first marker behind both has its marker behind that one.
    """
    floors = {
        key: max(starts.get(key, 0), cleaned.get(key, 0))
        for key in set(zip(rows["topic"], rows["partition"], strict=True))
    }
    removed = {key for key, floor in floors.items() if floor > 0}
    if not removed:
        return np.full(len(rows), _ALWAYS, np.int64)
    known: dict[tuple[str, int, int], int] = {}
    of_producers = zip(markers["topic"], markers["partition"], markers["producer_id"], strict=True)
    for who, offset, time in zip(of_producers, markers["marker_offset"], markers["marker_timestamp"], strict=True):
        if who[:2] in removed and offset >= floors[who[:2]]:
            known.setdefault(who, time)
    whose = zip(rows["topic"], rows["partition"], rows["producer_id"], strict=True)
    times = (known.get(who, _NEVER) if who[:2] in removed else _ALWAYS for who in whose)
    return np.fromiter(times, np.int64, len(rows))


def _markers(txns: pd.DataFrame) -> pd.DataFrame:
    markers = txns[txns["marker_offset"] >= 0]
    return markers.assign(
        data_epoch=markers["epoch"], epoch=markers["marker_epoch"], commit=markers["outcome"] == "commit"
    )


def _short(rows: pd.DataFrame, time: str, others: pd.DataFrame, of_others: str, *, later: bool = True) -> pd.DataFrame:
    """The rows that none of the others answers; those answer later, or came earlier. Only keys with too few are gone
    through one by one."""
    there = others.groupby(_KEY, sort=False).size().rename("there").reset_index()
    due = rows.groupby(_KEY, sort=False).size().rename("due").reset_index()
    few = due.merge(there, how="left", on=_KEY)
    few = few[few["there"].fillna(0) < few["due"]][_KEY]
    if few.empty:
        return rows.iloc[:0]
    wanted = rows.reset_index(names="row").merge(few, on=_KEY)
    offered = {key: group.tolist() for key, group in others.merge(few, on=_KEY).groupby(_KEY, sort=False)[of_others]}
    lacking: list[int] = []
    for key, group in wanted.groupby(_KEY, sort=False):
        times = group[time].tolist()
        found = offered.get(key, [])
        at = unmatched(times, found) if later else _unmatched_before(times, found)
        lacking += group["row"].iloc[at].tolist()
    return rows.loc[sorted(lacking)]


def unmatched(due: Sequence[int], markers: Iterable[int]) -> list[int]:
    """Which decisions have no marker, by their place: each marker belongs to the last decision before it without one.

    Both are times: of the decisions in their order, and of the markers.
    """
    waiting = sorted(markers)
    if len(waiting) >= len(due):
        return []
    lacking = []
    for at in range(len(due)):
        if waiting and (at + 1 == len(due) or waiting[0] < due[at + 1]):
            waiting.pop(0)
        else:
            lacking.append(at)
    return lacking


def _unmatched_before(markers: Sequence[int], decisions: Iterable[int]) -> list[int]:
    """Which markers have no decision: the same, back in time."""
    back = [-time for time in reversed(markers)]
    return sorted(len(markers) - 1 - at for at in unmatched(back, [-time for time in decisions]))
