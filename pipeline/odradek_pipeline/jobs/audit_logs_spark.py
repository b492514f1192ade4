"""The same audit, spread over a Spark cluster: one pass over the logs, one grouping, verdicts on the driver.

What the driver holds grows with the number of files, of anomalies and of open transactions, not with the bytes: the
coordinators' log is folded, and files beside the segments are read, where the batches are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek.records.batch import LOG_APPEND_TIME
from odradek_pipeline.allowed import FIRST, Explained, merged_allowed
from odradek_pipeline.coordinators import Coordinators
from odradek_pipeline.decisions import exchanged
from odradek_pipeline.files import absolute, registered
from odradek_pipeline.group_offsets import LOGS_OF_GROUPS, GroupOffsets, merged, read_group_offsets
from odradek_pipeline.jobs.audit_logs import (
    Evidence,
    audit_logs,
    conclude,
    coordinator_count,
    known_around,
    missing_coordinators,
    problems_of,
    real_jumps,
    shortened_coordinators,
)
from odradek_pipeline.jobs.producer_checks import OF_BATCHES, Checks
from odradek_pipeline.jobs.spark_audit import SparkAudit
from odradek_pipeline.jobs.spark_frames import (
    CHECKED,
    CHECKED_TABLES,
    FACTS,
    ddl,
    fact_frame,
    folded_states,
    frame_of,
    pairs,
    problem_rows,
    record_of,
)
from odradek_pipeline.jobs.spark_reading import planned
from odradek_pipeline.jobs.spark_twice import Twice, look_twice, shared_on_spark, split_on_spark
from odradek_pipeline.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, Tree, find_files
from odradek_pipeline.log_checks import BATCH_COLUMNS, TXN_COLUMNS
from odradek_pipeline.log_rows import SourceOptions
from odradek_pipeline.log_tables import OF_COORDINATORS, PROBLEM, TABLES, spark_schema
from odradek_pipeline.place import Place
from odradek_pipeline.progress import Progress
from odradek_pipeline.replicas import compare_replicas
from odradek_pipeline.result import Result
from odradek_pipeline.scan import Scan, plan_ranges
from odradek_pipeline.sidecar_checks import CLAIM_COLUMNS, Beside, claims_of
from odradek_pipeline.sidecars import is_sidecar, read_sidecars
from odradek_pipeline.steps import SHARED
from odradek_pipeline.timelines import PERCENTILES, STEPS, TIMELINE_COLUMNS, timelines
from odradek_pipeline.times import Span

__all__ = ["audit_logs_on_spark"]

ROWS_PER_GROUP = 50_000
"""Of what a worker holds in one frame."""
ROWS_PER_TASK = 2_000_000
"""Of what a worker reads in its order."""
FILES_PER_TASK, FILES_PER_FRAME = 2_000, 200
TASKS_WANTED, TASK_BYTES_MIN, TASK_BYTES_MAX = 4_000, 128 << 20, 16 << 30
TASKS_PER_CORE = 2
GROUPS_PER_CORE = 4
"""More groups than cores: they are spread by hashes, and differ in size."""
_LARGE = ("txn", "sequence")
FAR = (1 << 63) - 1
SMALL_BYTES = 1 << 20
"""What is read here rather than by a job, which would take longer to start."""
STATE_BYTES = 150
"""About the size of a record of the coordinators' log."""
_CLAIMS_OF_FACTS = ("decision", "level_2")


def audit_logs_on_spark(
    spark: SparkSession,
    directories: Iterable[str | Path],
    out: Path,
    *,
    topics: Iterable[str] = (),
    range_bytes: int | None = None,
    check_crc: bool = False,
    not_after: int | None = None,
    state: Path | None = None,
    span: Span | None = None,
    partitioned: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Audit; the tables that grow with the logs are written by Spark below `out`. A task reads about `range_bytes`;
    None leaves that to the size of the logs."""
    began = time.perf_counter()
    directories = [absolute(directory) for directory in directories]
    state = state.absolute() if state is not None else None
    place = Place.of(directories, topics, state=state, span=span)
    if not place.tree.of(FileKind.SEGMENT):
        return audit_logs(directories, topics=topics, check_crc=check_crc, not_after=not_after)
    out.mkdir(parents=True, exist_ok=True)
    spark.sparkContext.environment.update(registered())
    audit = _Audit(
        spark=spark,
        out=out.absolute(),
        began=began,
        place=place,
        range_bytes=range_bytes or bytes_of_tasks(place.tree),
        check_crc=check_crc,
        not_after=not_after,
        state=state,
        partitioned=partitioned,
        progress=progress,
    )
    result = audit.run()
    audit.place.forget()
    return result


def bytes_of_tasks(tree: Tree) -> int:
    """What a task reads: enough that a large cluster's logs are some thousand tasks. A task streams, so that its memory
    does not grow with that; what is read again when an executor is lost does."""
    total = sum(file.size for file in tree.of(FileKind.SEGMENT))
    return min(max(total // TASKS_WANTED, TASK_BYTES_MIN), TASK_BYTES_MAX)


@dataclass(slots=True, kw_only=True)
class _Audit(SparkAudit):
    place: Place
    range_bytes: int
    check_crc: bool
    not_after: int | None
    state: Path | None

    @property
    def tree(self) -> Tree:
        """One replica of each partition."""
        return self.place.tree

    def result(self) -> Result:
        # The directories may be those of a living broker: see `read_coordinators` for what is read when.
        self.step("reading")
        groups = self.group_offsets()
        before = self.states_directories()
        decided = self.states("decided", list(before))
        self.place = self.place.behind_decisions(self.state)
        scan = Scan(check_crc=self.check_crc, problems=list(self.tree.problems))
        partitions = sorted({Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT)})
        scan.bytes_remembered = self.remembered()
        stored = self.kept("batches", self.read("audit", [str(path) for path in partitions]))
        problems, edges = self.problems_and_edges(stored)
        scan.problems += problems
        batches = stored.where("problem is null")
        limit = FAR if self.not_after is None else self.not_after
        data = (F.col("producer_id") >= 0) & (F.col("marker_type") < 0) & (F.col("record_count") > 0)
        given = (F.col("marker_type") >= 0) | (F.col("attributes").bitwiseAND(F.lit(LOG_APPEND_TIME)) != 0)
        given |= F.col("topic") == TRANSACTION_STATE
        of_partitions = batches.groupBy("topic", "partition").agg(
            F.max("last_offset").alias("end"),
            F.max("max_timestamp").alias("newest"),
            F.max(F.when(F.col("max_timestamp") <= limit, F.col("max_timestamp"))).alias("clock"),
            F.max(F.when(given & (F.col("max_timestamp") <= limit), F.col("max_timestamp"))).alias("written"),
            F.max("producer_id").alias("producer"),
            F.count("*").alias("rows"),
            F.count_if(F.col("marker_type") >= 0).alias("markers"),
            F.count_if(data).alias("data"),
            F.bit_xor(F.when(data, F.xxhash64("base_offset", "crc"))).alias("digest"),
        )
        totals = of_partitions.collect()
        scan.bytes_read = sum(file.size for file in self.tree.of(FileKind.SEGMENT)) - scan.bytes_remembered
        scan.batches = sum(row["rows"] for row in totals)
        markers = sum(row["markers"] for row in totals)
        self.step("folding coordinators")
        states = decided
        if self.states_directories() != before:
            states = self.states("states", list(before))
        clocks = (row["clock"] for row in totals if row["clock"] is not None)
        now = max(clocks, default=self.not_after or 0)
        written = {(row["topic"], row["partition"]): row["written"] for row in totals if row["written"] is not None}
        proof = self.place.proof(written)
        facts = self.facts(decided, states, now=now, until=proof.until())
        claims = self.claims()
        of_states, wrong = self.problems(states, claims)
        known = set(scan.problems)
        scan.problems += [found for found in of_states if found not in known] + wrong
        claims = claims.where("problem is null").select(*CLAIM_COLUMNS)
        ends = {(row["topic"], row["partition"]): row["end"] for row in totals}
        beside = Beside.of(self.tree, ends, wrong, self.place.created, self.place.cut)
        self.step("checking transactions")
        jumps = real_jumps(edges, self.tree.cleaned)
        explained = Explained.of(self.tree.starts(), self.tree.cleaned, jumps)
        checks = Checks(beside, explained, self.directories())
        checked = self.checked(batches, self.with_facts(claims, facts), checks, scan.batches)
        txns, _ = (
            self.kept(name, checked.where(F.col("kind") == kind).select(*CHECKED_TABLES[kind]))
            for name, kind in (("log_txns", "txn"), ("sequences", "sequence"))
        )
        small = frame_of(counted(checked), CHECKED)
        tables = {kind: small[small["kind"] == kind][list(of)] for kind, of in CHECKED_TABLES.items()}
        scan.problems += problems_of(tables["problem"])
        self.step("timelines")
        lengths = self.timelines(states, txns, markers)
        scan.problems += self.compared()
        twice = look_twice(txns, facts if before else None)
        split = split_on_spark(self.spark, txns, twice)
        times = {(row["topic"], row["partition"]): row["newest"] for row in totals}
        digests = {(row["topic"], row["partition"]): (row["data"], row["digest"]) for row in totals if row["data"]}
        producers = {(row["topic"], row["partition"]): row["producer"] for row in totals}
        lacking = tables["lacking"]
        elsewhere = self.exchanged(lacking, txns) if len(lacking) else {}
        evidence = Evidence(
            tables["odd"],
            tables["break"],
            merged_allowed([tables["allowed"]]),
            jumps,
            lacking,
            split,
            ends,
            times,
            digests,
            producers,
            elsewhere,
            groups,
            proof,
        )
        coordinators = self.coordinators(facts, tables, scan.problems, twice, known=bool(before))
        result = conclude(self.place, scan, evidence, coordinators, not_after=self.not_after)
        result.facts["delays_ms"] = lengths
        return result

    # ------------------------------------------------------------------ what is read

    def remembered(self) -> int:
        """How many bytes the workers will not read, since what is in them is known."""
        memory = self.place.memory
        if memory is None:
            return 0
        ranges = plan_ranges(self.tree.files, range_bytes=self.range_bytes)
        return sum(memory.known_bytes(part, checked=self.check_crc) for part in ranges)

    def read(self, table: str, partitions: list[str]) -> DataFrame:
        """A table of the source `kafka_log`, planned here: Spark would start three Python processes more for it."""
        memory = self.place.memory if table == "audit" else None
        options = SourceOptions(
            partitions,
            table,
            list(TABLES[table]),
            [TRANSACTION_STATE] if table in OF_COORDINATORS else [],
            self.check_crc and table == "audit",
            self.range_bytes,
            "" if memory is None else str(memory.folder),
            self.place.span if table == "audit" else Span(),
            self.compacted(),
        )
        return planned(self.spark, options)

    def compacted(self) -> dict[tuple[str, int], int]:
        """Below which offset compaction explains what is missing; in internal topics everywhere."""
        return {
            key: FAR if key[0].startswith("__") and offset > 0 else offset for key, offset in self.tree.cleaned.items()
        }

    def problems(self, *tables: DataFrame) -> list[list[Problem]]:
        """Those of each table."""
        names = [F.col(name) for name in ("path", "position", *PROBLEM)]
        parts = [
            rows.where("problem is not null").select(F.lit(place).alias("place"), *names)
            for place, rows in enumerate(tables)
        ]
        found: list[list[Problem]] = [[] for _ in tables]
        for row in reduce(DataFrame.unionByName, parts).collect():
            found[row["place"]].append(_problem(row.asDict()))
        return found

    def problems_and_edges(self, stored: DataFrame) -> tuple[list[Problem], pd.DataFrame]:
        """What could not be read; and edges of ranges, and jumps inside them that compaction does not explain.

        Nothing else of the batches comes to the driver.
        """
        columns = [*(name for name in BATCH_COLUMNS if name in TABLES["audit"]), "last"]
        rows = stored.where("problem is not null or jump or last")
        found = rows.select(*columns, *PROBLEM).toArrow()
        is_edge = pc.is_null(found["problem"])
        edges = found.filter(is_edge).select(columns).to_pandas().astype({**BATCH_COLUMNS, "last": "?"})
        return [_problem(row) for row in found.filter(pc.invert(is_edge)).to_pylist()], edges

    def states_directories(self) -> dict[str, list[LogFile]]:
        """The partitions of the coordinators' log, and their segments as they are now."""
        wanted = {Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
        return {str(path): find_files([path]).of(FileKind.SEGMENT) for path in sorted(wanted)}

    def states(self, name: str, partitions: list[str]) -> DataFrame:
        if not partitions:
            return self.spark.createDataFrame([], spark_schema("states"))
        return self.stored(name, self.read("states", partitions))

    def groups_of_states(self, txns: int = 0) -> int:
        """Compaction leaves of the coordinators' log less than there are transactions in the partitions."""
        held = sum(file.size for file in self.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE))
        rows = max(held // STATE_BYTES, txns)
        return max(rows // ROWS_PER_GROUP + 1, GROUPS_PER_CORE * self.spark.sparkContext.defaultParallelism)

    def grouped(self, rows: DataFrame, groups: int, *keys: str) -> Any:
        return rows.groupBy(F.pmod(F.xxhash64(*keys), F.lit(groups)).alias("bucket"))

    # ------------------------------------------------------------------ coordinators

    def facts(self, decided: DataFrame, states: DataFrame, *, now: int, until: Mapping[int, int]) -> DataFrame:
        """The coordinators' log, folded by transactional id."""
        same = decided is states
        count, levels, around = coordinator_count(self.place), self.place.levels, known_around(self.place)

        def fold(frame: pd.DataFrame) -> pd.DataFrame:
            ordered = frame.sort_values(["partition", "path", "position", "offset"], kind="stable")
            late = folded_states(ordered[ordered["late"]], now, levels, around, until)
            early = late if same else folded_states(ordered[~ordered["late"]], now, levels)
            return fact_frame(late, early, count)

        rows = states.where("problem is null").withColumn("late", F.lit(True))
        if not same:
            rows = rows.unionByName(decided.where("problem is null").withColumn("late", F.lit(False)))
        grouped = self.grouped(rows, self.groups_of_states(), "transactional_id")
        return self.stored("facts", grouped.applyInPandas(fold, spark_schema("txnlog", **FACTS)))

    # ------------------------------------------------------------------ evidence

    def claims(self) -> DataFrame:
        """What the files beside the segments say of producers, and problems: what is wrong with a file alone."""
        files = [file for file in self.tree.files if is_sidecar(file)]
        schema = "path string, kind string, topic string, partition int, base_offset bigint, size bigint"
        rows = [(file.path, str(file.kind), file.topic, file.partition, file.base_offset, file.size) for file in files]
        of_bytes = sum(file.size for file in files) // self.range_bytes + 1
        tasks = max(1, min(len(rows), max(of_bytes, len(rows) // FILES_PER_TASK + 1)))
        columns = CLAIM_COLUMNS | dict.fromkeys(PROBLEM, "object")

        def read(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            rows = (row for frame in frames for row in frame.itertuples(index=False))
            for some in batched(rows, FILES_PER_FRAME):
                beside = [
                    LogFile(row.path, FileKind(row.kind), row.topic, row.partition, row.base_offset, row.size)
                    for row in some
                ]
                problems: list[Problem] = []
                yield claims_of(read_sidecars(beside), problems).assign(**dict.fromkeys(PROBLEM))
                if problems:
                    yield problem_rows(problems, columns)

        listed = self.spark.createDataFrame(rows, schema).repartition(tasks)
        return self.stored("claims", listed.mapInPandas(read, ddl(columns)))

    def with_facts(self, claims: DataFrame, facts: DataFrame) -> DataFrame:
        """What a coordinator says of a transaction is a claim about each of its partitions."""
        named = F.col("named")
        columns = {
            "topic": F.regexp_extract(named, r"^(.*)-(\d+)$", 1),
            "partition": F.regexp_extract(named, r"^(.*)-(\d+)$", 2).cast("int"),
            "source": F.col("fact"),
            "upto": F.col("age"),
            "epoch": F.col("producer_epoch"),
            "first_offset": F.col("offset"),
            "last_offset": F.col("last_update"),
            "last_sequence": (F.col("state") == "PrepareCommit").cast("bigint"),
            "name": F.col("transactional_id"),
        }
        rows = facts.where(F.col("fact").isin(*_CLAIMS_OF_FACTS)).withColumn("named", F.explode("partitions"))
        of_facts = rows.select(*(columns.get(name, F.col(name)).alias(name) for name in CLAIM_COLUMNS))
        return claims.unionByName(of_facts)

    def directories(self) -> dict[tuple[str, int], str]:
        """Where each partition is."""
        return {(file.topic, file.partition): str(Path(file.path).parent) for file in self.tree.of(FileKind.SEGMENT)}

    def checked(self, batches: DataFrame, claims: DataFrame, checks: Checks, count: int) -> DataFrame:
        """Transactions, sequences, and what is wrong with either: of each producer its claims, then its batches."""
        of_batches = [F.col(name) for name in OF_BATCHES if name not in CLAIM_COLUMNS]
        of_claims = [F.col(name).alias(f"claim_{name}") for name in CLAIM_COLUMNS if name not in OF_BATCHES]
        both = [F.col(name) for name in OF_BATCHES if name in CLAIM_COLUMNS]
        # No nulls: a column of numbers with one is read as one of floats.
        nothing = {"object": F.lit(""), "i2": F.lit(-1).cast("short"), "i4": F.lit(-1), "i8": F.lit(-1).cast("bigint")}
        no_batch = [nothing[kind].alias(name) for name, kind in OF_BATCHES.items() if name not in CLAIM_COLUMNS]
        no_claim = [
            nothing[kind].alias(f"claim_{name}") for name, kind in CLAIM_COLUMNS.items() if name not in OF_BATCHES
        ]
        producers = batches.where("producer_id >= 0")
        rows = producers.select(F.lit(True).alias("is_batch"), *both, *of_batches, *no_claim).unionByName(
            claims.select(F.lit(False).alias("is_batch"), *both, *no_batch, *of_claims)
        )
        tasks = max(TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism, count // ROWS_PER_TASK)
        key = ("topic", "partition", "producer_id")
        ordered = rows.repartition(tasks, *key).sortWithinPartitions(*key, "is_batch", "segment", "position")
        return self.stored("checked", ordered.mapInArrow(checks, ddl(CHECKED)))

    def timelines(self, states: DataFrame, txns: DataFrame, markers: int) -> dict[str, dict[str, float]]:
        """The table of all transactions, those of a producer in one piece; and percentiles of their steps."""

        levels = self.place.levels

        def join(states: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
            return timelines(states, txns.astype(TXN_COLUMNS), levels)

        records = states.where("problem is null").select(*TABLES["txnlog"])
        groups = self.groups_of_states(markers)
        both = self.grouped(records, groups, "producer_id").cogroup(self.grouped(txns, groups, "producer_id"))
        stored = self.kept("timelines", both.applyInPandas(join, ddl(TIMELINE_COLUMNS)))
        wanted = []
        for name, (first, last) in STEPS.items():
            known = (F.col(first) > 0) & (F.col(last) > 0)
            length = F.when(known, F.greatest(F.col(last) - F.col(first), F.lit(0)))
            parts = F.percentile_approx(length, [part / 100 for part in PERCENTILES])
            wanted += [parts.alias(name), F.max(length).alias(f"max {name}")]
        row = stored.agg(*wanted).first()
        assert row is not None
        return {
            name: {f"p{part}": float(value) for part, value in zip(PERCENTILES, row[name], strict=True)}
            | {"max": float(row[f"max {name}"])}
            for name in STEPS
            if row[name] is not None
        }

    def exchanged(self, lacking: pd.DataFrame, txns: DataFrame) -> dict[tuple[str, int], tuple[str, int]]:
        """Where markers that are missing are instead; only transactions of their producers come to the driver."""
        who = self.spark.createDataFrame(
            sorted(set(zip(lacking["producer_id"].tolist(), lacking["epoch"].tolist(), strict=True))),
            "producer_id bigint, marker_epoch int",
        )
        there = txns.where("undecided").join(F.broadcast(who), ["producer_id", "marker_epoch"])
        return exchanged(lacking, frame_of(there.select(*TXN_COLUMNS), TXN_COLUMNS))

    def group_offsets(self) -> GroupOffsets:
        """What groups have committed; each partition of their log by one task, which hands on one row a partition."""
        by_directory: dict[str, list[LogFile]] = {}
        for file in self.tree.of(FileKind.SEGMENT):
            if file.size and file.topic in LOGS_OF_GROUPS:
                by_directory.setdefault(str(Path(file.path).parent), []).append(file)
        if sum(file.size for files in by_directory.values() for file in files) <= SMALL_BYTES:
            return merged(map(read_group_offsets, by_directory.values()))
        context = self.spark.sparkContext
        tasks = context.parallelize(list(by_directory.values()), len(by_directory))
        return merged(tasks.map(read_group_offsets).collect())

    def compared(self) -> list[Problem]:
        """What replicas say of each other; each partition by one task."""
        several = self.place.several()
        if not several:
            return []
        everything = self.place.everything
        context = self.spark.sparkContext
        tasks = [
            (everything.of_replicas([one.path for one in (audited, *others)]), audited, others, self.place.memory)
            for audited, others in several
        ]
        compared = context.parallelize(tasks, min(len(tasks), GROUPS_PER_CORE * context.defaultParallelism))
        return compared.flatMap(lambda task: compare_replicas(*task)).collect()

    def coordinators(
        self, facts: DataFrame, tables: dict[str, pd.DataFrame], problems: list[Problem], twice: Twice, *, known: bool
    ) -> Coordinators:
        """As much of the coordinators' log as the verdicts ask for."""
        producers = sorted({int(one) for name in ("odd", "break", "allowed") for one in tables[name]["producer_id"]})
        last = (F.col("fact") == "last") & F.col("of_producer").isin(producers)
        rows = (
            facts.where(
                F.col("fact").isin("overdue", "stuck", "premature", "astray", "odd", "longest") | last
            ).collect()
            if known
            else []
        )
        astray = any(row["fact"] == "astray" for row in rows)
        return Coordinators(
            known,
            last={row["of_producer"]: record_of(row) for row in rows if row["fact"] == "last"},
            level_2=pairs(tables["level_2"]),
            missing=missing_coordinators(self.place, problems, astray=astray),
            astray=frozenset((row["partition"], row["transactional_id"]) for row in rows if row["fact"] == "astray"),
            shortened=shortened_coordinators(self.tree),
            longest_ms=max((row["age"] for row in rows if row["fact"] == "longest"), default=0),
            overdue=[(record_of(row), row["age"]) for row in rows if row["fact"] == "overdue"],
            stuck=[(record_of(row), row["age"]) for row in rows if row["fact"] == "stuck"],
            premature=[(record_of(row), row["age"]) for row in rows if row["fact"] == "premature"],
            odd=[
                (record_of(row), row["anomaly"], row["detail"])
                for row in rows
                if row["fact"] == "odd" and row["anomaly"] != SHARED
            ]
            + shared_on_spark(self.spark, facts, twice),
        )


def batched(rows: Iterator[Any], count: int) -> Iterator[list[Any]]:
    """So many at a time."""
    while some := list(islice(rows, count)):
        yield some


def counted(checked: DataFrame) -> DataFrame:
    """What the driver looks at: what is wrong, and of what is allowed a row for each kind and partition."""
    wrong = checked.where(~F.col("kind").isin(*_LARGE, "allowed"))
    of = ["kind", "topic", "partition", "anomaly"]
    others = [name for name in CHECKED if name not in of and name != "count"]
    first = F.min_by(F.struct(*others), F.struct(*FIRST)).alias("first")
    rows = checked.where(F.col("kind") == "allowed").groupBy(*of).agg(first, F.sum("count").alias("count"))
    return wrong.unionByName(rows.select(*of, "count", "first.*"))


def _problem(row: Mapping[str, Any]) -> Problem:
    return Problem(row["path"], row["position"], row["problem"], row["problem_detail"], row["problem_severity"])
