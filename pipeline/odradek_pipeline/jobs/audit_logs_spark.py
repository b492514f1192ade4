"""The same audit, spread over a Spark cluster: one pass over the logs, one grouping, verdicts on the driver.

What the driver holds grows with the number of files, of anomalies and of open transactions, not with the bytes: the
coordinators' log is folded, and files beside the segments are read, where the batches are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.coordinators import Coordinators, shared
from odradek_pipeline.decisions import exchanged
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
from odradek_pipeline.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, Tree, find_files
from odradek_pipeline.log_checks import BATCH_COLUMNS, TXN_COLUMNS, split_outcomes
from odradek_pipeline.log_tables import TABLES, spark_schema
from odradek_pipeline.payload import TransactionRecord
from odradek_pipeline.place import Place
from odradek_pipeline.progress import Progress
from odradek_pipeline.replicas import compare_replicas
from odradek_pipeline.result import Result
from odradek_pipeline.scan import Scan, plan_ranges
from odradek_pipeline.sidecar_checks import CLAIM_COLUMNS, Beside, claims_of
from odradek_pipeline.sidecars import is_sidecar, read_sidecars
from odradek_pipeline.steps import SHARED, Told
from odradek_pipeline.timelines import PERCENTILES, STEPS, TIMELINE_COLUMNS, timelines
from odradek_pipeline.times import Span

__all__ = ["audit_logs_on_spark", "read_logs"]

STATES_PER_GROUP = 50_000
TASKS_PER_CORE = 2
GROUPS_PER_CORE = 4
"""More groups than cores: they are spread by hashes, and differ in size."""
_LARGE = ("txn", "sequence")
FAR = (1 << 63) - 1
STATE_BYTES = 150
"""About the size of a record of the coordinators' log."""
_CLAIMS_OF_FACTS = ("decision", "level_2")


def read_logs(
    spark: SparkSession,
    directories: Iterable[str | Path],
    *,
    table: str = "batches",
    topics: Iterable[str] = (),
    **options: str,
) -> DataFrame:
    """A table of the source `kafka_log`, with filters pushed down where the session allows it."""
    pushdown = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") or "false"
    reader = (
        spark.read.format("kafka_log")
        .option("table", table)
        .option("pushdown", pushdown)
        .option("topics", ",".join(topics))
    )
    return reader.options(**options).load([str(Path(directory).absolute()) for directory in directories])


def audit_logs_on_spark(
    spark: SparkSession,
    directories: Iterable[str | Path],
    out: Path,
    *,
    topics: Iterable[str] = (),
    range_bytes: int = 128 << 20,
    check_crc: bool = False,
    not_after: int | None = None,
    state: Path | None = None,
    span: Span | None = None,
    partitioned: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Audit; the tables that grow with the logs are written by Spark below `out`."""
    began = time.perf_counter()
    directories = [Path(directory).absolute() for directory in directories]
    state = state.absolute() if state is not None else None
    place = Place.of(directories, topics, state=state, span=span)
    if not place.tree.of(FileKind.SEGMENT):
        return audit_logs(directories, topics=topics, check_crc=check_crc, not_after=not_after)
    out.mkdir(parents=True, exist_ok=True)
    audit = _Audit(
        spark=spark,
        out=out.absolute(),
        began=began,
        place=place,
        range_bytes=range_bytes,
        check_crc=check_crc,
        not_after=not_after,
        partitioned=partitioned,
        progress=progress,
    )
    result = audit.run()
    place.forget()
    return result


@dataclass(slots=True, kw_only=True)
class _Audit(SparkAudit):
    place: Place
    range_bytes: int
    check_crc: bool
    not_after: int | None

    @property
    def tree(self) -> Tree:
        """One replica of each partition."""
        return self.place.tree

    def result(self) -> Result:
        scan = Scan(problems=list(self.tree.problems))
        partitions = sorted({Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT)})
        # The directories may be those of a living broker: see `read_coordinators` for what is read when.
        self.step("reading")
        before = self.states_directories()
        decided = self.states("decided", list(before))
        options = {"rangeBytes": str(self.range_bytes), "checkCrc": str(self.check_crc).lower()}
        if self.place.memory is not None:
            options["state"] = str(self.place.memory.folder)
        span = self.place.span
        options |= {name: str(at) for name, at in (("since", span.since), ("until", span.until)) if at is not None}
        scan.bytes_remembered = self.remembered()
        rows = read_logs(self.spark, partitions, table="audit", **options)
        stored = self.kept("batches", rows)
        scan.problems += self.problems(stored)
        batches = stored.where("problem is null")
        limit = FAR if self.not_after is None else self.not_after
        data = (F.col("producer_id") >= 0) & (F.col("marker_type") < 0) & (F.col("record_count") > 0)
        of_partitions = batches.groupBy("topic", "partition").agg(
            F.max("last_offset").alias("end"),
            F.max("max_timestamp").alias("newest"),
            F.max(F.when(F.col("max_timestamp") <= limit, F.col("max_timestamp"))).alias("clock"),
            F.max("producer_id").alias("producer"),
            F.count("*").alias("rows"),
            F.count_if(data).alias("data"),
            F.bit_xor(F.when(data, F.xxhash64("base_offset", "crc"))).alias("digest"),
        )
        totals = of_partitions.collect()
        scan.bytes_read = sum(file.size for file in self.tree.of(FileKind.SEGMENT)) - scan.bytes_remembered
        scan.batches = sum(row["rows"] for row in totals)
        self.step("folding coordinators")
        states = decided
        if self.states_directories() != before:
            states = self.states("states", list(before))
        known = set(scan.problems)
        scan.problems += [found for found in self.problems(states) if found not in known]
        clocks = (row["clock"] for row in totals if row["clock"] is not None)
        now = max(clocks, default=self.not_after or 0)
        facts = self.facts(decided, states, now=now)
        claims, wrong = self.claims()
        scan.problems += wrong
        ends = {(row["topic"], row["partition"]): row["end"] for row in totals}
        beside = Beside.of(self.tree, ends, wrong, self.place.created, self.place.cut)
        self.step("checking transactions")
        checked = self.checked(batches, self.with_facts(claims, facts), beside)
        txns, _ = (
            self.kept(name, checked.where(F.col("kind") == kind).select(*CHECKED_TABLES[kind]))
            for name, kind in (("log_txns", "txn"), ("sequences", "sequence"))
        )
        small = frame_of(checked.where(~F.col("kind").isin(*_LARGE)), CHECKED)
        tables = {kind: small[small["kind"] == kind][list(of)] for kind, of in CHECKED_TABLES.items()}
        scan.problems += problems_of(tables["problem"])
        self.step("timelines")
        lengths = self.timelines(states, txns)
        scan.problems += self.compared()
        jumps, split = self.jumps(batches), self.split(txns)
        times = {(row["topic"], row["partition"]): row["newest"] for row in totals}
        digests = {(row["topic"], row["partition"]): (row["data"], row["digest"]) for row in totals if row["data"]}
        producers = {(row["topic"], row["partition"]): row["producer"] for row in totals}
        lacking = tables["lacking"]
        elsewhere = self.exchanged(lacking, txns) if len(lacking) else {}
        evidence = Evidence(
            tables["odd"], tables["break"], jumps, lacking, split, ends, times, digests, producers, elsewhere
        )
        coordinators = self.coordinators(facts, tables, scan.problems, known=bool(before))
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

    def problems(self, stored: DataFrame) -> list[Problem]:
        rows = stored.where("problem is not null")
        return [
            Problem(*row)
            for row in rows.select("path", "position", "problem", "problem_detail", "problem_severity").collect()
        ]

    def states_directories(self) -> dict[str, list[LogFile]]:
        """The partitions of the coordinators' log, and their segments as they are now."""
        wanted = {Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
        return {str(path): find_files([path]).of(FileKind.SEGMENT) for path in sorted(wanted)}

    def states(self, name: str, partitions: list[str]) -> DataFrame:
        if not partitions:
            return self.spark.createDataFrame([], spark_schema("states"))
        return self.stored(name, read_logs(self.spark, partitions, table="states"))

    def groups(self, rows: int, rows_per_group: int) -> int:
        return max(rows // rows_per_group + 1, GROUPS_PER_CORE * self.spark.sparkContext.defaultParallelism)

    def grouped(self, rows: DataFrame, groups: int, *keys: str) -> Any:
        return rows.groupBy(F.pmod(F.xxhash64(*keys), F.lit(groups)).alias("bucket"))

    # ------------------------------------------------------------------ coordinators

    def facts(self, decided: DataFrame, states: DataFrame, *, now: int) -> DataFrame:
        """The coordinators' log, folded by transactional id."""
        same = decided is states
        count, levels, around = coordinator_count(self.place), self.place.levels, known_around(self.place)

        def fold(frame: pd.DataFrame) -> pd.DataFrame:
            ordered = frame.sort_values(["partition", "path", "position", "offset"], kind="stable")
            late = folded_states(ordered[ordered["late"]], now, levels, around)
            early = late if same else folded_states(ordered[~ordered["late"]], now, levels)
            return fact_frame(late, early, count)

        rows = states.where("problem is null").withColumn("late", F.lit(True))
        if not same:
            rows = rows.unionByName(decided.where("problem is null").withColumn("late", F.lit(False)))
        held = sum(file.size for file in self.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE))
        groups = self.groups(held // STATE_BYTES, STATES_PER_GROUP)
        grouped = self.grouped(rows, groups, "transactional_id")
        return self.stored("facts", grouped.applyInPandas(fold, spark_schema("txnlog", **FACTS)))

    # ------------------------------------------------------------------ evidence

    def claims(self) -> tuple[DataFrame, list[Problem]]:
        """What the files beside the segments say of producers, and what is wrong with one of them alone."""
        files = [file for file in self.tree.files if is_sidecar(file)]
        schema = "path string, kind string, topic string, partition int, base_offset bigint, size bigint"
        rows = [(file.path, str(file.kind), file.topic, file.partition, file.base_offset, file.size) for file in files]
        tasks = max(1, min(len(rows), sum(file.size for file in files) // self.range_bytes + 1))
        columns = CLAIM_COLUMNS | {"problem": "object", "severity": "object", "detail": "object"}

        def read(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for frame in frames:
                for row in frame.itertuples(index=False):
                    file = LogFile(row.path, FileKind(row.kind), row.topic, row.partition, row.base_offset, row.size)
                    problems: list[Problem] = []
                    yield claims_of(read_sidecars([file]), problems).assign(problem=None, severity=None, detail=None)
                    if problems:
                        yield problem_rows(problems, columns)

        listed = self.spark.createDataFrame(rows, schema).repartition(tasks)
        stored = self.stored("claims", listed.mapInPandas(read, ddl(columns)))
        wrong = stored.where("problem is not null").select("path", "position", "problem", "detail", "severity")
        return stored.where("problem is null").select(*CLAIM_COLUMNS), [Problem(*row) for row in wrong.collect()]

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

    def checked(self, batches: DataFrame, claims: DataFrame, beside: Beside) -> DataFrame:
        """Transactions, sequences, and what is wrong with either: of each producer its claims, then its batches."""
        directories = {
            (file.topic, file.partition): str(Path(file.path).parent) for file in self.tree.of(FileKind.SEGMENT)
        }
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
        tasks = TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism
        key = ("topic", "partition", "producer_id")
        ordered = rows.repartition(tasks, *key).sortWithinPartitions(*key, "is_batch", "segment", "position")
        return self.stored("checked", ordered.mapInArrow(Checks(beside, directories), ddl(CHECKED)))

    def jumps(self, batches: DataFrame) -> pd.DataFrame:
        """Only edges of ranges, and jumps inside them that compaction does not explain, come to the driver."""
        columns = [*(name for name in BATCH_COLUMNS if name in TABLES["audit"]), "last"]
        edges = batches.where("jump or last").select(*columns)
        if self.tree.cleaned:
            upto = [
                (topic, partition, (1 << 63) - 1 if topic.startswith("__") and offset > 0 else offset)
                for (topic, partition), offset in self.tree.cleaned.items()
            ]
            cleaned = self.spark.createDataFrame(upto, "topic string, partition int, upto bigint")
            inside = "not last and previous_offset >= 0 and base_offset > previous_offset and base_offset < upto"
            edges = edges.join(F.broadcast(cleaned), ["topic", "partition"], "left").where(
                f"upto is null or not ({inside})"
            )
        return real_jumps(frame_of(edges.select(*columns), {**BATCH_COLUMNS, "last": "?"}), self.tree.cleaned)

    def timelines(self, states: DataFrame, txns: DataFrame) -> dict[str, dict[str, float]]:
        """The table of all transactions, those of a producer in one piece; and percentiles of their steps."""

        levels = self.place.levels

        def join(states: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
            return timelines(states, txns.astype(TXN_COLUMNS), levels)

        records = states.where("problem is null").select(*TABLES["txnlog"])
        groups = self.groups(records.count(), STATES_PER_GROUP)
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

    def split(self, txns: DataFrame) -> pd.DataFrame:
        """The transactions with both outcomes: see `split_outcomes`, which looks at what this leaves."""
        key = ["producer_id", "marker_epoch"]
        bumped = txns.where("marker_offset >= 0 and batches > 0 and marker_epoch = epoch + 1")
        both = bumped.groupBy(*key).agg(F.countDistinct("outcome").alias("outcomes")).where("outcomes > 1")
        return split_outcomes(frame_of(bumped.join(F.broadcast(both), key).select(*TXN_COLUMNS), TXN_COLUMNS))

    def exchanged(self, lacking: pd.DataFrame, txns: DataFrame) -> dict[tuple[str, int], tuple[str, int]]:
        """Where markers that are missing are instead; only transactions of their producers come to the driver."""
        who = self.spark.createDataFrame(
            sorted(set(zip(lacking["producer_id"].tolist(), lacking["epoch"].tolist(), strict=True))),
            "producer_id bigint, marker_epoch int",
        )
        there = txns.where("undecided").join(F.broadcast(who), ["producer_id", "marker_epoch"])
        return exchanged(lacking, frame_of(there.select(*TXN_COLUMNS), TXN_COLUMNS))

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
        self, facts: DataFrame, tables: dict[str, pd.DataFrame], problems: list[Problem], *, known: bool
    ) -> Coordinators:
        """As much of the coordinators' log as the verdicts ask for."""
        producers = sorted({int(one) for name in ("odd", "break") for one in tables[name]["producer_id"]})
        last = (F.col("fact") == "last") & F.col("of_producer").isin(producers)
        rows = (
            facts.where(F.col("fact").isin("overdue", "stuck", "premature", "astray", "odd") | last).collect()
            if known
            else []
        )
        astray = any(row["fact"] == "astray" for row in rows)
        return Coordinators(
            known,
            last={row["of_producer"]: record_of(row) for row in rows if row["fact"] == "last"},
            level_2=pairs(tables["level_2"]),
            missing=missing_coordinators(self.place, problems, astray=astray),
            shortened=shortened_coordinators(self.tree),
            overdue=[(record_of(row), row["age"]) for row in rows if row["fact"] == "overdue"],
            stuck=[(record_of(row), row["age"]) for row in rows if row["fact"] == "stuck"],
            premature=[(record_of(row), row["age"]) for row in rows if row["fact"] == "premature"],
            odd=[
                (record_of(row), row["anomaly"], row["detail"])
                for row in rows
                if row["fact"] == "odd" and row["anomaly"] != SHARED
            ]
            + (self.shared(facts) if known else []),
        )

    def shared(self, facts: DataFrame) -> list[Told]:
        """Producer ids of several transactional ids, which were folded in different places."""
        last = facts.where("fact = 'last'")
        several = last.groupBy("of_producer").agg(F.countDistinct("transactional_id").alias("ids")).where("ids > 1")
        held: dict[int, list[TransactionRecord]] = {}
        for row in last.join(F.broadcast(several), "of_producer").collect():
            held.setdefault(row["of_producer"], []).append(record_of(row))
        return [
            shared(producer_id, one, other) for producer_id, of in sorted(held.items()) for one, other in pairwise(of)
        ]
