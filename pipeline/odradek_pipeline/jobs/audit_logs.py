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

import numpy as np
import pandas as pd

from odradek.node.coordinators import partition_for
from odradek_pipeline.cluster import read_cluster
from odradek_pipeline.decisions import decision_frame, lacking_markers, undecided
from odradek_pipeline.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, Tree, find_files, one_replica_each
from odradek_pipeline.log_checks import BATCH_COLUMNS, batch_frame, sequence_breaks, sequences, transactions
from odradek_pipeline.log_verdicts import Coordinators, LogFacts, judge, open_transactions, suspicious
from odradek_pipeline.payload import TransactionRecord, transaction_log
from odradek_pipeline.result import Result, anomalies_frame
from odradek_pipeline.scan import Scan, scan_segments
from odradek_pipeline.sidecar_checks import Beside, check_claims, claims_of
from odradek_pipeline.sidecars import read_sidecars

__all__ = ["audit_logs", "Evidence"]


@dataclass(slots=True)
class Evidence:
    """What the verdicts rest on, in frames."""

    txns: pd.DataFrame
    """Only the suspicious ones where Spark has written the others."""
    breaks: pd.DataFrame
    jumps: pd.DataFrame
    lacking: pd.DataFrame
    """Decisions without their marker."""


def audit_logs(directories: Iterable[str | Path], *, topics: Iterable[str] = ()) -> Result:
    """Audit in this process, without Spark: for logs whose batches fit into memory."""
    began = time.perf_counter()
    tree = one_replica_each(find_files(directories, topics=topics))
    scan = Scan(problems=list(tree.problems))
    decided = transaction_log(tree.files, Scan())
    batches = read_batches(tree.files, scan)
    txns = transactions(batches)
    coordinators = read_coordinators(tree, scan, decided, now=newest(batches))
    decisions = decision_frame(coordinators.decisions, coordinators.complete)
    txns["undecided"] = undecided(decisions, txns)
    lacking = lacking_markers(decisions, txns, tree.starts(), tree.cleaned)
    evidence = Evidence(txns, sequence_breaks(batches), real_jumps(batches, tree.cleaned), lacking)
    claims = claims_of(read_sidecars(tree.files), scan.problems)
    beside = Beside.of(tree, ends_of(batches), scan.problems)
    scan.problems += problems_of(check_claims(batches, txns, claims, beside))
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


def ends_of(rows: pd.DataFrame) -> dict[tuple[str, int], int]:
    """The last offset of each partition."""
    return rows.groupby(["topic", "partition"], sort=False)["last_offset"].max().to_dict()


def problems_of(rows: pd.DataFrame) -> list[Problem]:
    """Rows of the table `problems`, whose last columns are severity and detail."""
    columns = ("path", "position", "problem", "detail", "severity")
    return [Problem(*row) for row in zip(*(rows[column] for column in columns), strict=True)]


def real_jumps(rows: pd.DataFrame, cleaned: Mapping[tuple[str, int], int]) -> pd.DataFrame:
    """Where offsets do not follow each other, also between the ranges of a partition; compaction explains gaps."""
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
    ordered = ordered[ordered["jump"] & (ordered["base_offset"] != ordered["previous_offset"] + 1)]
    upto = [cleaned.get(key, 0) for key in zip(ordered["topic"], ordered["partition"], strict=True)]
    internal = ordered["topic"].str.startswith("__") & (np.array(upto, "i8") > 0)
    gap = ordered["base_offset"] > ordered["previous_offset"]
    return ordered[~(gap & (internal | (ordered["base_offset"] < upto)))]


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
    coordinators.complete = Coordinators.fold(decided, known=known_topic, now=now).complete
    names = {(record.transactional_id, record.partition) for record in records}
    astray = any(partition_for(name, coordinator_count(tree)) != partition for name, partition in names)
    coordinators.missing = missing_coordinators(tree, scan.problems, astray=astray)
    coordinators.shortened = shortened_coordinators(tree)
    return coordinators


def coordinator_count(tree: Tree) -> int:
    """How many partitions the coordinators' log has: the metadata log knows; else as many as there seem to be."""
    cluster = read_cluster(tree)
    known = cluster.partitions_of(TRANSACTION_STATE) if cluster is not None else None
    there = {file.partition for file in tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
    return known or max(there, default=0) + 1


def missing_coordinators(tree: Tree, problems: Iterable[Problem], *, astray: bool) -> frozenset[int]:
    """Partitions of the coordinators' log that are not there, or cannot be read as a whole.

    `astray`: an id lies elsewhere than it would among so many partitions, so there are more; which is not known (-1).
    """
    segments = tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)
    broken = {found.path for found in problems if found.severity == "bad"}
    damaged = {file.partition for file in segments if file.path in broken}
    absent = set(range(coordinator_count(tree))) - {file.partition for file in segments}
    return frozenset(damaged | absent | ({-1} if astray else set()))


def shortened_coordinators(tree: Tree) -> frozenset[int]:
    """Partitions of the coordinators' log of whose records only the newest may be there."""
    starts = {key: start for key, start in tree.starts().items() if key[0] == TRANSACTION_STATE}
    return frozenset(key[1] for key, start in starts.items() if start > 0 or tree.cleaned.get(key, 0) > 0)


def ended_meanwhile(row: Mapping[str, Any], tree: Tree) -> bool:
    """Whether the marker of an open transaction has come since its partition was read."""
    here = Path(row["path"]).parent
    before = [file for file in tree.of(FileKind.SEGMENT) if (file.topic, file.partition) == _partition(row)]
    now = find_files([here]).of(FileKind.SEGMENT)
    if now == before:
        return False
    following = [*(file.base_offset for file in now[1:]), 1 << 63]
    behind = [file for file, end in zip(now, following, strict=True) if end > row["last_offset"]]
    for chunk in scan_segments(behind, Scan()):
        columns = chunk.columns
        markers = (columns["marker_type"] >= 0) & (columns["producer_id"] == row["producer_id"])
        if (markers & (columns["base_offset"] > row["last_offset"])).any():
            return True
    return False


def _partition(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]


def conclude(tree: Tree, scan: Scan, evidence: Evidence, coordinators: Coordinators) -> Result:
    """The verdicts."""
    opened = open_transactions(evidence.txns, coordinators)
    ended = [row["status"] == "hanging" and ended_meanwhile(row, tree) for row in opened.to_dict("records")]
    opened = opened[[not one for one in ended]].reset_index(drop=True)
    odd = evidence.txns[suspicious(evidence.txns, coordinators.level_2) & (evidence.txns["outcome"] != "open")]
    late = evidence.txns[(evidence.txns["outcome"] == "open") & (evidence.txns["lowest_epoch_step"] < 0)]
    facts = LogFacts(tree.starts(), tree.cleaned)
    found = judge(
        opened=opened,
        odd=pd.concat([odd, late]),
        breaks=evidence.breaks,
        jumps=evidence.jumps,
        lacking=evidence.lacking,
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
