"""The audit of histories on Spark: operations are paired process by process, values judged key by key.

What a process saw in which order needs the operations of that process, one after the other; what became of a value
needs whoever wrote and read it. Both are sorted and folded as a stream. Cycles need what can be in one: a cycle has an
edge that goes back, so it lies within the numbers that such edges span, and only those are looked at together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.audit.progress import Progress
from odradek_pipeline.audit.result import Result, Severity, anomalies_frame
from odradek_pipeline.history.checks import (
    Edges,
    PollOrder,
    SendOrder,
    cycle_through,
    cycles_of,
    found,
    never_read,
    precommitted_reads,
    value_at_several,
    values_at_one,
)
from odradek_pipeline.history.operations import BAD_LINE, STEPPING, Operation, Pairing, Send, text_of
from odradek_pipeline.logs.layout import Problem
from odradek_pipeline.spark.audit import SparkAudit
from odradek_pipeline.spark.lines import numbered, read_lines

__all__ = ["audit_history_on_spark"]

_STEPS: dict[str, str] = {
    "kind": "string",
    "file": "int",
    "number": "bigint",
    "late": "boolean",
    "step": "bigint",
    "time": "bigint",
    "process": "string",
    "type": "string",
    "f": "string",
    "txn": "string",
    "key": "string",
    "offset": "bigint",
    "value": "string",
    "sent": "bigint",
    "read": "bigint",
    "detail": "string",
}
"""A row for each operation (`op`), each value that it sent or read (`send`, `read`), what is wrong with a line
(`problem`) and an anomaly that one operation alone has (`found`, as JSON). `late` is an invocation without its end."""
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in _STEPS.items())
_DTYPES = {"string": "object", "int": "int32", "bigint": "int64", "boolean": "bool"}
_ROWS = 5_000
_FOUND = "file int, found string"
_OF_KEY = ("file", "key")
_OF_VALUE = ("file", "key", "value")


def audit_history_on_spark(
    spark: SparkSession,
    paths: Iterable[Path],
    out: Path,
    *,
    range_bytes: int = 0,
    progress: Progress | None = None,
) -> Result:
    """Audit each file as a history of its own; the tables are written by Spark below `out`."""
    files = [path.absolute() for path in paths]
    reading = {"range_bytes": range_bytes} if range_bytes else {}
    return _Audit(spark=spark, out=out.absolute(), files=files, reading=reading, progress=progress).run()


@dataclass(slots=True, kw_only=True)
class _Audit(SparkAudit):
    files: list[Path]
    reading: dict[str, int]

    def result(self) -> Result:
        self.out.mkdir(parents=True, exist_ok=True)
        self.step("reading")
        lines = self.stored("lines", read_lines(self.spark, self.files, **self.reading))
        problems = [
            Problem(str(self.files[row["file"]]), row["position"], row["problem"], row["detail"], row["severity"])
            for row in lines.where("problem is not null").orderBy("file", "position").collect()
        ]
        self.step("pairing operations")
        objects = numbered(lines).withColumn("process", F.get_json_object("text", "$.process"))
        steps = self.stored("steps", self.by_process(objects).mapInPandas(_operations, _DDL))
        problems += [
            Problem(str(self.files[row["file"]]), row["number"], "bad-operation", row["detail"], "bad")
            for row in steps.where("kind = 'problem'").orderBy("file", "number").collect()
        ]
        self.step("judging values")
        ops = steps.where("kind = 'op'")
        values = self.stored("values", self.values(steps))
        told = [(row["file"], json.loads(row["detail"])) for row in steps.where("kind = 'found'").collect()]
        told += [*self.of_offsets(steps), *self.of_values(steps, values), *self.orders(steps)]
        self.step("looking for cycles")
        told += self.cycles(ops, steps, values)
        rows = [{**anomaly, "path": str(self.files[file])} for file, anomaly in told]
        self.tables(ops, steps, values)
        size = sum(path.stat().st_size for path in self.files)
        result = Result("history", anomalies_frame(rows), problems, files=len(self.files), bytes=size)
        answered = ops.where((F.col("type") == "ok") & F.col("f").isin(*STEPPING)).count()
        result.facts = {"operations": ops.count(), "answered": answered}
        return result

    @staticmethod
    def by_process(rows: DataFrame, *behind: str) -> DataFrame:
        """Sorted, so that a worker sees each process from its first operation to its last."""
        of = rows.repartition("file", "process")
        return of.sortWithinPartitions("file", "process", "number", *behind)

    # ------------------------------------------------------------------ values

    @staticmethod
    def seen(steps: DataFrame) -> DataFrame:
        """Values at offsets, as far as anybody knows of them."""
        return steps.where("type = 'ok' and (kind = 'read' or (kind = 'send' and offset >= 0))")

    @staticmethod
    def values(steps: DataFrame) -> DataFrame:
        """Of each value who wrote it last, who read it first and when, and at which offsets it is."""
        order = F.struct("late", "number", "step")
        who = F.struct("number", "process", "txn", "type")
        is_read = F.expr("kind = 'read' and type = 'ok'")
        is_seen = F.expr("type = 'ok' and (kind = 'read' or (kind = 'send' and offset >= 0))")
        return (
            steps.where("kind in ('send', 'read')")
            .groupBy(*_OF_VALUE)
            .agg(
                F.max_by(F.when(F.col("kind") == "send", who), F.when(F.col("kind") == "send", order)).alias("writer"),
                F.min_by(F.when(is_read, who), F.when(is_read, order)).alias("reader"),
                F.min(F.when(is_read, F.col("time"))).alias("first_read"),
                F.collect_set(F.when(is_seen, F.col("offset"))).alias("offsets"),
            )
        )

    def of_offsets(self, steps: DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
        """Several values at one offset."""
        at = self.seen(steps).groupBy("file", "key", "offset").agg(F.collect_set("value").alias("values"))
        for row in at.where(F.size("values") > 1).collect():
            detail = values_at_one(str(_shown(value)) for value in row["values"])
            yield row["file"], found("inconsistent-offsets", Severity.BAD, detail, key=row["key"], offset=row["offset"])

    def of_values(self, steps: DataFrame, values: DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
        """One value at several offsets, aborted and read, acknowledged and not read."""
        for row in values.where(F.size("offsets") > 1).collect():
            detail = value_at_several(_shown(row["value"]), row["offsets"])
            yield row["file"], found("duplicate", Severity.BAD, detail, key=row["key"], offset=min(row["offsets"]))
        for row in values.where("reader is not null and writer.type = 'fail'").collect():
            detail = f"value {_shown(row['value'])} of an aborted write (process {row['writer']['process']}) was read"
            where = {"key": row["key"], "offset": min(row["offsets"]), "operation": _by(row["reader"])}
            yield row["file"], found("G1a", Severity.BAD, detail, **where)
        highest = values.where("reader is not null").groupBy(*_OF_KEY).agg(F.max(F.array_max("offsets")).alias("high"))
        unread = values.where("reader is null").select(*_OF_VALUE)
        lost = steps.where("kind = 'send' and type = 'ok'").join(unread, list(_OF_VALUE))
        for row in lost.join(highest, list(_OF_KEY), "left").collect():
            high, offset, value = row["high"] if row["high"] is not None else -1, row["offset"], _shown(row["value"])
            where = {"key": row["key"], "offset": offset, "operation": _by(row)}
            if 0 <= offset <= high:
                detail = never_read(value, offset, high)
                yield row["file"], found("lost-write", Severity.BAD, detail, **where)
            else:
                detail = f"value {value} was acknowledged and never polled"
                yield row["file"], found("unseen", Severity.BAD, detail, **where)

    # ------------------------------------------------------------------ order

    def orders(self, steps: DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
        """What each process polled and sent, one operation after the other."""
        offsets = self.seen(steps).select("file", "key", "offset").distinct()
        ranks = offsets.withColumn("rank", F.row_number().over(Window.partitionBy(*_OF_KEY).orderBy("offset")))
        placed = self.seen(steps).join(ranks, ["file", "key", "offset"], "left")
        turns = steps.where("kind = 'op' and type = 'ok' and f in ('subscribe', 'assign')").withColumn(
            "rank", F.lit(-1)
        )
        rows = self.by_process(placed.unionByName(turns), "step")
        for row in rows.mapInPandas(_in_order, _FOUND).collect():
            yield row["file"], json.loads(row["found"])

    # ------------------------------------------------------------------ cycles

    def edges(self, steps: DataFrame, values: DataFrame) -> DataFrame:
        """Who wrote behind whom, and who read from whom, by the numbers of operations."""
        writers = values.where("writer.type = 'ok'").select(*_OF_VALUE, F.col("writer.number").alias("to"))
        at = self.seen(steps).select("file", "key", "offset", "value").distinct().join(writers, list(_OF_VALUE))
        before = F.lag("to").over(Window.partitionBy(*_OF_KEY).orderBy("offset", "value"))
        ww = at.withColumn("from", before).select("file", "from", "to", F.lit(True).alias("ww"))
        reads = steps.where("kind = 'read' and type = 'ok'").select(*_OF_VALUE, F.col("number").alias("to"))
        wrote = values.where("writer is not null").select(*_OF_VALUE, F.col("writer.number").alias("from"))
        wr = reads.join(wrote, list(_OF_VALUE)).select("file", "from", "to", F.lit(False).alias("ww"))
        return ww.unionByName(wr).where("from is not null and from != to").distinct()

    def cycles(self, ops: DataFrame, steps: DataFrame, values: DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
        """The strongly connected components of the edges."""
        edges = self.stored("edges", self.edges(steps, values))
        back = edges.where("to < from").select("file", F.col("to").alias("low"), F.col("from").alias("high"))
        so_far = Window.partitionBy("file").orderBy("low", "high")
        reached = F.max("high").over(so_far.rowsBetween(Window.unboundedPreceding, -1))
        begins = F.when(reached.isNull() | (F.col("low") > reached), 1).otherwise(0)
        spans = back.withColumn("begins", begins).withColumn("span", F.sum("begins").over(so_far))
        rows = spans.groupBy("file", "span").agg(F.min("low").alias("low"), F.max("high").alias("high"))
        listed = rows.select("file", "low", "high").orderBy("file", "low").toPandas()
        if not len(listed):
            return
        spanned = edges.mapInPandas(_Spans(listed), "file int, span bigint, `from` bigint, `to` bigint, ww boolean")
        schema = "file int, cycle string, name string, severity string, how string, number bigint"
        members = spanned.groupBy("file", "span").applyInPandas(_cycles, schema)
        who: Any = members.join(ops.select("file", "number", "process", "txn"), ["file", "number"]).toPandas()
        for (file, _), of in who.groupby(["file", "cycle"]):
            first = of.sort_values("number").iloc[0]
            detail = cycle_through(len(of), of["process"], first["how"])
            where = _by({"number": int(first["number"]), "process": first["process"], "txn": first["txn"]})
            yield int(file), found(first["name"], Severity(first["severity"]), detail, operation=where)

    # ------------------------------------------------------------------ tables

    def tables(self, ops: DataFrame, steps: DataFrame, values: DataFrame) -> None:
        """What is shown over time, as an audit in one process has it."""
        paths = self.spark.createDataFrame(
            [(at, str(path)) for at, path in enumerate(self.files)], "file int, path string"
        )
        named = F.broadcast(paths)
        columns = ("time", "process", "type", "f", "txn", "sent", "read", "path")
        self.kept("transactions", ops.join(named, "file").select(*columns))
        sends = steps.where("kind = 'send' and type = 'ok'")
        acknowledged = sends.join(values.select(*_OF_VALUE, "first_read"), list(_OF_VALUE))
        later = acknowledged.where("first_read is not null").select(
            "file", F.greatest("time", "first_read").alias("time"), F.lit(-1).alias("change")
        )
        changes = acknowledged.select("file", "time", F.lit(1).alias("change")).unionByName(later)
        at = changes.groupBy("file", "time").agg(F.sum("change").alias("change"))
        unseen = at.withColumn("unseen", F.sum("change").over(Window.partitionBy("file").orderBy("time")))
        self.kept("unseen", unseen.join(named, "file").select("time", "unseen", "path"))
        nobody = F.lit(None)
        ends = sends.select(
            *_OF_KEY, "time", "number", nobody.cast("string").alias("process"), "offset", F.col("offset").alias("end")
        )
        polled = steps.where("kind = 'read' and type = 'ok'").groupBy(*_OF_KEY, "time", "number", "process")
        reads = polled.agg(F.max("offset").alias("offset")).withColumn("end", nobody.cast("bigint"))
        so_far = Window.partitionBy(*_OF_KEY).orderBy("time", "number")
        behind = F.greatest(F.lit(0), F.coalesce("end", "offset") - F.col("offset"))
        lag = ends.unionByName(reads).withColumn("end", F.max("end").over(so_far)).where("process is not null")
        lag = lag.withColumn("lag", behind).join(named, "file")
        self.kept("lag", lag.select("time", "process", "key", "offset", "lag", "path"))


def _by(row: Any) -> Operation:
    """The operation that an anomaly names."""
    return Operation(row["number"], 0, row["process"], "ok", "txn", row["txn"])


def _shown(value: str) -> Any:
    return json.loads(value)


# ---------------------------------------------------------------------- in the workers


def _operations(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Objects, process by process, to the steps of operations."""
    rows: list[dict[str, Any]] = []
    pairing, here = Pairing(), ("", "")
    for file, number, text, process in _rows(frames, "file", "number", "text", "process"):
        if (file, process) != here:
            rows += _rest(pairing, here)
            pairing, here = Pairing(), (file, process)
        rows += _steps(pairing, file, number, json.loads(text), late=False)
        if len(rows) >= _ROWS:
            yield _frame(rows)
            rows = []
    yield _frame([*rows, *_rest(pairing, here)])


def _rows(frames: Iterator[pd.DataFrame], *columns: str) -> Iterator[tuple[Any, ...]]:
    for frame in frames:
        yield from zip(*(frame[name].tolist() for name in columns), strict=True)


def _rest(pairing: Pairing, here: tuple[Any, Any]) -> Iterator[dict[str, Any]]:
    for number, line in list(pairing.rest()):
        yield from _steps(pairing, here[0], number, line, late=True)


def _steps(pairing: Pairing, file: int, number: int, line: dict[str, Any], *, late: bool) -> Iterator[dict[str, Any]]:
    base = {"file": file, "number": number, "late": late}
    try:
        operation = pairing.add(number, line)
    except BAD_LINE as error:
        yield base | {"kind": "problem", "detail": f"operation {number + 1}: {error}"}
        return
    if operation is None:
        return
    base |= {name: getattr(operation, name) for name in ("time", "process", "type", "f", "txn")}
    sends, reads = operation.sends, list(operation.reads())
    yield base | {"kind": "op", "sent": len(sends), "read": len(reads)}
    for place, step in enumerate(operation.steps):
        if isinstance(step, Send):
            yield (
                base
                | {"kind": "send", "step": place << 32, "key": step.key, "offset": step.offset}
                | _value(step.value)
            )
    of = ((at, step) for at, step in enumerate(operation.steps) if isinstance(step, dict))
    for at, step in of:
        pairs = ((key, offset, value) for key, of in step.items() for offset, value in of)
        for place, (key, offset, value) in enumerate(pairs):
            yield base | {"kind": "read", "step": (at << 32) + place, "key": key, "offset": offset} | _value(value)
    for one in precommitted_reads(operation):
        yield base | {"kind": "found", "detail": json.dumps(one)}


def _value(value: Any) -> dict[str, str]:
    return {"value": text_of(value)}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    empty: dict[str, Any] = {"string": None, "int": -1, "bigint": -1, "boolean": False}
    columns = {
        name: pd.Series([row.get(name, empty[kind]) for row in rows], dtype=_DTYPES[kind])
        for name, kind in _STEPS.items()
    }
    return pd.DataFrame(columns)


def _in_order(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Places, process by process and operation by operation, to anomalies of their order."""
    told: list[tuple[int, str]] = []
    names = ("file", "process", "number", "f", "txn", "kind", "key", "offset", "rank")
    polls, sends, here = PollOrder(), SendOrder(), (-1, "")
    held: list[tuple[Any, ...]] = []

    def judge() -> Iterator[tuple[int, str]]:
        file, process, number, f, txn = held[0][:5]
        operation = Operation(number, 0, process, "ok", f, txn)
        places = [(kind, key, (offset, rank)) for *_, kind, key, offset, rank in held]
        for one in polls.add(operation, [(key, place) for kind, key, place in places if kind == "read"]):
            yield file, json.dumps(one)
        for one in sends.add(operation, [(key, place) for kind, key, place in places if kind == "send"]):
            yield file, json.dumps(one)

    for row in _rows(frames, *names):
        if held and row[:3] != held[0][:3]:
            told += judge()
            held = []
        if row[:2] != here:
            polls, sends, here = PollOrder(), SendOrder(), row[:2]
        held.append(row)
        if len(told) >= _ROWS:
            yield pd.DataFrame(told, columns=["file", "found"])
            told = []
    if held:
        told += judge()
    yield pd.DataFrame(told, columns=["file", "found"]).astype({"file": "int32"})


@dataclass(slots=True)
class _Spans:
    """The numbers that edges going back span, by file: an edge that is not within one of them is in no cycle."""

    listed: pd.DataFrame

    def __call__(self, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        spans = {file: (of["low"].to_numpy(), of["high"].to_numpy()) for file, of in self.listed.groupby("file")}
        for frame in frames:
            for file, of in frame.groupby("file"):
                low, high = spans.get(file, (np.zeros(0, np.int64),) * 2)
                start, end = np.minimum(of["from"], of["to"]), np.maximum(of["from"], of["to"])
                span = np.searchsorted(low, start, "right") - 1
                within = (span >= 0) & (end <= high[span]) if len(low) else np.zeros(len(of), bool)
                yield of.assign(span=span)[within][["file", "span", "from", "to", "ww"]]


def _cycles(frame: pd.DataFrame) -> pd.DataFrame:
    both: dict[bool, Edges] = {True: {}, False: {}}
    for start, end, ww in zip(frame["from"].tolist(), frame["to"].tolist(), frame["ww"].tolist(), strict=True):
        both[ww].setdefault(start, set()).add(end)
    rows = [
        (int(frame["file"].iloc[0]), f"{min(cycle)} {name} {how}", name, str(severity), how, number)
        for name, severity, how, cycle in cycles_of(both[True], both[False])
        for number in cycle
    ]
    return pd.DataFrame(rows, columns=["file", "cycle", "name", "severity", "how", "number"])
