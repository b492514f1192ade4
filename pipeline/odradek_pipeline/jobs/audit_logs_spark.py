"""The same audit, spread over a Spark cluster: one pass over the logs, one grouping, verdicts on the driver.

What the driver holds grows with the number of files, of anomalies and of open transactions, not with the bytes: the
coordinators' log is folded, and files beside the segments are read, where the batches are. While Spark works the driver
asks it for little more than counts; what the verdicts are about is read from what the workers have written, when Spark
is not needed any more, so that the JVM's memory and that of the verdicts are not taken at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import IntegerType, LongType, ShortType

from odradek_pipeline.audit.progress import Progress, followed
from odradek_pipeline.audit.result import Result
from odradek_pipeline.directories.place import Place
from odradek_pipeline.directories.proof import Proof
from odradek_pipeline.directories.replicas import compare_replicas
from odradek_pipeline.groups.offsets import LOGS_OF_GROUPS, GroupOffsets, merged, read_group_offsets
from odradek_pipeline.jobs.audit_logs import (
    Evidence,
    audit_logs,
    conclude,
    coordinator_count,
    coordinators_now,
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
from odradek_pipeline.spark.applied import in_arrow, in_pandas, in_pandas_together
from odradek_pipeline.spark.audit import SparkAudit
from odradek_pipeline.spark.frames import (
    CHECKED,
    CHECKED_TABLES,
    FACTS,
    fact_frame,
    folded_states,
    pairs,
)
from odradek_pipeline.spark.growing import GrowingTable
from odradek_pipeline.spark.log_rows import SourceOptions
from odradek_pipeline.spark.log_tables import HEADERS, OF_COORDINATORS, TABLES, spark_schema, struct_of
from odradek_pipeline.spark.producer_checks import OF_BATCHES, Checks
from odradek_pipeline.spark.reading import HandedOn, read_audit
from odradek_pipeline.spark.totals import FAR, Totals, by_partition
from odradek_pipeline.spark.twice import Twice, look_twice, of_producers, shared_of, split_of
from odradek_pipeline.transactions.allowed import Explained, Partition, gaps_in, merged_allowed
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
STATE_BYTES = 150
"""About the size of a record of the coordinators' log."""
_CLAIMS_OF_FACTS = ("decision", "level_2")
_STATES = TABLES["txnlog"]
_FACTS = {**_STATES, **FACTS}
_OF_COORDINATORS = ("overdue", "stuck", "premature", "astray", "odd", "longest")
"""Facts that the verdicts ask for, beside the last ones of some producers."""


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
    ended: Callable[[], None] = lambda: None,
) -> Result:
    """Audit; the tables that grow with the logs are written by Spark below `out`. A task reads about `range_bytes`;
    None leaves that to the size of the logs. `ended` is called when Spark is not needed any more, before the verdicts.
    """
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
        ended=ended,
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
class _Gathered:
    """What is known when Spark has done its work; what it found lies in tables that workers have written."""

    scan: Scan
    groups: GroupOffsets
    totals: dict[tuple[str, int], Totals]
    proof: Proof
    twice: Twice
    delays_ms: dict[str, dict[str, float]]
    whole_since: int
    with_coordinators: bool
    """Whether their log is there."""
    edges: GrowingTable
    txns: GrowingTable
    checked: GrowingTable
    facts: GrowingTable


@dataclass(slots=True, kw_only=True)
class _Audit(SparkAudit):
    place: Place
    range_bytes: int
    check_crc: bool
    not_after: int | None
    state: Path | None
    ended: Callable[[], None]
    written: list[GrowingTable] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        """One replica of each partition."""
        return self.place.tree

    def judged(self) -> Result:
        with followed(self.spark, self.progress):
            gathered = self.gathered()
        self.ended()
        return self.concluded(gathered)

    def result(self) -> Result:
        return self.judged()

    def gathered(self) -> _Gathered:
        """What Spark is needed for."""
        # The directories may be those of a living broker: see `read_coordinators` for what is read when.
        self.step("reading")
        groups = self.group_offsets()
        before = coordinators_now(self.tree)
        decided, told = self.states("decided", directories_of(before))
        self.place = self.place.behind_decisions(self.state)
        scan = Scan(check_crc=self.check_crc, problems=list(self.tree.problems))
        partitions = sorted({Path(file.path).parent for file in self.tree.of(FileKind.SEGMENT)})
        scan.bytes_remembered = self.remembered()
        headers, edges = self.growing("batches", HEADERS), self.working("edges", HEADERS)
        read = self.read("audit", list(map(str, partitions)), headers, edges)
        scan.problems += read.problems
        totals = by_partition(read.totals)
        gaps = self.gaps(edges)
        cleaned = dict(self.tree.cleaned)
        self.place.find_gaps_of_cleaners(gaps)
        if self.tree.cleaned != cleaned:
            gaps = self.gaps(edges)
        batches = headers.rows(self.spark)
        scan.bytes_read = sum(file.size for file in self.tree.of(FileKind.SEGMENT)) - scan.bytes_remembered
        scan.batches = sum(of.batches for of in totals.values())
        self.step("folding coordinators")
        states = decided
        if coordinators_now(self.tree) != before:
            states, told = self.states("states", directories_of(before))
        known = set(scan.problems)
        scan.problems += [found for found in told if found not in known]
        clocks = (of.clock for of in totals.values() if of.clock >= 0)
        now = max(clocks, default=self.not_after or 0)
        written = {key: of.written for key, of in totals.items() if of.written >= 0}
        proof = self.place.proof(written)
        facts = self.facts(decided, states, now=now, until=proof.until())
        claims, wrong = self.claims()
        scan.problems += wrong
        ends = {key: of.end for key, of in totals.items()}
        beside = Beside.of(self.tree, ends, wrong, self.place.created, self.place.cut)
        self.step("checking transactions")
        explained = Explained(self.tree.starts(), self.tree.cleaned, gaps)
        tables = {kind: self.growing(name, CHECKED_TABLES[kind]) for kind, name in _LARGE.items()}
        times_of_coordinators = [of.oldest for key, of in totals.items() if key[0] == TRANSACTION_STATE]
        since = whole_since(self.place, min(times_of_coordinators, default=-1))
        checks = Checks(beside, explained, self.directories(), whole_since=since, tables=tables)
        self.check(batches, self.with_facts(claims.rows(self.spark), facts), checks, scan.batches)
        txns = tables["txn"].rows(self.spark)
        self.step("timelines")
        lengths = self.timelines(states, txns, sum(of.markers for of in totals.values()))
        scan.problems += self.compared()
        self.written = [headers, *tables.values()]
        return _Gathered(
            scan=scan,
            groups=groups,
            totals=totals,
            proof=proof,
            twice=look_twice(txns, facts if before else None),
            delays_ms=lengths,
            whole_since=since,
            with_coordinators=bool(before),
            edges=edges,
            txns=tables["txn"],
            checked=self.on_the_way("checked", CHECKED),
            facts=self.on_the_way("facts", _FACTS),
        )

    def concluded(self, of: _Gathered) -> Result:
        """The verdicts, by what workers have written."""
        for table in self.written:
            table.ended()
        found = found_by_checks(of.checked)
        of.scan.problems += problems_of(found["problem"])
        lacking, totals = found["lacking"], of.totals
        markers = zip(lacking["producer_id"].tolist(), lacking["epoch"].tolist(), strict=True)
        evidence = Evidence(
            found["odd"],
            found["break"],
            found["allowed"],
            real_jumps(frame_of(of.edges, _EDGES), self.tree.cleaned),
            lacking,
            split_of(of.txns, of.twice),
            {key: one.end for key, one in totals.items()},
            {key: one.newest for key, one in totals.items()},
            {key: (one.data, one.digest) for key, one in totals.items() if one.data},
            {key: one.producer for key, one in totals.items()},
            exchanged(lacking, of_producers(of.txns, markers)) if len(lacking) else {},
            of.groups,
            of.proof,
        )
        coordinators = self.coordinators(of, found)
        result = conclude(self.place, of.scan, evidence, coordinators, not_after=self.not_after)
        result.facts["delays_ms"] = of.delays_ms
        return result

    # ------------------------------------------------------------------ what is read

    def remembered(self) -> int:
        """How many bytes the workers will not read, since what is in them is known."""
        memory = self.place.memory
        if memory is None:
            return 0
        ranges = plan_ranges(self.tree.files, range_bytes=self.range_bytes)
        return sum(memory.known_bytes(part, checked=self.check_crc) for part in ranges)

    def read(
        self, table: str, partitions: list[str], into: GrowingTable, edges: GrowingTable | None = None
    ) -> HandedOn:
        """Have a table of the source `kafka_log` written."""
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
        return read_audit(self.spark, options, into, edges)

    def gaps(self, edges: GrowingTable) -> dict[Partition, NDArray[np.int64]]:
        """Before which offsets some are missing that compaction has not removed; a worker looks, for the edges of all
        ranges are more than is wrong with them."""
        tasks = self.spark.sparkContext.parallelize([edges], 1)
        (found,) = tasks.map(partial(gaps_of_edges, cleaned=self.tree.cleaned)).collect()
        return found

    def states(self, name: str, partitions: list[str]) -> tuple[DataFrame, list[Problem]]:
        """The coordinators' log, and what is wrong with it."""
        into = self.working(name, _STATES)
        found = self.read("states", partitions, into) if partitions else HandedOn()
        return into.rows(self.spark), found.problems

    def on_the_way(self, name: str, columns: Mapping[str, str]) -> GrowingTable:
        """What Spark has stored, as it is read without Spark."""
        return GrowingTable(str(self.work / f"{name}.parquet"), columns)

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

        rows = states.withColumn("late", F.lit(True))
        if not same:
            rows = rows.unionByName(decided.withColumn("late", F.lit(False)))
        grouped = self.grouped(rows, self.groups_of_states(), "transactional_id")
        return self.stored("facts", in_pandas(grouped, fold, spark_schema("txnlog", **FACTS)))

    # ------------------------------------------------------------------ evidence

    def claims(self) -> tuple[GrowingTable, list[Problem]]:
        """What the files beside the segments say of producers, and what is wrong with a file alone."""
        files = [file for file in self.tree.files if is_sidecar(file)]
        into = self.working("claims", CLAIM_COLUMNS)
        if not files:
            return into, []
        of_bytes = sum(file.size for file in files) // self.range_bytes + 1
        tasks = max(1, min(len(files), max(of_bytes, len(files) // FILES_PER_TASK + 1)))
        found = self.spark.sparkContext.parallelize(files, tasks).mapPartitions(partial(read_claims, into=into))
        return into, found.collect()

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

    def check(self, batches: DataFrame, claims: DataFrame, checks: Checks, count: int) -> None:
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
        self.stored("checked", in_arrow(ordered, checks, struct_of(CHECKED)))

    def timelines(self, states: DataFrame, txns: DataFrame, markers: int) -> dict[str, dict[str, float]]:
        """The table of all transactions, those of a producer in one piece; and percentiles of their steps."""

        levels = self.place.levels

        def join(states: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
            records = map(TransactionRecord.of_row, states.to_dict("records"))
            return timelines(records, txns.astype(TXN_COLUMNS), levels)

        records = states.select(*_STATES)
        groups = self.groups_of_states(markers)
        both = self.grouped(records, groups, "producer_id").cogroup(self.grouped(txns, groups, "producer_id"))
        stored = self.kept("timelines", in_pandas_together(both, join, struct_of(TIMELINE_COLUMNS)))
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

    def coordinators(self, of: _Gathered, found: Mapping[str, pd.DataFrame]) -> Coordinators:
        """As much of the coordinators' log as the verdicts ask for."""
        producers = {int(one) for name in ("odd", "break", "allowed") for one in found[name]["producer_id"]}
        wanted = pc.field("fact").isin(_OF_COORDINATORS)
        wanted |= (pc.field("fact") == "last") & pc.field("of_producer").isin(sorted(producers | set(of.twice.ids)))
        rows = (
            [row for frame in of.facts.frames(where=wanted) for row in frame.to_dict("records")]
            if of.with_coordinators
            else []
        )

        def told(fact: str) -> list[tuple[Any, TransactionRecord]]:
            return [(row, TransactionRecord.of_row(row)) for row in rows if row["fact"] == fact]

        last = [(row["of_producer"], record) for row, record in told("last")]
        astray = told("astray")
        return Coordinators(
            of.with_coordinators,
            last={producer_id: record for producer_id, record in last if producer_id in producers},
            level_2=pairs(found["level_2"]),
            missing=missing_coordinators(self.place, of.scan.problems, astray=bool(astray)),
            astray=frozenset((record.partition, record.transactional_id) for _, record in astray),
            shortened=shortened_coordinators(self.tree),
            longest_ms=max((row["age"] for row, _ in told("longest")), default=0),
            overdue=[(record, row["age"]) for row, record in told("overdue")],
            stuck=[(record, row["age"]) for row, record in told("stuck")],
            premature=[(record, row["age"]) for row, record in told("premature")],
            odd=[(record, row["anomaly"], row["detail"]) for row, record in told("odd") if row["anomaly"] != SHARED]
            + shared_of(last, of.twice),
            whole_since=of.whole_since,
        )


def directories_of(paths: Iterable[str]) -> list[str]:
    """The partitions that these segments are of."""
    return sorted({str(Path(path).parent) for path in paths})


def batched(rows: Iterator[Any], count: int) -> Iterator[list[Any]]:
    """So many at a time."""
    while some := list(islice(rows, count)):
        yield some


_EDGES = {name: kind for name, kind in BATCH_COLUMNS.items() if name in HEADERS} | {"last": "?"}


def frame_of(table: GrowingTable, columns: dict[str, str]) -> pd.DataFrame:
    """All of a table that workers have written."""
    frames = [frame.astype(columns) for frame in table.frames(*columns)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns)).astype(columns)


def gaps_of_edges(edges: GrowingTable, cleaned: Mapping[Partition, int]) -> dict[Partition, NDArray[np.int64]]:
    """See `_Audit.gaps`."""
    return gaps_in(real_jumps(frame_of(edges, _EDGES), cleaned))


def read_claims(listed: Iterable[LogFile], into: GrowingTable) -> Iterator[Problem]:
    """Have what files beside the segments say written; what is wrong with a file alone is handed on."""
    problems: list[Problem] = []
    with into.part() as part:
        for some in batched(iter(listed), FILES_PER_FRAME):
            claims = claims_of(read_sidecars(some), problems)
            if len(claims):
                part.add(pa.RecordBatch.from_pandas(claims, into.schema, preserve_index=False))
    yield from problems


def found_by_checks(checked: GrowingTable) -> dict[str, pd.DataFrame]:
    """What is wrong, by its kind; of what is allowed a row for each kind and partition."""
    rows: dict[str, list[pd.DataFrame]] = {kind: [] for kind in CHECKED_TABLES}
    for frame in checked.frames():
        for kind, some in frame.groupby("kind", sort=False):
            columns = CHECKED_TABLES[str(kind)]
            rows[str(kind)].append(some[list(columns)].astype(columns))
        rows["allowed"] = [merged_allowed(rows["allowed"])]
    found = {
        kind: pd.concat(some, ignore_index=True) if some else pd.DataFrame(columns=list(columns)).astype(columns)
        for (kind, columns), some in zip(CHECKED_TABLES.items(), rows.values(), strict=True)
    }
    return found | {"allowed": merged_allowed(rows["allowed"])}
