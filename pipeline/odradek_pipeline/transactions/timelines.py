"""One row for each transaction, across its partitions and its coordinator: who, at which level, and when each step was.

The coordinator's log has when it began, was decided and was complete; the partitions have its records and markers. Both
meet in the producer id; a marker belongs to the last decision of its epoch and outcome before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from odradek_pipeline.directories.levels import Levels
from odradek_pipeline.directories.proof import CLOCKS_MS
from odradek_pipeline.logs.payload import TransactionRecord

__all__ = ["PERCENTILES", "STEPS", "TIMELINE_COLUMNS", "delays", "timelines"]

TIMELINE_COLUMNS: dict[str, str] = {
    "transactional_id": "object",
    "producer_id": "i8",
    "epoch": "i4",
    "marker_epoch": "i4",
    "level": "i4",
    "cluster_level": "i4",
    "timeout_ms": "i8",
    "outcome": "object",
    "begin": "i8",
    "first_record": "i8",
    "prepare": "i8",
    "first_marker": "i8",
    "last_marker": "i8",
    "complete": "i8",
    "partitions": "i8",
    "written": "i8",
    "records": "i8",
    "coordinator": "i4",
}
"""Times are in milliseconds, -1 where the logs do not tell; `level` is what its client worked at, `cluster_level` what
was finalized when it began; `partitions` are those that were added, `written` those that have its records;
`coordinator` is the partition of its log."""

STEPS = {
    "begin to decision": ("begin", "prepare"),
    "decision to last marker": ("prepare", "last_marker"),
    "decision to complete": ("prepare", "complete"),
}
PERCENTILES = (50, 90, 99)
_ORDER = attrgetter("partition", "path", "position", "offset")


def timelines(states: Iterable[TransactionRecord], txns: pd.DataFrame, levels: Levels | None = None) -> pd.DataFrame:
    """The transactions of these records of coordinators, with what the partitions have of them."""
    of_ids: dict[str, list[TransactionRecord]] = {}
    for record in sorted(states, key=_ORDER):
        of_ids.setdefault(record.transactional_id, []).append(record)
    rows = [row for name in sorted(of_ids) for row in _steps(of_ids[name])]
    table = pd.DataFrame(rows, columns=list(TIMELINE_COLUMNS))
    for name, kind in TIMELINE_COLUMNS.items():
        table[name] = table[name].fillna("" if kind == "object" else -1)
    table = table.astype(TIMELINE_COLUMNS)
    finalized = levels or Levels()
    table["cluster_level"] = np.array([finalized.at(begin) for begin in table["begin"]], np.int32)
    if table.empty or txns.empty:
        return table
    return _with_partitions(table, txns)


def _steps(records: Iterable[TransactionRecord]) -> Iterator[dict[str, Any]]:
    """The transactions of one transactional id, in their order."""
    current: dict[str, Any] | None = None
    for record in records:
        if record.state == "Ongoing" or (record.state.startswith("Prepare") and current is None):
            if current is None:
                current = _begun(record)
            current["partitions"] = max(current["partitions"], len(record.partitions))
        if current is None:
            continue
        if record.state in ("PrepareCommit", "PrepareAbort"):
            outcome = "commit" if record.state == "PrepareCommit" else "abort"
            current |= {"prepare": record.last_update, "marker_epoch": record.producer_epoch, "outcome": outcome}
        elif record.state.startswith("Complete"):
            yield current | {"complete": record.last_update}
            current = None
    if current is not None:
        yield current


def _begun(record: TransactionRecord) -> dict[str, Any]:
    return {
        "transactional_id": record.transactional_id,
        "producer_id": record.producer_id,
        "epoch": record.producer_epoch,
        "level": record.client_transaction_version,
        "timeout_ms": record.timeout_ms,
        "outcome": "open",
        "begin": record.start if record.start > 0 else record.last_update,
        "partitions": len(record.partitions),
        "coordinator": record.partition,
    }


def _with_partitions(table: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
    table = table.reset_index(names="row")
    written = txns[txns["batches"] > 0]
    ended = written[written["marker_offset"] >= 0]
    # Clocks differ between brokers. At level 2 an epoch is one transaction, so that does not matter; before, the last
    # decision that is not younger than the marker is the best guess there is.
    slack = np.where(ended["marker_epoch"] == ended["epoch"] + 1, CLOCKS_MS, 0)
    ended = ended.assign(at=ended["marker_timestamp"] + slack)
    ended = ended.sort_values("at").astype({"marker_epoch": "i8"})
    decided = table[table["prepare"] > 0].sort_values("prepare").astype({"marker_epoch": "i8"})
    keys = ["producer_id", "marker_epoch", "outcome"]
    found = pd.merge_asof(
        ended, decided[["row", "prepare", *keys]], left_on="at", right_on="prepare", by=keys, direction="backward"
    )
    unfinished = table.loc[table["outcome"] == "open", ["row", "producer_id", "epoch"]]
    held = written[written["outcome"] == "open"].merge(unfinished, on=["producer_id", "epoch"])
    parts = pd.concat([found, held], ignore_index=True).dropna(subset=["row"])
    if parts.empty:
        return table.drop(columns="row")
    markers = parts["marker_timestamp"].where(parts["marker_offset"] >= 0)
    of = (
        parts.assign(marker=markers)
        .groupby("row")
        .agg(
            first_record=("first_timestamp", "min"),
            first_marker=("marker", "min"),
            last_marker=("marker", "max"),
            written=("records", "size"),
            records=("records", "sum"),
        )
    )
    table = table.set_index("row")
    table.update(of.astype("float64"))
    return table.reset_index(drop=True).astype(TIMELINE_COLUMNS)


def delays(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Percentiles of the steps, in milliseconds."""
    found: dict[str, dict[str, float]] = {}
    for name, (first, last) in STEPS.items():
        known = table[(table[first] > 0) & (table[last] > 0)]
        if len(known):
            lengths = np.maximum(known[last] - known[first], 0)
            found[name] = {f"p{part}": float(np.percentile(lengths, part)) for part in PERCENTILES}
            found[name]["max"] = float(lengths.max())
    return found
