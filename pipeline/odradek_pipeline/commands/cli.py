"""The pipeline's commands: `odradek scan`, `odradek audit …`, `odradek copy`, `odradek report`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

from odradek.cli.commands import Commands, Option
from odradek.cli.usage import UsageError
from odradek_pipeline.commands.audits import add_audits, report
from odradek_pipeline.commands.needs import need
from odradek_pipeline.commands.options import Directories, Master, Since, Until
from odradek_pipeline.commands.told import BAD, finish, print_scan
from odradek_pipeline.commands.watch import CommandConfig, watch

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Put the commands of the pipeline beside those of the broker."""
    commands.add("scan", scan)
    add_audits(commands)
    commands.add("watch", watch)
    commands.add("copy", copy)
    commands.add("report", report)


def scan(
    directories: Directories,
    check_crc: Annotated[bool, Option(help="Read every byte and compare checksums.")] = False,
    topic: Annotated[list[str] | None, Option(help="Only these topics.")] = None,
    since: Since = None,
    until: Until = None,
    as_json: Annotated[bool, Option(name="--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Read log directories: partitions, producers, transactions, and what is broken; exit code 1 if anything is."""
    need("numpy", "rich")
    from odradek_pipeline.commands.preflight import check_log_directories
    from odradek_pipeline.directories.place import cleaned_somewhere
    from odradek_pipeline.logs.files import path_of
    from odradek_pipeline.logs.summary import scan_directories
    from odradek_pipeline.logs.times import Span

    span = Span.of(since, until, time.time_ns() // 1_000_000)
    here = [path_of(directory) for directory in directories]
    check_log_directories(here, topic or ())
    summary = scan_directories(here, check_crc=check_crc, topics=topic or (), span=span, cleaned=cleaned_somewhere)
    if as_json:
        print(json.dumps(summary.as_json(), indent=2))
    else:
        print_scan(summary)
    raise SystemExit(BAD if summary.is_bad else 0)


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
    from odradek_pipeline.commands.preflight import check_folder, check_master, spark_troubles
    from odradek_pipeline.jobs.audit_copy import audit_copy
    from odradek_pipeline.jobs.copy_exactly_once import CopyJob, check_topics, start_copy
    from odradek_pipeline.jobs.ingest import ingest
    from odradek_pipeline.spark.session import connector_jars, spark_session

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
    finish(result, audit_out)
