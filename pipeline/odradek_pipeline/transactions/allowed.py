"""Findings that compaction and retention explain: of each kind and partition the first, and how many there are.

A compacted log has as many of them as it has batches. They are told apart where the batches are, in workers, so that
what a driver holds grows with partitions and with what is wrong, not with data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from odradek_pipeline.audit.result import Severity, anomaly

__all__ = ["ALLOWED_COLUMNS", "FIRST", "Explained", "allowed_anomalies", "gaps_in", "merged_allowed", "why_broken"]

ALLOWED_COLUMNS: dict[str, str] = {
    "anomaly": "object",
    "topic": "object",
    "partition": "i4",
    "producer_id": "i8",
    "epoch": "i4",
    "offset": "i8",
    "end_offset": "i8",
    "path": "object",
    "position": "i8",
    "detail": "object",
    "count": "i8",
}
"""A row for each kind of finding in a partition: the first, by its offset, and how many there are."""

_OF = ["topic", "partition", "anomaly"]
FIRST = ("offset", "end_offset", "position", "producer_id")
"""What says which of several is the first: several producers may lack what was before the same offset."""
_NEVER_EXPLAINED = ("seq-duplicate", "producer-epoch-regression", "txn-mixed")
"""Compaction takes batches away; it adds none, and does not change what they say."""
_COMMIT = 1
Partition = tuple[str, int]


def why_broken(row: Mapping[str, Any]) -> str:
    """What is wrong with the numbers of a batch."""
    return {
        "seq-gap": f"sequence {row['found']} where {row['expected']} was due",
        "seq-duplicate": f"sequence {row['found']} again, {row['expected']} was due",
        "seq-first-not-zero": f"the first batch of the epoch has sequence {row['found']}",
        "txn-mixed": "a batch that says it is of no transaction, beside those of transactions of the same producer",
        "producer-epoch-regression": f"epoch {row['found']} of the producer behind its epoch {row['expected']}",
    }[str(row["anomaly"])]


def gaps_in(jumps: pd.DataFrame) -> dict[Partition, NDArray[np.int64]]:
    """By partition the offsets, in order, before which some are missing."""
    rows = jumps[jumps["base_offset"] > jumps["previous_offset"] + 1]
    return {
        (str(key[0]), int(key[1])): np.sort(of.to_numpy(np.int64))
        for key, of in rows.groupby(["topic", "partition"], sort=False)["base_offset"]
    }


@dataclass(frozen=True, slots=True)
class Explained:
    """What retention and compaction have removed of each partition, and what nobody has; it is sent to workers."""

    starts: Mapping[Partition, int]
    cleaned: Mapping[Partition, int]
    gaps: Mapping[Partition, NDArray[np.int64]] = field(default_factory=dict)
    """By partition the offsets, in order, before which some are missing that compaction has not removed."""

    @classmethod
    def of(cls, starts: Mapping[Partition, int], cleaned: Mapping[Partition, int], jumps: pd.DataFrame) -> Explained:
        """With the jumps of an audit."""
        return cls(starts, cleaned, gaps_in(jumps))

    def breaks(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Breaks of sequences: those that nothing explains, and the others as `ALLOWED_COLUMNS`."""
        if rows.empty:
            return rows, _none()
        removed = self.is_cleaned(rows, rows["previous_offset"] + 1)
        trimmed = self._each(rows, self.starts) > 0
        removed |= (
            (rows["anomaly"] == "seq-first-not-zero").to_numpy() & trimmed & ~rows["earlier_epoch"].to_numpy(bool)
        )
        removed &= ~rows["anomaly"].isin(_NEVER_EXPLAINED).to_numpy()
        of = rows[removed].assign(offset=rows["previous_offset"] + 1, end_offset=rows["offset"])
        more = ": compaction or retention has removed batches before it"
        return rows[~removed], _counted(of, lambda row: why_broken(row) + more)

    def markers(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Transactions that are odd because they have no data here: a partition may be added and not written to, a
        marker may be written twice, and what was before it may have been removed."""
        empty = (
            (rows["marker_offset"] >= 0) & (rows["batches"] == 0) & ~rows["wrong"] & (rows["lowest_epoch_step"] >= 0)
        )
        empty &= ~rows["coordinator_epoch"].between(0, rows["coordinator_epoch_before"] - 1)
        if not empty.any():
            return rows, _none()
        of = rows[empty]
        first = (of["previous_marker"] < 0).to_numpy()
        lost = self._has_gap(of)
        gone = self.is_cleaned(of, of["marker_offset"]) | (first & (self._each(of, self.starts) > 0))
        alone = first | lost | (of["previous_marker_epoch"] != of["marker_epoch"]).to_numpy()
        before = np.where(of["previous_marker"] == _COMMIT, "commit", "abort")
        other = before != of["outcome"].to_numpy()
        orphan = ~gone & ~lost & (alone | (other & ~of["undecided"].to_numpy(bool)))
        double = ~gone & ~alone & ~other
        where = {"offset": of["marker_offset"], "end_offset": -1, "epoch": of["marker_epoch"]}
        told = of.assign(
            **where,
            anomaly=np.where(double, "txn-double-marker", "txn-orphan-marker"),
            path=of["marker_path"],
            position=of["marker_position"],
        )[orphan | double]
        settled = np.zeros(len(rows), bool)
        settled[np.flatnonzero(empty.to_numpy())] = gone | orphan | double
        return rows[~settled], _counted(told, _of_marker)

    def is_cleaned(self, rows: pd.DataFrame, offsets: pd.Series[int]) -> NDArray[np.bool_]:
        """Whether compaction may have removed what seems to be missing before these offsets."""
        upto = self._each(rows, self.cleaned)
        internal = rows["topic"].str.startswith("__").to_numpy(bool)
        return (internal & (upto > 0)) | (offsets.to_numpy() < upto)

    def _each(self, rows: pd.DataFrame, of: Mapping[Partition, int]) -> NDArray[np.int64]:
        if not of:
            return np.zeros(len(rows), np.int64)
        keys = zip(rows["topic"], rows["partition"], strict=True)
        return np.fromiter((of.get(key, 0) for key in keys), np.int64, len(rows))

    def _has_gap(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        found = np.zeros(len(rows), bool)
        if not self.gaps:
            return found
        for key, at in rows.groupby(["topic", "partition"], sort=False).indices.items():
            gaps = self.gaps.get(key)
            if gaps is not None:
                here = rows.iloc[at]
                after = np.searchsorted(gaps, here["previous_offset"].to_numpy(), "right")
                found[at] = np.searchsorted(gaps, here["marker_offset"].to_numpy(), "right") > after
        return found


def _of_marker(row: Mapping[str, Any]) -> str:
    if row["anomaly"] == "txn-double-marker":
        return f"{row['outcome']} directly behind {row['outcome']} of the same epoch: written again"
    return f"{row['outcome']} of a transaction that has no data here"


def _counted(rows: pd.DataFrame, detail: Callable[[Mapping[str, Any]], str]) -> pd.DataFrame:
    """Of each kind and partition the first row, with how many there are."""
    if rows.empty:
        return _none()
    first = rows.sort_values(list(FIRST), kind="stable").drop_duplicates(_OF)
    first = first.merge(rows.groupby(_OF, sort=False).size().rename("count").reset_index(), on=_OF)
    first["detail"] = [detail(row) for row in first.to_dict("records")]
    return first[list(ALLOWED_COLUMNS)].astype(ALLOWED_COLUMNS)


def _none() -> pd.DataFrame:
    return pd.DataFrame(columns=list(ALLOWED_COLUMNS)).astype(ALLOWED_COLUMNS)


def merged_allowed(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several parts as those of all of them."""
    rows = [one for one in parts if len(one)]
    if not rows:
        return _none()
    both = pd.concat(rows, ignore_index=True)
    count = both.groupby(_OF, sort=False)["count"].sum().reset_index()
    first = both.drop(columns="count").sort_values([*_OF, *FIRST], kind="stable").drop_duplicates(_OF)
    return first.merge(count, on=_OF)[list(ALLOWED_COLUMNS)].astype(ALLOWED_COLUMNS)


def allowed_anomalies(rows: pd.DataFrame, transactional_id: Callable[[int], str]) -> list[dict[str, Any]]:
    """One anomaly for each row."""
    keys = ("topic", "partition", "producer_id", "offset", "end_offset", "path", "position")
    return [
        anomaly(
            row["anomaly"],
            Severity.ALLOWED,
            row["detail"] + (f"; and {row['count'] - 1:,} more like it in the partition" if row["count"] > 1 else ""),
            **{key: row[key] for key in keys},
            producer_epoch=row["epoch"],
            transactional_id=transactional_id(int(row["producer_id"])),
        )
        for row in rows.to_dict("records")
    ]
