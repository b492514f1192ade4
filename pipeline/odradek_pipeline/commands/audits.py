"""`odradek audit logs|history|events|all`, and `odradek report` of what they wrote."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from odradek.cli.commands import Argument, Commands, Option
from odradek.cli.extras import is_there
from odradek.cli.usage import UsageError
from odradek_pipeline.audit.table_kind import TableKind
from odradek_pipeline.commands.needs import need
from odradek_pipeline.commands.options import (
    AuditMaster,
    Directories,
    LogsMaster,
    Out,
    ShowProgress,
    Since,
    Tables,
    Until,
)
from odradek_pipeline.commands.told import BAD, Alerts, finish
from odradek_pipeline.commands.watch import CommandConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek_pipeline.audit.progress import Progress
    from odradek_pipeline.audit.result import Result
    from odradek_pipeline.logs.times import Span

__all__ = ["add_audits", "report"]

CLOCKS_MS = 3_600_000
"""How far the clocks of producers and brokers may be apart."""


def add_audits(commands: Commands) -> None:
    """Put the audits beside the other commands."""
    commands.add("audit logs", audit_logs_command)
    commands.add("audit history", audit_history_command)
    commands.add("audit events", audit_events_command)
    commands.add("audit all", audit_all_command)
    commands.add("audit ack", audit_ack_command)


def audit_logs_command(
    directories: Directories,
    out: Annotated[
        str, Option(help="Folder for the tables (Parquet) and summary.json; s3://… and the like too.")
    ] = "audit",
    master: LogsMaster = None,
    topic: Annotated[
        list[str] | None,
        Option(help="Only these topics; without __transaction_state nothing can be said to hang."),
    ] = None,
    range_mb: Annotated[
        int | None, Option(min=1, help="Bytes that a task reads, in MiB; else by the size of the logs, 128 or more.")
    ] = None,
    check_crc: Annotated[
        bool,
        Option(help="Compare all checksums; without it, those of segments not closed cleanly."),
    ] = False,
    state: Annotated[
        Path | None,
        Option(help="Folder where audits remember sealed segments, so that only what is new is read, and incidents."),
    ] = None,
    since_last: Annotated[
        bool,
        Option(help="Without segments that end before the last audit with this --state, but for open transactions."),
    ] = False,
    only_new: Annotated[
        bool, Option(help="Tell only incidents that no audit with this --state has seen; the exit code is of these.")
    ] = False,
    by_severity: Annotated[
        bool, Option(help="Exit code 1 on anything critical, 3 where there are warnings alone.")
    ] = False,
    as_json: Annotated[bool, Option(name="--json", help="Print what is an alert as JSON, and nothing else.")] = False,
    bootstrap: Annotated[
        str | None, Option(help="HOST:PORT of the running cluster, which is asked before a command is printed.")
    ] = None,
    command_config: CommandConfig = None,
    since: Since = None,
    until: Until = None,
    tables: Tables = "parquet",
    progress: ShowProgress = False,
) -> None:
    """Transactions that hang, markers, epochs and sequences, from log directories; exit code 1 on anything bad."""
    need("numpy", "pandas", "pyarrow")
    from odradek_pipeline.audit.progress import HERE, ON_SPARK, shown
    from odradek_pipeline.audit.stores import placed
    from odradek_pipeline.commands.preflight import check_folder, check_log_directories, check_master, check_tables
    from odradek_pipeline.logs.files import path_of
    from odradek_pipeline.logs.times import Span
    from odradek_pipeline.spark.waiting import wait

    seen = _seen(state, since_last=since_last, only_new=only_new, since=since)
    ask = _asking(bootstrap, command_config)
    kind, master = check_tables(tables, out), _master(master)
    if master != "none":
        need("pyspark", extra="pipeline")
        check_master(master)
        wait()
    topics, now = tuple(topic or ()), time.time_ns() // 1_000_000
    span = Span.of(since, until, now)
    if seen is not None:
        span = replace(span, since=seen)
    options = _LogOptions(topics, check_crc, state, span)
    alerts = Alerts(now, state, only_new, by_severity, as_json, is_all=span.is_all and not topics)
    here = [path_of(directory) for directory in directories]
    with placed(out) as folder:
        check_log_directories(here, topics)
        check_folder(folder)
        if master == "none":
            from odradek_pipeline.jobs.audit_logs import audit_logs

            with shown(HERE, asked=progress) as shows:
                result = audit_logs(here, not_after=now, progress=shows, **options.given())
        else:
            with shown(ON_SPARK, asked=progress) as shows:
                more = _OnSpark(master, range_mb and range_mb << 20, kind, shows)
                result = _on_spark(here, folder, more, options)
        result.kind = kind
        ask(result)
        alerts.finish(result, folder, told=out)


def _seen(state: Path | None, *, since_last: bool, only_new: bool, since: str | None) -> int | None:
    """From when on logs are looked at, ms, where that is since the last audit."""
    if state is None and (since_last or only_new):
        raise UsageError("What is new is known by --state FOLDER: name one that stays.")
    if since_last and since is not None:
        raise UsageError("--since and --since-last both say where to begin: leave one out.")
    if not since_last or state is None:
        return None
    from odradek_pipeline.directories.proof import ABORT_MS, MAX_TIMEOUT_MS
    from odradek_pipeline.incidents.nightly import read_seen

    clock = read_seen(state).clock_ms
    return None if clock < 0 else max(0, clock - MAX_TIMEOUT_MS - ABORT_MS - CLOCKS_MS)


def _asking(bootstrap: str | None, command_config: Path | None) -> Callable[[Result], None]:
    """What asks the living cluster of the incidents of an audit; its address is checked before the work."""
    if bootstrap is None:
        return lambda result: None
    from odradek_pipeline.access.config import read_config
    from odradek_pipeline.commands.preflight import check_address

    check_address(bootstrap)
    config = read_config(command_config)

    def ask(result: Result) -> None:
        from odradek_pipeline.watch.brokers import Brokers
        from odradek_pipeline.watch.living import ask_living, held_against

        brokers = Brokers(bootstrap, config=config)
        try:
            held_against(result, ask_living(bootstrap, brokers, time.time_ns() // 1_000_000))
        finally:
            brokers.close()

    return ask


def audit_ack_command(
    incident: Annotated[str, Argument(metavar="ID", help="What an audit with --state prints before an incident.")],
    why: Annotated[str, Option(help="Why it is no alert any more.")],
    state: Annotated[Path, Option(help="The folder of the audits' --state.")],
) -> None:
    """Acknowledge an incident: it is told no more, and does not count for exit codes, for as long as it is the same."""
    from odradek_pipeline.incidents.nightly import acknowledge

    about = acknowledge(state, incident, why, time.time_ns() // 1_000_000)
    print(f"{incident} is acknowledged: {about['what']}")


@dataclass(frozen=True, slots=True)
class _LogOptions:
    """What both ways of the audit take."""

    topics: tuple[str, ...]
    check_crc: bool
    state: Path | None
    span: Span

    def given(self) -> dict[str, Any]:
        """As keywords."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _master(asked: str | None) -> str:
    """The master of an audit of logs that names none: this machine, with Spark where it is installed."""
    if asked is not None:
        return asked
    if is_there("pyspark"):
        return "local[*]"
    print(
        "There is no Spark here (the extra pipeline): this process reads the logs, as with --master none.",
        file=sys.stderr,
    )
    return "none"


@contextlib.contextmanager
def _session(master: str, *, name: str) -> Iterator[SparkSession]:
    """Spark for as long as an audit takes; what it lacks is said in one sentence."""
    from odradek_pipeline.commands.preflight import spark_troubles
    from odradek_pipeline.spark.session import end_session, spark_session

    with spark_troubles():
        spark = spark_session(None if master == "submit" else master, name=name)
        try:
            yield spark
        finally:
            end_session(spark)


@dataclass(frozen=True, slots=True)
class _OnSpark:
    """What the audit on Spark takes beside that."""

    master: str
    range_bytes: int | None
    kind: TableKind
    progress: Progress | None


def _on_spark(directories: list[Path], out: Path, more: _OnSpark, options: _LogOptions) -> Result:
    from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
    from odradek_pipeline.spark.session import end_session

    with _session(more.master, name="odradek audit logs") as spark:
        return audit_logs_on_spark(
            spark,
            directories,
            out,
            range_bytes=more.range_bytes,
            partitioned=more.kind is TableKind.PARTITIONED,
            progress=more.progress,
            ended=partial(end_session, spark),
            **options.given(),
        )


def audit_history_command(
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Client histories in Jepsen's operation format, JSON lines.")
    ],
    out: Out = Path("audit"),
    master: AuditMaster = "none",
    progress: ShowProgress = False,
) -> None:
    """What clients saw, against what was acknowledged to them; exit code 1 on anything bad."""
    _check(files, out, master)
    from odradek_pipeline.audit.progress import HISTORY_ON_SPARK, OF_LINES, shown
    from odradek_pipeline.jobs.audit_history import audit_history

    here = master == "none"
    with shown(OF_LINES if here else HISTORY_ON_SPARK, asked=progress) as shows:
        result = audit_history(files, progress=shows) if here else _history(files, out, master, shows)
    _must_be_whole(result, "bad-operation")
    _must_have_read(result.facts["operations"], "operation of a client", files)
    _must_have_read(result.facts["answered"], "send, poll or txn that succeeded", files, ": nothing can be judged")
    finish(result, out)


def _history(files: list[Path], out: Path, master: str, progress: Progress | None) -> Result:
    from odradek_pipeline.jobs.audit_history_spark import audit_history_on_spark

    with _session(master, name="odradek audit history") as spark:
        return audit_history_on_spark(spark, files, out, progress=progress)


def audit_events_command(
    files: Annotated[list[Path], Argument(metavar="FILE", help="What `odradek serve --events FILE` wrote.")],
    out: Out = Path("audit"),
    stall_ms: Annotated[
        int, Option(min=1, help="A stall of the last stable offset is told from this length on, ms.")
    ] = 10_000,
    master: AuditMaster = "none",
    progress: ShowProgress = False,
) -> None:
    """Verifications, transactions, stalls of the last stable offset and their holders; exit code 1 on anything bad."""
    _check(files, out, master)
    from odradek_pipeline.audit.progress import EVENTS_ON_SPARK, OF_LINES, shown
    from odradek_pipeline.jobs.audit_events import audit_events

    with shown(OF_LINES if master == "none" else EVENTS_ON_SPARK, asked=progress) as shows:
        if master == "none":
            result = audit_events(files, stall_ms=stall_ms, progress=shows)
        else:
            result = _events(files, out, master, stall_ms, shows)
    _must_be_whole(result, "bad-event")
    _must_have_read(result.facts["events"], "event", files)
    finish(result, out)


def _events(files: list[Path], out: Path, master: str, stall_ms: int, progress: Progress | None) -> Result:
    from odradek_pipeline.jobs.audit_events_spark import audit_events_on_spark

    with _session(master, name="odradek audit events") as spark:
        return audit_events_on_spark(spark, files, out, stall_ms=stall_ms, progress=progress)


def _check(files: list[Path], out: Path, master: str) -> None:
    """What an audit of these files needs is there; else one sentence says what is not."""
    need("numpy", "pandas", "pyarrow")
    from odradek_pipeline.commands.preflight import check_files, check_folder, check_master

    if master != "none":
        need("pyspark", extra="pipeline")
        check_master(master)
    check_files(files)
    check_folder(out)


def _must_be_whole(result: Result, problem: str) -> None:
    """Nothing is judged from lines of which a part was taken and a part was not."""
    from odradek_pipeline.audit.lines import line_of

    wrong = [one for one in result.problems if one.problem == problem]
    if wrong:
        more = f" {len(wrong) - 1} more lines are wrong." if len(wrong) > 1 else ""
        first = wrong[0]
        what = first.detail.partition(": ")[2]
        raise UsageError(f"{first.path}, line {line_of(Path(first.path), first.position)}: {what}.{more}")


def _must_have_read(count: int, what: str, files: list[Path], so: str = "") -> None:
    if not count:
        raise UsageError(f"There is no {what} in {', '.join(map(str, files))}{so}.")


def audit_all_command(
    logs: Annotated[list[str] | None, Option(help="Log directory; can be given more than once.")] = None,
    history: Annotated[list[Path] | None, Option(help="Client history; can be given more than once.")] = None,
    events: Annotated[list[Path] | None, Option(help="Event log; can be given more than once.")] = None,
    out: Out = Path("audit"),
    master: LogsMaster = None,
    topic: Annotated[list[str] | None, Option(help="Of the logs only these topics.")] = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Every audit that there is evidence for, and one report of all; exit code 1 on anything bad."""
    asked = {audit_logs_command: logs, audit_history_command: history, audit_events_command: events}
    if not any(asked.values()):
        raise UsageError("Nothing to audit: name --logs, --history or --events.")
    for command, paths in asked.items():
        if paths:
            of_logs = {"master": master, "topic": topic, "since": since, "until": until}
            options = of_logs if command is audit_logs_command else {}
            with contextlib.suppress(SystemExit):
                folder = out / command.__name__.split("_")[1]
                command(paths, out=str(folder) if paths is logs else folder, **options)  # type: ignore[operator]
    report(out)


def report(
    folder: Annotated[Path, Argument(help="Folder that audits have written, or one of such folders.")] = Path("audit"),
) -> None:
    """Write report.html and report.md from the tables of audits; exit code 1 on anything bad."""
    need("matplotlib", "numpy", "pandas", "pyarrow")
    from odradek_pipeline.commands.preflight import check_folder
    from odradek_pipeline.report.write import find_audits, write_report

    if not folder.is_dir() or not find_audits(folder):
        raise UsageError(f"There is no audit in {folder}.")
    check_folder(folder)
    try:
        bad = write_report(folder)
    except (OSError, ValueError, KeyError) as error:
        said = str(error).rstrip(".")
        raise UsageError(f"What an audit wrote to {folder} cannot be read: {said}.") from error
    print(f"{folder / 'report.html'}: {'bad' if bad else 'ok'}")
    raise SystemExit(BAD if bad else 0)
