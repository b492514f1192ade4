"""What goes between the audit of logs and Spark: frames with the columns that a schema wants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from odradek.core.internal_topics import partition_for
from odradek_pipeline.directories.levels import Levels
from odradek_pipeline.logs.layout import FileKind
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.spark.log_tables import TABLES
from odradek_pipeline.transactions.allowed import ALLOWED_COLUMNS
from odradek_pipeline.transactions.checks import BREAK_COLUMNS, SEQUENCE_COLUMNS, TXN_COLUMNS
from odradek_pipeline.transactions.coordinators import Coordinators
from odradek_pipeline.transactions.decisions import DECISION_COLUMNS
from odradek_pipeline.transactions.sidecar_checks import PROBLEM_COLUMNS
from odradek_pipeline.transactions.steps import Known

__all__ = [
    "CHECKED",
    "CHECKED_TABLES",
    "FACTS",
    "decisions_of",
    "fact_frame",
    "folded_states",
    "pairs",
    "widened",
    "with_paths",
]

_EMPTY = {"object": "", "?": False}

CHECKED_TABLES = {
    "txn": TXN_COLUMNS,
    "sequence": SEQUENCE_COLUMNS,
    "break": BREAK_COLUMNS,
    "allowed": ALLOWED_COLUMNS,
    "problem": PROBLEM_COLUMNS,
    "odd": TXN_COLUMNS,
    "lacking": DECISION_COLUMNS,
    "level_2": {"producer_id": "i8", "epoch": "i4"},
}
CHECKED = {"kind": "object"} | {name: kind for table in CHECKED_TABLES.values() for name, kind in table.items()}
"""The rows of one pass over the groups: of several tables, each with its own columns filled."""

FACTS = {"fact": "s", "of_producer": "i8", "age": "i8", "anomaly": "s", "detail": "s"}
_FACT_COLUMNS = [*TABLES["txnlog"], *FACTS]
"""A record of a coordinator, and why it matters: see `Coordinators`, of which these are the parts; `age` of a decision
is when it was complete, -1 if it is not, and of `longest` the longest timeout of these records. `astray`: its id would
lie in another partition, if there were as many as are known. `odd`: the anomaly, and what is to be said of it."""


def with_paths(batches: pd.DataFrame, directories: Mapping[tuple[str, int], str]) -> pd.DataFrame:
    """With the path of each segment, once in memory for all its batches."""
    segments = batches[["topic", "partition", "segment"]].drop_duplicates()
    paths = [
        str(Path(directories[topic, partition]) / f"{segment:020}{FileKind.SEGMENT}")
        for topic, partition, segment in segments.itertuples(index=False)
    ]
    return batches.merge(segments.assign(path=pd.Series(paths, segments.index, dtype="object")), how="left")


def pairs(rows: pd.DataFrame) -> set[tuple[int, int]]:
    return set(zip(rows["producer_id"].tolist(), rows["epoch"].tolist(), strict=True))


def decisions_of(claims: pd.DataFrame) -> pd.DataFrame:
    """The decisions among the claims."""
    rows = claims[claims["source"] == "decision"].rename(columns={"first_offset": "offset", "last_offset": "timestamp"})
    rows = rows.assign(commit=rows["last_sequence"] == 1, completed=rows["upto"])
    return rows[list(DECISION_COLUMNS)].astype(DECISION_COLUMNS)


def folded_states(
    frame: pd.DataFrame,
    now: int,
    levels: Levels,
    around: Known | None = None,
    until: Mapping[int, int] | None = None,
) -> Coordinators:
    records = (TransactionRecord.of_row(row) for row in frame.to_dict("records"))
    return Coordinators.fold(records, known=True, now=now, levels=levels, around=around, until=until)


def fact_frame(late: Coordinators, early: Coordinators, count: int) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for producer_id, record in late.last.items():
        rows.append(record.row() | {"fact": "last", "of_producer": producer_id, "age": -1})
        if partition_for(record.transactional_id, count) != record.partition:
            rows.append(record.row() | {"fact": "astray", "of_producer": producer_id, "age": -1})
    for record in late.decisions:
        completed = early.complete.get((record.partition, record.offset), -1)
        rows.append(record.row() | {"fact": "decision", "of_producer": record.producer_id, "age": completed})
    for record in list(late.last.values())[:1]:
        rows.append(record.row() | {"fact": "longest", "of_producer": -1, "age": late.longest_ms})
    for fact, found in (("overdue", late.overdue), ("stuck", late.stuck), ("premature", late.premature)):
        rows += [record.row() | {"fact": fact, "of_producer": record.producer_id, "age": age} for record, age in found]
    for record in late.begun_at_level_2.values():
        rows.append(record.row() | {"fact": "level_2", "of_producer": record.producer_id, "age": -1})
    for record, name, told in late.odd:
        of = {"fact": "odd", "of_producer": record.producer_id, "age": -1, "anomaly": name, "detail": told}
        rows.append(record.row() | of)
    return pd.DataFrame(rows, columns=_FACT_COLUMNS).fillna({"anomaly": "", "detail": ""})


def widened(kind: str, table: pd.DataFrame) -> pd.DataFrame:
    missing = {name: _EMPTY.get(of, -1) for name, of in CHECKED.items() if name not in table.columns}
    return table.assign(**missing | {"kind": kind})[list(CHECKED)].astype(CHECKED)
