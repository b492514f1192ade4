"""What commands of the pipeline print, and the exit codes they end with."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import pandas as pd

    from odradek_pipeline.layout import Problem
    from odradek_pipeline.result import Result
    from odradek_pipeline.summary import ScanSummary

__all__ = ["BAD", "at", "finish", "print_incidents", "print_scan", "problem_lines"]

BAD = 1
SHOWN_MAX = 20
ALIKE_SHOWN = 3
"""Problems of one kind that are not bad."""


def print_scan(summary: ScanSummary) -> None:
    """A row for each partition, and what is broken."""
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
            f"{found.severity}: {_said(found)}",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    if not summary.problems:
        console.print("no problems")


def print_incidents(incidents: pd.DataFrame) -> None:
    """What is wrong, what it blocks, what to run."""
    for row in incidents.head(SHOWN_MAX).to_dict("records"):
        since = f" (since {at(row['since'])})" if row["since"] > 0 else ""
        print(f"{row['incident']}: {row['what']}{since}")
        for name in ("blocks", "run"):
            if row[name]:
                print(f"  {name}: {row[name]}")
        findings = row["anomalies"] + row["problems"]
        if findings > 1:
            print(f"  {findings:,} findings follow from it")


def at(milliseconds: int) -> str:
    """A time of a log, in UTC."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """What is bad first; of each kind that is not, a few, and how many more there are."""
    bad = [one for one in problems if one.severity == "bad"]
    for found in bad[:SHOWN_MAX]:
        yield f"{found.severity} problem {_said(found)}"
    if len(bad) > SHOWN_MAX:
        yield f"and {len(bad) - SHOWN_MAX:,} more that are bad"
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for found in problems:
        if found.severity != "bad":
            kinds.setdefault((found.severity, found.problem), []).append(found)
    for (severity, name), of in kinds.items():
        for found in of[:ALIKE_SHOWN]:
            yield f"{severity} problem {_said(found)}"
        if len(of) > ALIKE_SHOWN:
            yield f"{severity} problem {name}: {len(of) - ALIKE_SHOWN:,} more"


def _said(found: Problem) -> str:
    where = f"{found.path} at {found.position}" if found.position >= 0 else found.path
    return f"{found.problem} {where}: {found.detail}"


def finish(result: Result, out: Path, *, told: str = "") -> NoReturn:
    """Write the tables, say what was found, and end with the exit code."""
    from odradek_pipeline.result import write_result
    from odradek_pipeline.wording import counted

    write_result(result, out)
    if result.incidents is not None:
        print_incidents(result.incidents)
    for name, severities in sorted(result.counts().items()):
        print(f"{name}: " + ", ".join(f"{count} {severity}" for severity, count in severities.items()))
    for row in result.anomalies.head(SHOWN_MAX).to_dict("records"):
        print(
            f"  {row['severity']} {row['anomaly']} {row['topic']}-{row['partition']} offset {row['offset']}: "
            f"{row['detail']}"
        )
    for line in problem_lines(result.problems):
        print(f"  {line}")
    if result.facts.get("checksums_compared") is False:
        print(
            "Checksums were compared in segments that were not closed alone: with --check-crc they are everywhere, and "
            "changed bytes within records are found."
        )
    print(
        f"{result.audit}: {'bad' if result.is_bad else 'ok'}; {counted(result.files, 'file')}, {result.bytes:,} bytes, "
        f"{result.seconds:.1f} s; {told.rstrip('/') or out}/summary.json"
    )
    raise SystemExit(BAD if result.is_bad else 0)
