"""The audit of log directories: transactions, markers, epochs and sequences (KIP-98, KIP-664, KIP-890).

One pass over the headers yields the batches of producers and the places where offsets jump. The batches are grouped by
partition and producer, and checked by columns; what remains for the driver grows with the number of anomalies and open
transactions, not with the logs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.layout import TRANSACTION_STATE, FileKind, LogFile, Tree, find_files, one_replica_each
from odradek_pipeline.log_checks import BATCH_COLUMNS, batch_frame, sequence_breaks, sequences, transactions
from odradek_pipeline.log_verdicts import Coordinators, LogFacts, judge, open_transactions, suspicious
from odradek_pipeline.payload import TransactionRecord, transaction_log
from odradek_pipeline.result import Result, anomalies_frame
from odradek_pipeline.scan import Scan, scan_segments
from odradek_pipeline.sidecars import read_sidecars

__all__ = ["audit_logs", "Evidence"]


@dataclass(slots=True)
class Evidence:
    """What the verdicts rest on, in frames."""

    txns: pd.DataFrame
    """Only the suspicious ones where Spark has written the others."""
    breaks: pd.DataFrame
    jumps: pd.DataFrame
    marker_times: dict[tuple[Any, ...], list[int]]


def audit_logs(directories: Iterable[str | Path], *, topics: Iterable[str] = ()) -> Result:
    """Audit in this process, without Spark: for logs whose batches fit into memory."""
    began = time.perf_counter()
    tree = one_replica_each(find_files(directories, topics=topics))
    scan = Scan(problems=list(tree.problems))
    decided = transaction_log(tree.files, Scan())
    batches = read_batches(tree.files, scan)
    txns = transactions(batches)
    coordinators = read_coordinators(tree, scan, decided, now=newest(batches))
    evidence = Evidence(txns, sequence_breaks(batches), real_jumps(batches), marker_times(txns))
    result = conclude(tree, scan, evidence, coordinators)
    result.tables |= {"log_txns": txns, "sequences": sequences(batches)}
    result.seconds = time.perf_counter() - began
    return result


def read_batches(files: Iterable[LogFile], scan: Scan) -> pd.DataFrame:
    """The headers of all segments in one frame."""
    frames = [batch_frame(chunk) for chunk in scan_segments(list(files), scan)]
    if not frames:
        return pd.DataFrame(columns=list(BATCH_COLUMNS)).astype(BATCH_COLUMNS)
    return pd.concat(frames, ignore_index=True)


def newest(batches: pd.DataFrame) -> int:
    """The newest timestamp of any batch: the clock of the audit."""
    return int(batches["max_timestamp"].max()) if len(batches) else 0


def marker_times(txns: pd.DataFrame) -> dict[tuple[Any, ...], list[int]]:
    """When the markers of each partition, producer, epoch and outcome were written."""
    markers = txns[txns["marker_offset"] >= 0]
    times: dict[tuple[Any, ...], list[int]] = {}
    columns = ("topic", "partition", "producer_id", "marker_epoch", "outcome", "marker_timestamp")
    for topic, partition, producer_id, epoch, outcome, at in zip(*(markers[column] for column in columns), strict=True):
        times.setdefault((topic, partition, producer_id, epoch, int(outcome == "commit")), []).append(at)
    return times


def real_jumps(rows: pd.DataFrame) -> pd.DataFrame:
    """Where offsets do not follow each other, also between the ranges of a partition."""
    if rows.empty:
        return rows
    edges = rows[rows["jump"] | rows["last"]] if "last" in rows else rows
    ordered = edges.sort_values(["topic", "partition", "segment", "position"], kind="stable")
    before = ordered.groupby(["topic", "partition"], sort=False)["last_offset"].shift()
    ordered["previous_offset"] = (
        ordered["previous_offset"].where(ordered["previous_offset"] >= 0, before.fillna(-1)).astype("int64")
    )
    # A segment is named after its first offset.
    named = before.isna() & (ordered["position"] == 0)
    ordered.loc[named, "previous_offset"] = ordered.loc[named, "segment"] - 1
    return ordered[ordered["jump"] & (ordered["base_offset"] != ordered["previous_offset"] + 1)]


def read_coordinators(tree: Tree, scan: Scan, decided: list[TransactionRecord], *, now: int) -> Coordinators:
    """The coordinators' log, read behind the data; `decided` is what it said before.

    The directories may be those of a living broker. What was complete before the data were read must have its markers
    among them; what is open in the data must be under way afterwards, or have ended meanwhile (see `ended_meanwhile`).
    """
    second = Scan()
    records = transaction_log(tree.files, second)
    known = set(scan.problems)
    scan.problems += [found for found in second.problems if found not in known]
    known_topic = bool(tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE))
    coordinators = Coordinators.fold(records, known=known_topic, now=now)
    coordinators.prepared = Coordinators.fold(decided, known=known_topic, now=now).prepared
    return coordinators


def ended_meanwhile(row: Mapping[str, Any]) -> bool:
    """Whether the marker of an open transaction has come since its partition was read."""
    for chunk in scan_segments(find_files([Path(row["path"]).parent]).files, Scan()):
        columns = chunk.columns
        markers = (columns["marker_type"] >= 0) & (columns["producer_id"] == row["producer_id"])
        if (markers & (columns["base_offset"] > row["last_offset"])).any():
            return True
    return False


def conclude(tree: Tree, scan: Scan, evidence: Evidence, coordinators: Coordinators) -> Result:
    """The verdicts."""
    for sidecar in read_sidecars(tree.files):
        scan.problems += sidecar.problems
    opened = open_transactions(evidence.txns, coordinators)
    ended = [row["status"] == "hanging" and ended_meanwhile(row) for row in opened.to_dict("records")]
    opened = opened[[not one for one in ended]].reset_index(drop=True)
    odd = evidence.txns[suspicious(evidence.txns, coordinators.level_2) & (evidence.txns["outcome"] != "open")]
    late = evidence.txns[(evidence.txns["outcome"] == "open") & (evidence.txns["lowest_epoch_step"] < 0)]
    facts = LogFacts(tree.starts(), tree.cleaned)
    found = judge(
        opened=opened,
        odd=pd.concat([odd, late]),
        breaks=evidence.breaks,
        jumps=evidence.jumps,
        marker_times=evidence.marker_times,
        coordinators=coordinators,
        facts=facts,
    )
    result = Result("logs", anomalies_frame(found), scan.problems, files=len(tree.files), bytes=scan.bytes_read)
    result.tables["open_txns"] = opened
    result.facts = {
        "batches": scan.batches,
        "open_transactions": len(opened),
        "coordinator_log_read": coordinators.known,
    }
    return result
