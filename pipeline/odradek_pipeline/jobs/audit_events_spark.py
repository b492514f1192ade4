"""The audit of event logs on Spark: the same fold, of each partition and of each transactional id by itself.

What holds a last stable offset is a matter of one partition, and of the states of the producers that have been in it;
how long transactions took is one of a transactional id. So each group gets its events and those of its producers, and
`Timeline` does the rest, as it does over a whole file. A worker reads a group's events in their order and hands on rows
as it has them, so that it holds what is open, and not what has been. The driver gets long stalls and what hangs.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.audit.progress import Progress
from odradek_pipeline.audit.result import Result, anomalies_frame
from odradek_pipeline.events.checks import CONTRADICTION_COLUMNS, Numbers
from odradek_pipeline.events.fields import FLAGS, NUMBERS, TEXTS, check_event
from odradek_pipeline.jobs.audit_events import (
    CLOCK,
    COLUMNS,
    STALL_MS,
    Timeline,
    contradiction_rows,
    hanging_of,
    hanging_rows,
    stall_rows,
    told_of,
)
from odradek_pipeline.logs.layout import Problem
from odradek_pipeline.spark.audit import SparkAudit
from odradek_pipeline.spark.lines import places, read_lines

__all__ = ["audit_events_on_spark"]

_NUMBERS = tuple(NUMBERS)
_TEXTS = TEXTS
_ABSENT = -(1 << 62)
"""For a number that an event does not have: with a null a column of numbers would be one of floats."""
_ORDER = ["file", "ts_ns", "seq"]
_PLACE = {
    "file": "int",
    "start": "bigint",
    "place": "bigint",
    "position": "bigint",
    "problem": "string",
    "severity": "string",
    "detail": "string",
}
_BAD_EVENT = "bad-event"
_ROWS = 20_000
_EVENT = {**_PLACE, **dict.fromkeys((*_NUMBERS, *FLAGS), "bigint"), **dict.fromkeys(_TEXTS, "string")}

_OF_PRODUCERS = ("init_producer_id", "state_change")
_OF_PARTITIONS = (
    "transaction_opened", "transaction_closed", "marker_written", "lso_moved", "partitions_added",
    "leadership_taken", "leadership_given_up", "log_truncated",
)  # fmt: skip
_OF_BROKERS = {
    "verification": ("verify_end",),
    "requests": ("request",),
    "faults": ("leadership_given_up", "broker_fenced", "fault"),
}
_KINDS = {
    **dict.fromkeys(("ts_ns", "begin_ns", "end_ns", "hw", "lso", "producer_id", "duration_ns"), "bigint"),
    **dict.fromkeys(("node", "partition", "producer_epoch", "version", "tv"), "int"),
    "open_at_end": "boolean",
}
_HANGING = ["topic", "partition", "offset", "producer_id", "producer_epoch", "transactional_id", "state"]
_TABLES = {**COLUMNS, "hanging": _HANGING, "contradictions": CONTRADICTION_COLUMNS}
_OF_IDS, _OF_LOGS = ("txn_states", "txn_durations"), ("lso", "stalls", "hanging", "contradictions")


def _type(column: str) -> str:
    return "bigint" if column == "offset" else _KINDS.get(column, "string")


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _wide(*tables: str) -> dict[str, str]:
    """The columns of several tables, and which one a row is of."""
    return {"table": "string"} | {name: _type(name) for table in tables for name in _TABLES[table]}


def audit_events_on_spark(
    spark: SparkSession,
    paths: Iterable[Path],
    out: Path,
    *,
    stall_ms: int = STALL_MS,
    progress: Progress | None = None,
) -> Result:
    """Audit the files in the order of their events; the tables are written by Spark below `out`."""
    files = [path.absolute() for path in paths]
    return _Audit(spark=spark, out=out.absolute(), files=files, stall_ms=stall_ms, progress=progress).run()


@dataclass(slots=True, kw_only=True)
class _Audit(SparkAudit):
    files: list[Path]
    stall_ms: int

    def result(self) -> Result:
        self.out.mkdir(parents=True, exist_ok=True)
        self.step("reading")
        events = self.stored("events", self.events())
        problems = self.problems(events)
        numbers = self.numbers(events)
        numbers.check()
        events = events.where("problem is null").drop(*(name for name in _PLACE if name != "file"))
        for name, kinds in _OF_BROKERS.items():
            columns = [_known(column) for column in COLUMNS[name]]
            self.kept(name, events.where(F.col("kind").isin(*kinds)).select(*columns))
        clock = F.when(F.col("wall_ns") != _ABSENT, F.col("wall_ns") - F.col("ts_ns"))
        totals = events.agg(
            F.count("*").alias("count"), F.max("ts_ns").alias("last"), F.min(clock).alias("clock")
        ).first()
        assert totals is not None
        changes, last_ns = events.where("kind = 'state_change'"), totals["last"] or 0
        self.step("following transactions")
        of_ids = self.folded(changes, ["transactional_id"], _OF_IDS, last_ns)
        self.step("following partitions")
        of_partitions = self.folded(self.with_producers(events), ["topic", "partition"], _OF_LOGS, last_ns)
        tables = {
            name: self.kept(name, folded.where(F.col("table") == name).select(*_TABLES[name]))
            for folded, names in ((of_ids, _OF_IDS), (of_partitions, _OF_LOGS))
            for name in names
        }
        hanging = _rows(tables["hanging"])
        long = (F.col("end_ns") - F.col("begin_ns") >= self.stall_ms * 1_000_000) | F.col("open_at_end")
        rows = [*numbers.anomalies(), *contradiction_rows(_rows(tables["contradictions"]))]
        rows += [*hanging_rows(hanging), *stall_rows(_rows(tables["stalls"].where(long)), hanging, self.stall_ms)]
        size = sum(path.stat().st_size for path in self.files)
        result = Result("events", anomalies_frame(rows), problems, files=len(self.files), bytes=size)
        result.facts = {"events": int(totals["count"]), CLOCK: totals["clock"], **self.figures(tables["txn_durations"])}
        return result

    # ------------------------------------------------------------------ events

    def events(self) -> DataFrame:
        """Every line as a row: an event, or what is wrong with it."""

        def parsed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for frame in frames:
                yield _frame([_row(row) for row in frame.to_dict("records")])

        return read_lines(self.spark, self.files).mapInPandas(parsed, _ddl(_EVENT))

    def problems(self, events: DataFrame) -> list[Problem]:
        """What is wrong with lines; an event that is none is told by its number in the file, as one process counts."""
        rows = events.where("problem is not null").orderBy("file", "start", "place", "position").collect()
        bases: dict[tuple[int, int], int] = {}
        if any(row["problem"] == _BAD_EVENT for row in rows):
            bases = places(events)
        found = []
        for row in rows:
            position, detail = row["position"], row["detail"]
            if row["problem"] == _BAD_EVENT:
                position = bases[row["file"], row["start"]] + row["place"]
                detail = f"event {position + 1} {detail}"
            found.append(Problem(str(self.files[row["file"]]), position, row["problem"], detail, row["severity"]))
        return found

    def numbers(self, events: DataFrame) -> Numbers:
        """How the numbers of events run: within ranges by Spark, from one to the next here."""
        numbered = events.where((F.col("problem").isNull()) & (F.col("seq") != _ABSENT))
        step = F.col("seq") - F.lag("seq").over(Window.partitionBy("file", "start").orderBy("place"))
        of_ranges = (
            numbered.withColumn("step", step)
            .groupBy("file", "start")
            .agg(
                F.min_by("seq", "place").alias("first"),
                F.max_by("seq", "place").alias("last"),
                F.count_if(F.col("step") < 0).alias("back"),
                F.sum(F.greatest(F.col("step") - 1, F.lit(0))).alias("missing"),
            )
        )
        found = Numbers()
        for row in of_ranges.orderBy("file", "start").collect():
            more = {"back": row["back"], "missing": row["missing"] or 0}
            found.add_range(str(self.files[row["file"]]), row["first"], row["last"], **more)
        return found

    def with_producers(self, events: DataFrame) -> DataFrame:
        """The events of partitions, and to each partition those of the producers that have been in it."""
        of_partitions = events.where(F.col("kind").isin(*_OF_PARTITIONS) & F.col("topic").isNotNull())
        who = of_partitions.where(F.col("producer_id") >= 0).select("topic", "partition", "producer_id").distinct()
        of_producers = events.where(F.col("kind").isin(*_OF_PRODUCERS)).drop("topic", "partition")
        return of_partitions.unionByName(of_producers.join(who, "producer_id"))

    def folded(self, events: DataFrame, keys: list[str], tables: tuple[str, ...], last_ns: int) -> DataFrame:
        columns = _wide(*tables)
        ordered = events.repartition(*keys).sortWithinPartitions(*keys, *_ORDER)
        rows = ordered.mapInPandas(Folding(keys, tables, last_ns), _ddl(columns))
        return self.stored("_".join(("of", *keys)), rows)

    def figures(self, durations: DataFrame) -> dict[str, Any]:
        verified = self.spark.read.parquet(str(self.out / "verification.parquet"))
        counts = {row["verdict"]: row["count"] for row in verified.groupBy("verdict").count().collect()}
        figures: dict[str, Any] = {"verifications": counts}
        if counts:
            in_ms = F.col("duration_ns") / 1e6
            row = verified.agg(F.percentile_approx(in_ms, [0.5, 0.99]).alias("ms")).first()
            assert row is not None
            figures["verification_ms"] = {"median": float(row["ms"][0]), "p99": float(row["ms"][1])}
        outcomes = {row["outcome"]: row["count"] for row in durations.groupBy("outcome").count().collect()}
        return figures | ({"transactions": outcomes} if outcomes else {})


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, kind in _EVENT.items():
        cells = [row.get(name) for row in rows]
        columns[name] = pd.Series(cells, dtype="object" if kind == "string" else "int32" if kind == "int" else "int64")
    return pd.DataFrame(columns)


def _known(column: str) -> Any:
    """A column of events, null where an event does not have it."""
    if column not in _NUMBERS:
        return column
    return F.when(F.col(column) != _ABSENT, F.col(column)).cast(_type(column)).alias(column)


@dataclass(slots=True)
class Folding:
    """In a worker: events, group by group and in their order, to rows of these tables."""

    keys: list[str]
    tables: tuple[str, ...]
    last_ns: int
    rows_max: int = _ROWS

    def __call__(self, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        timeline, here = Timeline(last_ns=self.last_ns), None
        held: list[pd.DataFrame] = []
        for frame in frames:
            for row in frame.to_dict("records"):
                key = tuple(row[name] for name in self.keys)
                if here is not None and key != here:
                    timeline.finish()
                    held += self.taken(timeline, *self.tables)
                    timeline = Timeline(last_ns=self.last_ns)
                here = key
                timeline.add(
                    {str(name): value for name, value in row.items() if value is not None and value != _ABSENT}
                )
            held += self.taken(timeline, *(name for name in self.tables if name in timeline.rows))
            if sum(map(len, held)) >= self.rows_max:
                yield pd.concat(held, ignore_index=True)
                held = []
        timeline.finish()
        held += self.taken(timeline, *self.tables)
        if held:
            yield pd.concat(held, ignore_index=True)

    def taken(self, timeline: Timeline, *names: str) -> list[pd.DataFrame]:
        """What it has; it goes on without."""
        columns = _wide(*self.tables)
        found = [_widened(name, _table(timeline, name), columns) for name in names]
        for rows in timeline.rows.values():
            rows.clear()
        if "contradictions" in names:
            timeline.contradictions.rows.clear()
        return [table for table in found if len(table)]


def _row(line: dict[Hashable, Any]) -> dict[str, Any]:
    """An event, or what is wrong with the line; as an audit in one process has it."""
    if line["problem"] is not None:
        return {**dict.fromkeys((*_NUMBERS, *FLAGS), _ABSENT), **{name: line[name] for name in _PLACE}}
    where = {name: line[name] for name in ("file", "start", "place", "position")}
    event = json.loads(line["text"])
    try:
        check_event(event)
    except ValueError as error:
        wrong = {"problem": _BAD_EVENT, "severity": "bad", "detail": told_of(event, error)}
        return where | wrong | dict.fromkeys((*_NUMBERS, *FLAGS), _ABSENT)
    numbers = {name: event[name] if event.get(name) is not None else _ABSENT for name in _NUMBERS}
    numbers |= {name: int(event[name]) if event.get(name) is not None else _ABSENT for name in FLAGS}
    texts = {name: event.get(name) for name in _TEXTS}
    return where | numbers | texts


def _table(timeline: Timeline, name: str) -> pd.DataFrame:
    if name != "hanging":
        return timeline.table(name)
    return pd.DataFrame(hanging_of(timeline), columns=_HANGING)


def _widened(name: str, table: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    wide = table.reindex(columns=list(columns)).astype("object")
    return wide.where(wide.notna(), None).assign(table=name)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
