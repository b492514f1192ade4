"""Indexes of aborted transactions and snapshots of producers, held against the batches they speak of.

A claim is one entry of such a file. Claims carry a producer id, so they are checked where the batches of a producer
are, by columns. What compaction, retention or a broker that is still writing explains is no disagreement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odradek_pipeline.logs.layout import FileKind, Problem, Tree
from odradek_pipeline.logs.scan import CONTROL, TRANSACTIONAL
from odradek_pipeline.logs.sidecars import ABORTED, PRODUCER, Sidecar

__all__ = ["CLAIM_COLUMNS", "PROBLEM_COLUMNS", "Beside", "check_claims", "claims_of", "producer_states"]

CLAIM_COLUMNS: dict[str, str] = {
    "topic": "object",
    "partition": "i4",
    "path": "object",
    "position": "i8",
    "source": "object",
    "upto": "i8",
    "producer_id": "i8",
    "epoch": "i4",
    "first_offset": "i8",
    "last_offset": "i8",
    "last_sequence": "i8",
    "name": "object",
}
"""A row for each claim, by its source. `txnindex`, an aborted transaction: its first offset and its marker's.
`snapshot`, a producer: where its open transaction begins, and its last data; `upto` is the offset in the file's name.
`decision`, of a coordinator: its record's offset, its time, 1 for a commit, the transactional id; `upto` is when it was
complete, ms, or -1. `level_2`: the epoch in which a transaction began at that level."""

PROBLEM_COLUMNS: dict[str, str] = {
    "path": "object",
    "position": "i8",
    "problem": "object",
    "severity": "object",
    "detail": "object",
}

_PRODUCER = ["topic", "partition", "producer_id"]
_SNAPSHOT_HEADER_BYTES = 10
Partition = tuple[str, int]


@dataclass(slots=True)
class Beside:
    """What files each partition has, and which of its offsets can be spoken of; of the size of the listing."""

    starts: Mapping[Partition, int]
    cleaned: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    """The last offset that was read."""
    active: frozenset[str]
    """The last segment of each partition: its index of aborted transactions may be behind."""
    indexed: frozenset[str]
    """Segments with an index beside them; where there is none, only segments were copied."""
    snapshots: Mapping[Partition, list[tuple[int, str]]] = field(default_factory=dict)
    """Offset and path of each snapshot that can be read, in order."""
    created: Mapping[str, int] = field(default_factory=dict)
    """When topics were made, where the metadata log tells."""
    cut: Mapping[Partition, int] = field(default_factory=dict)
    """From which time on a partition is not looked at."""

    @classmethod
    def of(
        cls,
        tree: Tree,
        ends: Mapping[Partition, int],
        problems: Iterable[Problem],
        created: Mapping[str, int],
        cut: Mapping[Partition, int] | None = None,
    ) -> Beside:
        """Of a listing; `problems` are of the files beside the segments."""
        unread = {found.path for found in problems}
        snapshots: dict[Partition, list[tuple[int, str]]] = {}
        for file in tree.of(FileKind.SNAPSHOT):
            if file.path not in unread:
                snapshots.setdefault((file.topic, file.partition), []).append((file.base_offset, file.path))
        last = {(file.topic, file.partition): file.path for file in tree.of(FileKind.SEGMENT)}
        indexed = frozenset(_segment_of(file.path) for file in tree.of(FileKind.INDEX))
        return cls(tree.starts(), tree.cleaned, ends, frozenset(last.values()), indexed, snapshots, created, cut or {})

    def column(self, frame: pd.DataFrame, of: Mapping[Partition, int], otherwise: int) -> pd.Series[int]:
        """A value of each row's partition."""
        values = [of.get(key, otherwise) for key in zip(frame["topic"], frame["partition"], strict=True)]
        return pd.Series(values, index=frame.index, dtype="int64")


def _segment_of(path: str) -> str:
    return str(Path(path).with_suffix(".log"))


def _claim_columns(sidecar: Sidecar) -> dict[str, Any]:
    """The columns of the claims of one file; none if it makes no claims."""
    entries, file = sidecar.entries, sidecar.file
    count = len(entries)
    columns: dict[str, Any]
    if entries.dtype == ABORTED:
        columns = {
            "position": np.arange(count) * ABORTED.itemsize,
            "epoch": np.full(count, -1),
            "first_offset": entries["first_offset"],
            "last_offset": entries["last_offset"],
            "last_sequence": np.full(count, -1),
        }
    elif entries.dtype == PRODUCER:
        columns = {
            "position": np.arange(count) * PRODUCER.itemsize + _SNAPSHOT_HEADER_BYTES,
            "epoch": entries["producer_epoch"],
            "first_offset": entries["current_txn_first_offset"],
            "last_offset": entries["last_offset"],
            "last_sequence": entries["last_sequence"],
        }
    else:
        return {}
    of_file = {
        "topic": file.topic,
        "partition": file.partition,
        "path": file.path,
        "source": "snapshot" if file.kind is FileKind.SNAPSHOT else "txnindex",
        "upto": file.base_offset,
        "name": "",
    }
    kinds = {name: np.dtype(kind) for name, kind in CLAIM_COLUMNS.items()}
    return {
        **{name: np.full(count, value, kinds[name]) for name, value in of_file.items()},
        **{name: value.astype(kinds[name]) for name, value in columns.items()},
        "producer_id": entries["producer_id"].astype("i8"),
    }


def claims_of(sidecars: Iterable[Sidecar], problems: list[Problem]) -> pd.DataFrame:
    """The claims of all files; what is wrong with a file alone is added to `problems`."""
    parts = []
    for sidecar in sidecars:
        problems += sidecar.problems
        if len(sidecar.entries) and (columns := _claim_columns(sidecar)):
            parts.append(columns)
    if not parts:
        return _empty(CLAIM_COLUMNS)
    # One frame for all: of many small files each frame costs more than what is in it.
    return pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in CLAIM_COLUMNS})


def _empty(columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns)).astype(columns)


# ---------------------------------------------------------------------- the checks


def check_claims(
    states: Callable[[], pd.DataFrame], txns: pd.DataFrame, claims: pd.DataFrame, beside: Beside
) -> pd.DataFrame:
    """Disagreements as rows of the table `problems`: `txns` are all transactions of some producers, `states` gives what
    a broker knows of them (see `producer_states`), where anything asks for it."""
    aborted, producers = claims[claims["source"] == "txnindex"], claims[claims["source"] == "snapshot"]
    told = [
        _wrong_aborts(aborted, txns, beside),
        _missing_aborts(aborted, txns, beside),
        _wrong_producers(producers, states, beside),
        _missing_producers(producers, txns, beside),
    ]
    whole = [part for part in told if len(part)]
    if not whole:
        return _empty(PROBLEM_COLUMNS)
    # One row a file and kind of disagreement: where one entry is wrong, those behind it often are.
    found = pd.concat(whole, ignore_index=True)
    found["more"] = found.groupby(["path", "kind"])["position"].transform("size") - 1
    first = found.sort_values(["path", "kind", "position"], kind="stable").drop_duplicates(["path", "kind"])
    first["detail"] = first["detail"] + [f", and {more} more like it" if more else "" for more in first["more"]]
    return first[list(PROBLEM_COLUMNS)].astype(PROBLEM_COLUMNS).reset_index(drop=True)


def _told(rows: pd.DataFrame, problem: str, kind: str, severity: Any, detail: list[str]) -> pd.DataFrame:
    return rows[["path", "position"]].assign(problem=problem, kind=kind, severity=severity, detail=detail)


def _wrong_aborts(claims: pd.DataFrame, txns: pd.DataFrame, beside: Beside) -> pd.DataFrame:
    """Entries whose transaction the segment does not have, or has otherwise."""
    readable = (claims["last_offset"] <= beside.column(claims, beside.ends, -1)) & (
        claims["last_offset"] >= beside.column(claims, beside.cleaned, 0)
    )
    ended = txns.assign(begins=txns["first_offset"], last_offset=txns["marker_offset"], opened=_opened(txns))
    ended = ended.loc[ended["outcome"] == "abort", [*_PRODUCER, "last_offset", "begins", "opened"]]
    rows = claims[readable].merge(ended, how="left", on=[*_PRODUCER, "last_offset"])
    # What an aborted transaction wrote below the start of the log, or where the log was compacted, may be gone.
    kept = rows["first_offset"] >= np.maximum(
        beside.column(rows, beside.starts, 0), beside.column(rows, beside.cleaned, 0)
    )
    agrees = (rows["begins"] == rows["first_offset"]) | (rows["opened"] == rows["first_offset"])
    wrong = rows["begins"].isna() | (~agrees & kept)
    rows = rows[wrong]
    detail = [
        f"producer {producer} aborted offsets {first} to {last}, says the index; the segment has "
        + ("no such marker" if pd.isna(begins) else f"them from {begins:.0f}" if begins >= 0 else "no data of it")
        for producer, first, last, begins in zip(
            *(rows[name] for name in ("producer_id", "first_offset", "last_offset", "begins")), strict=True
        )
    ]
    return _told(rows, "bad-txn-index", "wrong", "bad", detail)


def _opened(txns: pd.DataFrame) -> pd.Series[int]:
    """Where a broker has each transaction begin: one that no marker has ended goes on in its producer's next epoch."""
    producer = [txns[key] for key in _PRODUCER]
    follows = txns["outcome"].groupby(producer, sort=False).shift() == "dropped"
    opened = (~follows).groupby(producer, sort=False).cumsum()
    return txns["first_offset"].groupby([*producer, opened], sort=False).transform("first")


def _missing_aborts(claims: pd.DataFrame, txns: pd.DataFrame, beside: Beside) -> pd.DataFrame:
    """Aborted transactions that the index beside their marker does not have."""
    ended = txns[(txns["outcome"] == "abort") & (txns["batches"] > 0) & txns["marker_path"].isin(beside.indexed)]
    ended = ended[ended["marker_offset"] >= beside.column(ended, beside.cleaned, 0)]
    known = claims[[*_PRODUCER, "last_offset"]].rename(columns={"last_offset": "marker_offset"}).drop_duplicates()
    rows = ended.merge(known.assign(known=True), how="left", on=[*_PRODUCER, "marker_offset"])
    rows = rows[rows["known"].isna()]
    severity = np.where(rows["marker_path"].isin(beside.active), "info", "bad")
    detail = [
        f"producer {producer} aborted offsets {first} to {last}; the index does not say so"
        for producer, first, last in zip(rows["producer_id"], rows["first_offset"], rows["marker_offset"], strict=True)
    ]
    rows = rows.assign(path=[str(Path(path).with_suffix(".txnindex")) for path in rows["marker_path"]], position=-1)
    return _told(rows, "bad-txn-index", "missing", severity, detail)


def _wrong_producers(claims: pd.DataFrame, states: Callable[[], pd.DataFrame], beside: Beside) -> pd.DataFrame:
    """Entries that say something else of a producer than its batches before the snapshot's offset do."""
    claims = claims[
        (claims["upto"] <= beside.column(claims, beside.ends, -1) + 1)
        & (beside.column(claims, beside.cleaned, 0) == 0)
        # A group coordinator writes offsets in a producer's name, always with sequence 0.
        & (claims["topic"] != "__consumer_offsets")
    ]
    if claims.empty:
        return _empty(PROBLEM_COLUMNS)
    rows = pd.merge_asof(
        claims.sort_values("upto", kind="stable"),
        states(),
        left_on="upto",
        right_on="before",
        by=_PRODUCER,
        direction="backward",
        allow_exact_matches=True,
    )
    start = beside.column(rows, beside.starts, 0)
    claimed_data, claimed_open = rows["last_offset"] >= start, rows["first_offset"] >= start
    epoch = rows["state_epoch"].notna() & (rows["state_epoch"] != rows["epoch"])
    data = (
        claimed_data
        & (rows["last_offset"] >= 0)
        & (
            (rows["state_data"].fillna(-1) != rows["last_offset"])
            | (rows["state_sequence"].fillna(-1) != rows["last_sequence"])
        )
    )
    opened = rows["state_open"].fillna(-1)
    wrong_open = (
        (opened != rows["first_offset"]) & (claimed_open | (opened >= 0)) & ((rows["first_offset"] < 0) | claimed_open)
    )
    rows = rows.assign(wrong=np.select([epoch, data, wrong_open], ["epoch", "data", "open"], ""))
    rows = rows[rows["wrong"] != ""]
    return _told(rows, "bad-snapshot", "wrong", "bad", [_differs(row) for row in rows.to_dict("records")])


def _differs(row: Mapping[Any, Any]) -> str:
    found = {name: -1 if pd.isna(row[name]) else int(row[name]) for name in row if name.startswith("state_")}
    says, has = {
        "epoch": (f"epoch {row['epoch']}", f"{found['state_epoch']}"),
        "data": (
            f"last offset {row['last_offset']} with sequence {row['last_sequence']}",
            f"{found['state_data']} with {found['state_sequence']}",
        ),
        "open": (f"a transaction open since {row['first_offset']}", f"{found['state_open']}"),
    }[row["wrong"]]
    return f"producer {row['producer_id']}: {says}, says the snapshot; its batches say {has}"


def producer_states(batches: pd.DataFrame) -> pd.DataFrame:
    """What a broker knows of a producer behind each of its batches; `before` is the first offset behind the batch."""
    control = (batches["attributes"] & CONTROL) != 0
    rows = batches[(batches["producer_id"] >= 0) & (~control | (batches["marker_type"] >= 0))]
    rows = rows.sort_values([*_PRODUCER, "base_offset"], kind="stable", ignore_index=True)
    is_data = (rows["attributes"] & CONTROL) == 0
    of = rows.groupby(_PRODUCER, sort=False)
    states = rows[_PRODUCER].assign(
        before=rows["last_offset"] + 1,
        state_epoch=rows["producer_epoch"].astype("float64"),
        state_data=rows["last_offset"].where(is_data),
        state_sequence=rows["last_sequence"].where(is_data),
        state_open=-1.0,
    )
    for name in ("state_data", "state_sequence"):
        states[name] = states.groupby(_PRODUCER, sort=False)[name].ffill()
    in_txn = is_data & ((rows["attributes"] & TRANSACTIONAL) != 0)
    # Behind data a transaction is open since its first batch behind the marker before.
    number = of["marker_type"].transform(lambda marker: (marker >= 0).cumsum())
    first = rows["base_offset"].where(in_txn).groupby([*(rows[key] for key in _PRODUCER), number]).transform("min")
    states["state_open"] = first.where(in_txn, -1.0)
    return states.sort_values("before", kind="stable", ignore_index=True)


def _missing_producers(claims: pd.DataFrame, txns: pd.DataFrame, beside: Beside) -> pd.DataFrame:
    """Transactions that were open where a snapshot was taken, and are not in it."""
    there = set(zip(claims["path"], claims["producer_id"], strict=True))
    lacking: list[tuple[str, int, int]] = []
    held = txns[(txns["batches"] > 0) & (txns["outcome"] != "dropped")]
    for key, rows in held.groupby(["topic", "partition"], sort=False):
        listed = beside.snapshots.get(key, [])
        if not listed or beside.cleaned.get(key):
            continue
        upto = np.array([offset for offset, _ in listed])
        end = beside.ends.get(key, -1) + 1
        first = rows["first_offset"].to_numpy()
        last = np.where(rows["marker_offset"] >= 0, rows["marker_offset"], end)
        low, high = np.searchsorted(upto, first, "right"), np.searchsorted(upto, last, "right")
        for at in np.flatnonzero(high > low):
            producer = int(rows["producer_id"].iloc[at])
            lacking += [(path, producer, int(first[at])) for _, path in listed[low[at] : high[at]]]
    # An entry that is there and says otherwise has been told of.
    lacking = [one for one in lacking if one[:2] not in there]
    detail = [
        f"the transaction of producer {producer}, open since {first}, is not in it" for _, producer, first in lacking
    ]
    rows = pd.DataFrame({"path": [path for path, _, _ in lacking], "position": -1})
    return _told(rows, "bad-snapshot", "missing", "bad", detail)
