"""What an audit hands over: anomalies with their evidence, tables, and a summary with an exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from odradek_pipeline.audit.table_kind import TableKind
from odradek_pipeline.logs.layout import Problem

__all__ = [
    "ANOMALY_COLUMNS",
    "GROWING",
    "PARTITIONED_BY",
    "Result",
    "Severity",
    "anomalies_frame",
    "anomaly",
    "write_result",
]

ANOMALY_COLUMNS = (
    "anomaly",
    "severity",
    "topic",
    "partition",
    "offset",
    "end_offset",
    "producer_id",
    "producer_epoch",
    "transactional_id",
    "path",
    "position",
    "process",
    "txn",
    "detail",
    "incident",
)
_NUMBERS = frozenset(("incident", "partition", "offset", "end_offset", "producer_id", "producer_epoch", "position"))


GROWING = frozenset(("batches", "log_txns", "sequences"))
"""The tables of an audit of logs that grow with them and have a topic and a partition."""
PARTITIONED_BY = ("topic", "partition")


class Severity(StrEnum):
    """How bad an anomaly is: `allowed` is within what the protocol promises, `info` could not be decided."""

    BAD = "bad"
    ALLOWED = "allowed"
    INFO = "info"


def anomaly(name: str, severity: Severity, detail: str, **evidence: Any) -> dict[str, Any]:
    """One row of the table of anomalies; what is not given is -1 or empty."""
    unknown = evidence.keys() - set(ANOMALY_COLUMNS)
    assert not unknown, f"no columns: {unknown}"
    row: dict[str, Any] = {column: -1 if column in _NUMBERS else "" for column in ANOMALY_COLUMNS}
    row |= {key: int(value) if key in _NUMBERS else str(value) for key, value in evidence.items()}
    return row | {"anomaly": name, "severity": str(severity), "detail": detail}


def anomalies_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Anomalies as a table with its columns in order, also when there are none."""
    frame = pd.DataFrame(list(rows), columns=list(ANOMALY_COLUMNS))
    return frame.astype({column: "int64" if column in _NUMBERS else "object" for column in ANOMALY_COLUMNS})


@dataclass(slots=True)
class Result:
    """The outcome of one audit."""

    audit: str
    anomalies: pd.DataFrame
    problems: list[Problem] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Tables that the driver holds; larger ones were written by Spark already."""
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    incidents: pd.DataFrame | None = None
    """The causes of what is bad, where an audit looks for them; `anomalies` names each one's by its place here."""
    incident_of: dict[int, int] = field(default_factory=dict)
    """The same for problems."""
    written: tuple[str, ...] = ()
    """Tables that Spark has written."""
    kind: TableKind = TableKind.PARQUET

    @property
    def is_bad(self) -> bool:
        """Whether the exit code is 1."""
        return bool((self.anomalies["severity"] == "bad").any()) or any(
            found.severity == "bad" for found in self.problems
        )

    def counts(self) -> dict[str, dict[str, int]]:
        """How often each anomaly was found, by its severity."""
        counts: dict[str, dict[str, int]] = {}
        for (name, severity), rows in self.anomalies.groupby(["anomaly", "severity"]):
            counts.setdefault(str(name), {})[str(severity)] = len(rows)
        return counts

    def summary(self) -> dict[str, Any]:
        """summary.json."""
        return {
            "audit": self.audit,
            "verdict": "bad" if self.is_bad else "ok",
            "anomalies": self.counts(),
            **({} if self.incidents is None else {"incidents": self.incidents["incident"].value_counts().to_dict()}),
            "problems": len(self.problems),
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            **self.facts,
        }


def write_result(result: Result, out: Path) -> None:
    """The tables as Parquet files and summary.json, below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    problems = problems_frame(result.problems)
    problems["incident"] = [result.incident_of.get(at, -1) for at in range(len(problems))]
    tables = {"anomalies": result.anomalies, "problems": problems.astype({"incident": "int64"}), **result.tables}
    if result.incidents is not None:
        tables["incidents"] = result.incidents
    for name, table in tables.items():
        path = out / f"{name}.parquet"
        if path.is_dir():  # an earlier run on Spark, or one of partitioned tables, left its parts there
            shutil.rmtree(path)
        if result.kind is TableKind.PARTITIONED and name in GROWING:
            path.unlink(missing_ok=True)
            table.to_parquet(path, index=False, partition_cols=list(PARTITIONED_BY))
        else:
            table.to_parquet(path, index=False, schema=_schema(table))
    if result.kind is TableKind.ICEBERG:
        from odradek_pipeline.audit.iceberg_tables import publish  # an extra of its own

        publish(out, {*tables, *result.written})
    (out / "summary.json").write_text(json.dumps(result.summary(), indent=2) + "\n")


def _schema(table: pd.DataFrame) -> pa.Schema:
    """The types of its columns; those in which there is nothing are of text, as the others like them."""
    found = pa.Schema.from_pandas(table, preserve_index=False)
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found])


def problems_frame(problems: Iterable[Problem]) -> pd.DataFrame:
    """The table `problems`."""
    rows = [(found.path, found.position, found.problem, found.severity, found.detail) for found in problems]
    frame = pd.DataFrame(rows, columns=["path", "position", "problem", "severity", "detail"])
    return frame.astype({"position": "int64"})
