"""The pipeline's commands: `odradek scan`, `odradek audit …`, `odradek copy`, `odradek report`."""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from odradek.commands import Argument, Commands, Option
from odradek.usage import UsageError
from odradek_pipeline.needs import need
from odradek_pipeline.watch.command import CommandConfig, watch

if TYPE_CHECKING:
    import pandas as pd

    from odradek_pipeline.result import Result
    from odradek_pipeline.summary import ScanSummary

__all__ = ["add_commands"]

Directories = Annotated[
    list[str],
    Argument(metavar="DIR", help="Kafka log directories, or directories of partitions; s3://… and the like too."),
]
Stage = Annotated[
    Path | None, Option(help="Folder for copies of what is in a store; kept, so that only what is new is fetched.")
]
Out = Annotated[Path, Option(help="Folder for the tables (Parquet) and summary.json.")]
MASTERS = "Spark master: local[*], spark://HOST:PORT, yarn, …; submit: as spark-submit says"
Master = Annotated[str, Option(help=f"{MASTERS}.")]
AuditMaster = Annotated[str, Option(help=f"{MASTERS}; none: without Spark.")]
BAD = 1
SHOWN_MAX = 20


def add_commands(commands: Commands) -> None:
    """Put the commands of the pipeline beside those of the broker."""
    commands.add("scan", scan)
    commands.add("audit logs", audit_logs_command)
    commands.add("audit history", audit_history_command)
    commands.add("audit events", audit_events_command)
    commands.add("audit all", audit_all_command)
    commands.add("watch", watch)
    commands.add("copy", copy)
    commands.add("report", report)


def scan(
    directories: Directories,
    check_crc: Annotated[bool, Option(help="Read every byte and compare checksums.")] = False,
    topic: Annotated[list[str] | None, Option(help="Only these topics.")] = None,
    as_json: Annotated[bool, Option(name="--json", help="Print JSON instead of a table.")] = False,
    stage: Stage = None,
) -> None:
    """Read log directories: partitions, producers, transactions, and what is broken; exit code 1 if anything is."""
    need("numpy", "rich")
    from odradek_pipeline.preflight import check_log_directories
    from odradek_pipeline.stores import fetched
    from odradek_pipeline.summary import scan_directories

    with fetched(directories, topic or (), stage=stage) as here:
        check_log_directories(here, topic or ())
        summary = scan_directories(here, check_crc=check_crc, topics=topic or ())
    if as_json:
        print(json.dumps(summary.as_json(), indent=2))
    else:
        _print_scan(summary)
    raise SystemExit(BAD if summary.is_bad else 0)


def _print_scan(summary: ScanSummary) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(box=None, header_style="bold")
    for heading in (
        "partition",
        "segments",
        "bytes",
        "batches",
        "records",
        "offsets",
        "producers",
        "commits",
        "aborts",
    ):
        table.add_column(heading, justify="left" if heading == "partition" else "right")
    for row in summary.partitions:
        offsets = f"{row.first_offset}–{row.last_offset}" if row.batches else "–"
        cells = (
            row.segments,
            f"{row.bytes:,}",
            f"{row.batches:,}",
            f"{row.records:,}",
            offsets,
            row.producers,
            row.commits,
            row.aborts,
        )
        table.add_row(f"{row.topic}-{row.partition}", *map(str, cells))
    console.print(table)
    rate = summary.bytes / summary.seconds / 1e6 if summary.seconds else 0.0
    checked = "checksums compared" if summary.crc_checked else "checksums not compared"
    console.print(
        f"{summary.files} files, {summary.bytes:,} bytes of batches in {summary.seconds:.2f} s "
        f"({rate:,.0f} MB/s), {checked}"
    )
    if summary.transactions:
        console.print(
            "transactional ids: "
            + ", ".join(f"{count} {state}" for state, count in sorted(summary.transactions.items()))
        )
    for found in summary.problems:
        console.print(
            f"{found.severity}: {found.problem} {found.path} at {found.position}: {found.detail}",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    if not summary.problems:
        console.print("no problems")


def audit_logs_command(
    directories: Directories,
    out: Annotated[
        str, Option(help="Folder for the tables (Parquet) and summary.json; s3://… and the like too.")
    ] = "audit",
    master: AuditMaster = "local[*]",
    topic: Annotated[
        list[str] | None,
        Option(help="Only these topics; without __transaction_state nothing can be said to hang."),
    ] = None,
    range_mb: Annotated[int, Option(min=1, help="Bytes that a task reads, in MiB.")] = 128,
    check_crc: Annotated[
        bool,
        Option(help="Compare all checksums; without it, those of segments not closed cleanly."),
    ] = False,
    state: Annotated[
        Path | None,
        Option(help="Folder where audits remember sealed segments, so that only what is new is read."),
    ] = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Without segments that end before: 24h, 7d, or 2026-11-22T06:00.")
    ] = None,
    stage: Stage = None,
) -> None:
    """Transactions that hang, markers, epochs and sequences, from log directories; exit code 1 on anything bad."""
    need("numpy", "pandas", "pyarrow")
    from odradek_pipeline.preflight import check_folder, check_log_directories, check_master
    from odradek_pipeline.stores import fetched, is_far, placed
    from odradek_pipeline.times import since_ms

    if master != "none":
        need("pyspark", extra="pipeline")
        check_master(master)
    if stage is None and any(map(is_far, directories)) and (state is not None or not _is_here(master)):
        raise UsageError("What is in a store is copied first: name a --stage that stays, and that workers share.")
    topics, now = tuple(topic or ()), time.time_ns() // 1_000_000
    options = _LogOptions(topics, check_crc, state, since_ms(since, now) if since is not None else None)
    with placed(out) as folder, fetched(directories, topics, stage=stage) as here:
        check_log_directories(here, topics)
        check_folder(folder)
        if master == "none":
            from odradek_pipeline.jobs.audit_logs import audit_logs

            result = audit_logs(here, not_after=now, **asdict(options))
        else:
            result = _on_spark(here, folder, master, range_mb << 20, options)
        _finish(result, folder, told=out)


@dataclass(frozen=True, slots=True)
class _LogOptions:
    """What both ways of the audit take."""

    topics: tuple[str, ...]
    check_crc: bool
    state: Path | None
    since: int | None


def _is_here(master: str) -> bool:
    """Whether all of the audit is done on this machine."""
    return master == "none" or master.startswith("local")


def _on_spark(directories: list[Path], out: Path, master: str, range_bytes: int, options: _LogOptions) -> Result:
    from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
    from odradek_pipeline.preflight import spark_troubles
    from odradek_pipeline.session import spark_session

    with spark_troubles():
        spark = spark_session(None if master == "submit" else master, name="odradek audit logs")
        try:
            return audit_logs_on_spark(spark, directories, out, range_bytes=range_bytes, **asdict(options))
        finally:
            spark.stop()


def audit_history_command(
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Client histories in Jepsen's operation format, JSON lines.")
    ],
    out: Out = Path("audit"),
) -> None:
    """What clients saw, against what was acknowledged to them; exit code 1 on anything bad."""
    need("numpy", "pandas", "pyarrow")
    from odradek_pipeline.jobs.audit_history import audit_history
    from odradek_pipeline.preflight import check_files, check_folder

    check_files(files)
    check_folder(out)
    result = audit_history(files)
    _must_have_read(result.facts["operations"], "operation of a client", files)
    _finish(result, out)


def audit_events_command(
    files: Annotated[list[Path], Argument(metavar="FILE", help="What `odradek serve --events FILE` wrote.")],
    out: Out = Path("audit"),
    stall_ms: Annotated[
        int, Option(min=1, help="A stall of the last stable offset is told from this length on, ms.")
    ] = 10_000,
    master: AuditMaster = "none",
) -> None:
    """Verifications, transactions, stalls of the last stable offset and their holders; exit code 1 on anything bad."""
    need("numpy", "pandas", "pyarrow")
    from odradek_pipeline.jobs.audit_events import audit_events
    from odradek_pipeline.preflight import check_files, check_folder, check_master

    if master != "none":
        need("pyspark", extra="pipeline")
        check_master(master)
    check_files(files)
    check_folder(out)
    result = audit_events(files, stall_ms=stall_ms) if master == "none" else _events(files, out, master, stall_ms)
    _must_have_read(result.facts["events"], "event", files)
    _finish(result, out)


def _events(files: list[Path], out: Path, master: str, stall_ms: int) -> Result:
    from odradek_pipeline.jobs.audit_events_spark import audit_events_on_spark
    from odradek_pipeline.preflight import spark_troubles
    from odradek_pipeline.session import spark_session

    with spark_troubles():
        spark = spark_session(None if master == "submit" else master, name="odradek audit events")
        try:
            return audit_events_on_spark(spark, files, out, stall_ms=stall_ms)
        finally:
            spark.stop()


def _must_have_read(count: int, what: str, files: list[Path]) -> None:
    if not count:
        raise UsageError(f"There is no {what} in {', '.join(map(str, files))}.")


def audit_all_command(
    logs: Annotated[list[str] | None, Option(help="Log directory; can be given more than once.")] = None,
    history: Annotated[list[Path] | None, Option(help="Client history; can be given more than once.")] = None,
    events: Annotated[list[Path] | None, Option(help="Event log; can be given more than once.")] = None,
    out: Out = Path("audit"),
    master: AuditMaster = "local[*]",
) -> None:
    """Every audit that there is evidence for, and one report of all; exit code 1 on anything bad."""
    asked = {audit_logs_command: logs, audit_history_command: history, audit_events_command: events}
    if not any(asked.values()):
        raise UsageError("Nothing to audit: name --logs, --history or --events.")
    for command, paths in asked.items():
        if paths:
            options = {"master": master} if command is audit_logs_command else {}
            with contextlib.suppress(SystemExit):
                folder = out / command.__name__.split("_")[1]
                command(paths, out=str(folder) if paths is logs else folder, **options)  # type: ignore[operator]
    report(out)


def copy(
    bootstrap: Annotated[str, Option(help="Address of the brokers: HOST:PORT.")],
    source: Annotated[str, Option(help="Topic to copy.")],
    target: Annotated[str, Option(help="Topic to copy to, with as many partitions.")],
    checkpoint: Annotated[Path, Option(help="Folder of Spark's checkpoint; keep it for the next start.")],
    application: Annotated[
        str, Option(help="Name of the copy: its consumer group, and the beginning of its transactional ids.")
    ] = "odradek-copy",
    once: Annotated[bool, Option(help="End when what is there now has been copied.")] = False,
    audit_out: Annotated[
        Path | None, Option(name="--audit", help="Compare both topics at the end; tables and summary.json go here.")
    ] = None,
    batch_records: Annotated[int, Option(min=1, help="Records of a micro-batch, at most.")] = 10_000,
    master: Master = "local[*]",
    command_config: CommandConfig = None,
) -> None:
    """Copy a topic exactly once: a Spark stream with one Kafka transaction for each task, offsets inside it."""
    need("pyspark", "pandas", "pyarrow", "confluent_kafka", extra="pipeline")
    from odradek_pipeline.access.config import read_config
    from odradek_pipeline.jobs.audit_copy import audit_copy
    from odradek_pipeline.jobs.copy_exactly_once import CopyJob, check_topics, start_copy
    from odradek_pipeline.jobs.ingest import ingest
    from odradek_pipeline.preflight import check_folder, check_master, spark_troubles
    from odradek_pipeline.session import connector_jars, spark_session

    check_master(master)
    if not connector_jars() and master.startswith("local"):
        raise UsageError(
            "Spark's Kafka connector is missing: run `make pipeline-jars`, or name its folder in ODRADEK_PIPELINE_JARS."
        )
    config = read_config(command_config)
    check_topics(bootstrap, source, target, config)
    for folder in (checkpoint, audit_out):
        if folder is not None:
            check_folder(folder)
    job = CopyJob(
        bootstrap,
        source,
        target,
        application,
        checkpoint,
        progress=checkpoint / "copy_progress",
        batch_records_max=batch_records,
        config=config,
    )
    with spark_troubles():
        spark = spark_session(None if master == "submit" else master, name=application)
        query = start_copy(spark, job, available_now=once)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        if audit_out is None:
            return
        ingest(spark, bootstrap, [source, target], audit_out, config)
        result = audit_copy(spark, audit_out, source=source, target=target)
    _finish(result, audit_out)


def report(
    folder: Annotated[Path, Argument(help="Folder that audits have written, or one of such folders.")] = Path("audit"),
) -> None:
    """Write report.html and report.md from the tables of audits; exit code 1 on anything bad."""
    need("matplotlib", "numpy", "pandas", "pyarrow")
    from odradek_pipeline.jobs.report import find_audits, write_report
    from odradek_pipeline.preflight import check_folder

    if not folder.is_dir() or not find_audits(folder):
        raise UsageError(f"There is no audit in {folder}.")
    check_folder(folder)
    try:
        bad = write_report(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"What an audit wrote to {folder} cannot be read: {error}.") from error
    print(f"{folder / 'report.html'}: {'bad' if bad else 'ok'}")
    raise SystemExit(BAD if bad else 0)


def _print_incidents(incidents: pd.DataFrame) -> None:
    for row in incidents.head(SHOWN_MAX).to_dict("records"):
        since = f" (since {at(row['since'])})" if row["since"] > 0 else ""
        print(f"{row['incident']}: {row['what']}{since}")
        for name in ("blocks", "run"):
            if row[name]:
                print(f"  {name}: {row[name]}")
        findings = row["anomalies"] + row["problems"]
        if findings > 1:
            print(f"  {findings} findings follow from it")


def at(milliseconds: int) -> str:
    """A time of a log, in UTC."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _finish(result: Result, out: Path, *, told: str = "") -> NoReturn:
    from odradek_pipeline.result import write_result

    write_result(result, out)
    if result.incidents is not None:
        _print_incidents(result.incidents)
    for name, severities in sorted(result.counts().items()):
        print(f"{name}: " + ", ".join(f"{count} {severity}" for severity, count in severities.items()))
    for row in result.anomalies.head(SHOWN_MAX).to_dict("records"):
        print(
            f"  {row['severity']} {row['anomaly']} {row['topic']}-{row['partition']} offset {row['offset']}: "
            f"{row['detail']}"
        )
    for found in result.problems[:SHOWN_MAX]:
        print(f"  {found.severity} problem {found.problem} {found.path} at {found.position}: {found.detail}")
    print(
        f"{result.audit}: {'bad' if result.is_bad else 'ok'}; {result.files} files, {result.bytes:,} bytes, "
        f"{result.seconds:.1f} s; {told.rstrip('/') or out}/summary.json"
    )
    raise SystemExit(BAD if result.is_bad else 0)
