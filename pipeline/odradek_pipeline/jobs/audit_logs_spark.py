"""The same audit, spread over a Spark cluster: one pass over the logs, one grouping, verdicts on the driver.

What the driver holds grows with the number of files, of anomalies and of open transactions, not with the bytes: the
coordinators' log is folded, and files beside the segments are read, where the batches are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import IntegerType, LongType, ShortType

from odradek_pipeline.audit.progress import Progress
from odradek_pipeline.audit.result import Result
from odradek_pipeline.directories.place import Place
from odradek_pipeline.directories.replicas import compare_replicas
from odradek_pipeline.groups.offsets import LOGS_OF_GROUPS, GroupOffsets, merged, read_group_offsets
from odradek_pipeline.jobs.audit_logs import (
    Evidence,
    audit_logs,
    conclude,
    coordinator_count,
    coordinators_now,
    gaps_of,
    known_around,
    missing_coordinators,
    problems_of,
    real_jumps,
    shortened_coordinators,
    whole_since,
)
from odradek_pipeline.logs.files import absolute, registered
from odradek_pipeline.logs.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, Tree
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.logs.scan import plan_ranges
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import is_sidecar, read_sidecars
from odradek_pipeline.logs.times import Span
from odradek_pipeline.spark.audit import SparkAudit
from odradek_pipeline.spark.frames import (
    CHECKED,
    CHECKED_TABLES,
    FACTS,
    arrow_of,
    fact_frame,
    folded_states,
    frame_of,
    pairs,
    problem_rows,
    record_of,
    struct_of,
)
from odradek_pipeline.spark.growing import GrowingTable
from odradek_pipeline.spark.log_rows import SourceOptions
from odradek_pipeline.spark.log_tables import HEADERS, OF_COORDINATORS, PROBLEM, TABLES, arrow_schema, spark_schema
from odradek_pipeline.spark.producer_checks import OF_BATCHES, TABLES_CHECKED, Checks
from odradek_pipeline.spark.reading import planned
from odradek_pipeline.spark.session import runs_tasks
from odradek_pipeline.spark.totals import FAR, Totals, by_partition
from odradek_pipeline.spark.twice import Twice, look_twice, shared_on_spark, split_on_spark
from odradek_pipeline.transactions.allowed import FIRST, Explained, merged_allowed
from odradek_pipeline.transactions.checks import BATCH_COLUMNS, TXN_COLUMNS
from odradek_pipeline.transactions.coordinators import Coordinators
from odradek_pipeline.transactions.decisions import exchanged
from odradek_pipeline.transactions.sidecar_checks import CLAIM_COLUMNS, Beside, claims_of
from odradek_pipeline.transactions.steps import SHARED
from odradek_pipeline.transactions.timelines import PERCENTILES, STEPS, TIMELINE_COLUMNS, timelines

__all__ = ["audit_logs_on_spark"]

ROWS_PER_GROUP = 50_000
"""Of what a worker holds in one frame."""
ROWS_PER_TASK = 2_000_000
"""Of what a worker reads in its order."""
FILES_PER_TASK, FILES_PER_FRAME = 2_000, 200
TASKS_WANTED, READS_PER_CORE = 4_000, 8
TASK_BYTES_MIN, TASK_BYTES, TASK_BYTES_MAX = 128 << 20, 1 << 30, 16 << 30
TASKS_PER_CORE = 2
GROUPS_PER_CORE = 4
"""More groups than cores: they are spread by hashes, and differ in size."""
_LARGE = {"txn": "log_txns", "sequence": "sequences"}
"""Kinds of rows that workers write, and their tables."""
SMALL_BYTES = 1 << 20
"""What is read here rather than by a job, which would take longer to start."""
BESIDE_BYTES, BESIDE_BYTES_OF_PLANNER = 32 << 20, 4 << 20
"""The same of indexes and snapshots, which are read by columns: those of about 20 GB in batches of 16 KiB, and of 3 GB
where the driver only plans: 14 MiB of them take 60 MiB of its two processes."""
STATE_BYTES = 150
"""About the size of a record of the coordinators' log."""
_FILES = arrow_of(
    {"path": "object", "kind": "object", "topic": "object", "partition": "i4", "base_offset": "i8", "size": "i8"}
)
"""Frames for Spark are made of Arrow's tables: rows of Python would go through workers that are started for them."""
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
        range_bytes=range_bytes or bytes_of_tasks(place.tree, spark.sparkContext.defaultParallelism),
        check_crc=check_crc,
        not_after=not_after,
        state=state,
        partitioned=partitioned,
        progress=progress,
    )
    result = audit.run()
    audit.place.forget()
    return result


def bytes_of_tasks(tree: Tree, cores: int) -> int:
    """What a task reads: enough that there are some tasks for each core, as far as a task is not longer than a minute
    or so, and that a large cluster's logs are some thousand. A task streams, so that its memory does not grow with
    that; what is read again when an executor is lost does."""
    total = sum(file.size for file in tree.of(FileKind.SEGMENT))
    for_cores = min(total // (READS_PER_CORE * cores), TASK_BYTES)
    return min(max(for_cores, total // TASKS_WANTED, TASK_BYTES_MIN), TASK_BYTES_MAX)


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
        before = coordinators_now(self.tree)
        decided = self.states("decided", directories_of(before))
        self.place = self.place.behind_decisions(self.state)
        scan = Scan(check_crc=self.check_crc, problems=list(self.tree.problems))
        partitions = sorted({Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT)})
        scan.bytes_remembered = self.remembered()
        headers = self.growing("batches", arrow_schema(HEADERS))
        problems, edges, totals = self.problems_and_edges(self.read("audit", list(map(str, partitions)), headers))
        scan.problems += problems
        self.place.find_gaps_of_cleaners(gaps_of(real_jumps(edges, self.tree.cleaned)))
        headers.ended()
        batches = headers.rows(self.spark)
        scan.bytes_read = sum(file.size for file in self.tree.of(FileKind.SEGMENT)) - scan.bytes_remembered
        scan.batches = sum(of.batches for of in totals.values())
        markers = sum(of.markers for of in totals.values())
        self.step("folding coordinators")
        states = decided
        if coordinators_now(self.tree) != before:
            states = self.states("states", directories_of(before))
        clocks = (of.clock for of in totals.values() if of.clock >= 0)
        now = max(clocks, default=self.not_after or 0)
        written = {key: of.written for key, of in totals.items() if of.written >= 0}
        proof = self.place.proof(written)
        facts = self.facts(decided, states, now=now, until=proof.until())
        claims = self.claims()
        of_states, wrong = self.problems(states, claims)
        known = set(scan.problems)
        scan.problems += [found for found in of_states if found not in known] + wrong
        claims = claims.where(F.col("problem").isNull()).select(*CLAIM_COLUMNS)
        ends = {key: of.end for key, of in totals.items()}
        beside = Beside.of(self.tree, ends, wrong, self.place.created, self.place.cut)
        self.step("checking transactions")
        jumps = real_jumps(edges, self.tree.cleaned)
        explained = Explained.of(self.tree.starts(), self.tree.cleaned, jumps)
        tables = {kind: self.growing(name, TABLES_CHECKED[kind]) for kind, name in _LARGE.items()}
        times_of_coordinators = [of.oldest for key, of in totals.items() if key[0] == TRANSACTION_STATE]
        since = whole_since(self.place, min(times_of_coordinators, default=-1))
        checks = Checks(beside, explained, self.directories(), whole_since=since, tables=tables)
        checked = self.checked(batches, self.with_facts(claims, facts), checks, scan.batches)
        for table in tables.values():
            table.ended()
        txns = tables["txn"].rows(self.spark)
        small = frame_of(counted(checked), CHECKED)
        found = {kind: small[small["kind"] == kind][list(of)] for kind, of in CHECKED_TABLES.items()}
        scan.problems += problems_of(found["problem"])
        self.step("timelines")
        lengths = self.timelines(states, txns, markers)
        scan.problems += self.compared()
        twice = look_twice(txns, facts if before else None)
        split = split_on_spark(self.spark, txns, twice)
        times = {key: of.newest for key, of in totals.items()}
        digests = {key: (of.data, of.digest) for key, of in totals.items() if of.data}
        producers = {key: of.producer for key, of in totals.items()}
        lacking = found["lacking"]
        elsewhere = self.exchanged(lacking, txns) if len(lacking) else {}
        evidence = Evidence(
            found["odd"],
            found["break"],
            merged_allowed([found["allowed"]]),
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
        coordinators = self.coordinators(facts, found, scan.problems, twice, known=bool(before))
        coordinators.whole_since = since
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

    def read(self, table: str, partitions: list[str], into: GrowingTable | None = None) -> DataFrame:
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
            self.tree.cleaned,
            FAR if self.not_after is None else self.not_after,
        )
        return planned(self.spark, options, into)

    def problems(self, *tables: DataFrame) -> list[list[Problem]]:
        """Those of each table."""
        names = [F.col(name) for name in ("path", "position", *PROBLEM)]
        parts = [
            rows.where(F.col("problem").isNotNull()).select(F.lit(place).alias("place"), *names)
            for place, rows in enumerate(tables)
        ]
        found: list[list[Problem]] = [[] for _ in tables]
        for row in reduce(DataFrame.unionByName, parts).collect():
            found[row["place"]].append(_problem(row.asDict()))
        return found

    def problems_and_edges(self, rows: DataFrame) -> tuple[list[Problem], pd.DataFrame, dict[tuple[str, int], Totals]]:
        """What could not be read; edges of ranges, and jumps inside them that compaction does not explain; totals.

        Nothing else of the batches comes to the driver.
        """
        columns = [*(name for name in BATCH_COLUMNS if name in TABLES["audit"]), "last"]
        found = rows.select(*columns, "totals", *PROBLEM).toArrow()
        counts = found.filter(pc.is_valid(found["totals"])).select(["topic", "partition", "totals"]).to_pylist()
        totals = by_partition((row["topic"], row["partition"], row["totals"]) for row in counts)
        found = found.filter(pc.is_null(found["totals"]))
        is_edge = pc.is_null(found["problem"])
        edges = found.filter(is_edge).select(columns).to_pandas().astype({**BATCH_COLUMNS, "last": "?"})
        return [_problem(row) for row in found.filter(pc.invert(is_edge)).to_pylist()], edges, totals

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

        rows = states.where(F.col("problem").isNull()).withColumn("late", F.lit(True))
        if not same:
            rows = rows.unionByName(decided.where(F.col("problem").isNull()).withColumn("late", F.lit(False)))
        grouped = self.grouped(rows, self.groups_of_states(), "transactional_id")
        return self.stored("facts", grouped.applyInPandas(fold, spark_schema("txnlog", **FACTS)))

    # ------------------------------------------------------------------ evidence

    def claims(self) -> DataFrame:
        """What the files beside the segments say of producers, and problems: what is wrong with a file alone."""
        files = [file for file in self.tree.files if is_sidecar(file)]
        columns = CLAIM_COLUMNS | dict.fromkeys(PROBLEM, "object")
        here_bytes = BESIDE_BYTES if runs_tasks(self.spark.sparkContext.master) else BESIDE_BYTES_OF_PLANNER
        if len(files) <= FILES_PER_TASK and sum(file.size for file in files) <= here_bytes:
            noted: list[Problem] = []
            made = claims_of(read_sidecars(files), noted).assign(**dict.fromkeys(PROBLEM))
            both = pd.concat([made, problem_rows(noted, columns)]) if noted else made
            return self.spark.createDataFrame(pa.Table.from_pandas(both, arrow_of(columns), preserve_index=False))
        of_bytes = sum(file.size for file in files) // self.range_bytes + 1
        tasks = max(1, min(len(files), max(of_bytes, len(files) // FILES_PER_TASK + 1)))

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

        rows = [(file.path, str(file.kind), file.topic, file.partition, file.base_offset, file.size) for file in files]
        by_column = zip(*rows, strict=True)
        listed = self.spark.createDataFrame(pa.table(list(map(pa.array, by_column, _FILES.types)), _FILES))
        listed = listed.repartition(tasks)
        return self.stored("claims", listed.mapInPandas(read, struct_of(columns)))

    def with_facts(self, claims: DataFrame, facts: DataFrame) -> DataFrame:
        """What a coordinator says of a transaction is a claim about each of its partitions."""
        named = F.col("named")
        columns = {
            "topic": F.regexp_extract(named, r"^(.*)-(\d+)$", 1),
            "partition": F.regexp_extract(named, r"^(.*)-(\d+)$", 2).cast(IntegerType()),
            "source": F.col("fact"),
            "upto": F.col("age"),
            "epoch": F.col("producer_epoch"),
            "first_offset": F.col("offset"),
            "last_offset": F.col("last_update"),
            "last_sequence": (F.col("state") == "PrepareCommit").cast(LongType()),
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
        nothing = {
            "object": F.lit(""),
            "i2": F.lit(-1).cast(ShortType()),
            "i4": F.lit(-1),
            "i8": F.lit(-1).cast(LongType()),
        }
        no_batch = [nothing[kind].alias(name) for name, kind in OF_BATCHES.items() if name not in CLAIM_COLUMNS]
        no_claim = [
            nothing[kind].alias(f"claim_{name}") for name, kind in CLAIM_COLUMNS.items() if name not in OF_BATCHES
        ]
        producers = batches.where(F.col("producer_id") >= 0)
        rows = producers.select(F.lit(True).alias("is_batch"), *both, *of_batches, *no_claim).unionByName(
            claims.select(F.lit(False).alias("is_batch"), *both, *no_batch, *of_claims)
        )
        tasks = max(TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism, count // ROWS_PER_TASK)
        key = ("topic", "partition", "producer_id")
        ordered = rows.repartition(tasks, *key).sortWithinPartitions(*key, "is_batch", "segment", "position")
        return self.stored("checked", ordered.mapInArrow(checks, struct_of(CHECKED)))

    def timelines(self, states: DataFrame, txns: DataFrame, markers: int) -> dict[str, dict[str, float]]:
        """The table of all transactions, those of a producer in one piece; and percentiles of their steps."""

        levels = self.place.levels

        def join(states: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
            records = map(TransactionRecord.of_row, states.to_dict("records"))
            return timelines(records, txns.astype(TXN_COLUMNS), levels)

        records = states.where(F.col("problem").isNull()).select(*TABLES["txnlog"])
        groups = self.groups_of_states(markers)
        both = self.grouped(records, groups, "producer_id").cogroup(self.grouped(txns, groups, "producer_id"))
        stored = self.kept("timelines", both.applyInPandas(join, struct_of(TIMELINE_COLUMNS)))
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
            struct_of({"producer_id": "i8", "marker_epoch": "i4"}),
        )
        there = txns.where(F.col("undecided")).join(F.broadcast(who), ["producer_id", "marker_epoch"])
        return exchanged(lacking, frame_of(there.select(*TXN_COLUMNS), TXN_COLUMNS))

    def group_offsets(self) -> GroupOffsets:
        """What groups have committed; each partition of their log by one task, which hands on one row a partition."""
        by_directory: dict[str, list[LogFile]] = {}
        for file in self.tree.of(FileKind.SEGMENT):
            if file.size and file.topic in LOGS_OF_GROUPS:
                by_directory.setdefault(str(Path(file.path).parent), []).append(file)
        cleaned = {key: upto for key, upto in self.tree.cleaned.items() if key[0] in LOGS_OF_GROUPS}
        if sum(file.size for files in by_directory.values() for file in files) <= SMALL_BYTES:
            return merged(read_group_offsets(files, cleaned) for files in by_directory.values())
        context = self.spark.sparkContext
        tasks = context.parallelize(list(by_directory.values()), len(by_directory))
        return merged(tasks.map(partial(read_group_offsets, cleaned=cleaned)).collect())

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


def directories_of(paths: Iterable[str]) -> list[str]:
    """The partitions that these segments are of."""
    return sorted({str(Path(path).parent) for path in paths})


def batched(rows: Iterator[Any], count: int) -> Iterator[list[Any]]:
    """So many at a time."""
    while some := list(islice(rows, count)):
        yield some


def counted(checked: DataFrame) -> DataFrame:
    """What the driver looks at: what is wrong, and of what is allowed a row for each kind and partition."""
    wrong = checked.where(F.col("kind") != "allowed")
    of = ["kind", "topic", "partition", "anomaly"]
    others = [name for name in CHECKED if name not in of and name != "count"]
    first = F.min_by(F.struct(*others), F.struct(*FIRST)).alias("first")
    rows = checked.where(F.col("kind") == "allowed").groupBy(*of).agg(first, F.sum("count").alias("count"))
    return wrong.unionByName(rows.select(*of, "count", "first.*"))


def _problem(row: Mapping[str, Any]) -> Problem:
    return Problem(row["path"], row["position"], row["problem"], row["problem_detail"], row["problem_severity"])
