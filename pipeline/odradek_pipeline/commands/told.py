"""What commands of the pipeline print, and the exit codes they end with."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import pandas as pd

    from odradek_pipeline.audit.result import Result
    from odradek_pipeline.logs.layout import Problem
    from odradek_pipeline.logs.summary import ScanSummary

__all__ = ["BAD", "Alerts", "at", "finish", "print_incidents", "print_scan", "problem_lines"]

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


def print_incidents(incidents: pd.DataFrame, *, named: bool = False) -> None:
    """What is wrong, what it blocks, what the cluster says of it, what to run; `named` with what `audit ack` takes."""
    for row in incidents.head(SHOWN_MAX).to_dict("records"):
        since = f" (since {at(row['since'])})" if row["since"] > 0 else ""
        name = f"{row['id']} {row['severity']} " if named else ""
        print(f"{name}{row['incident']}: {row['what']}{since}")
        for name in ("blocks", "cluster", "run"):
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


@dataclass(frozen=True, slots=True)
class Alerts:
    """How an audit of logs ends that is repeated; times in milliseconds."""

    at_ms: int
    state: Path | None = None
    only_new: bool = False
    by_severity: bool = False
    as_json: bool = False
    is_all: bool = True
    """All of the logs was looked at."""

    def finish(self, result: Result, out: Path, *, told: str = "") -> NoReturn:
        """Note what was seen, write it for programs that send alerts, and end."""
        from odradek_pipeline.audit.result import write_result
        from odradek_pipeline.incidents.nightly import alerts_of, counting, exit_code, metrics_of, noted

        if self.state is not None:
            clock = int(result.facts.get("newest_ms", -1))
            noted(result, self.state, at_ms=self.at_ms, clock_ms=clock, is_all=self.is_all)
        code = exit_code(result, only_new=self.only_new)
        code = code if self.by_severity else min(code, BAD)
        write_result(result, out)
        alerts = alerts_of(result, only_new=self.only_new, code=code)
        (out / "alerts.json").write_text(json.dumps(alerts, indent=2, default=str) + "\n")
        (out / "audit.prom").write_text(metrics_of(result, at_ms=self.at_ms, code=code))
        if self.as_json:
            print(json.dumps(alerts, indent=2, default=str))
            raise SystemExit(code)
        assert result.incidents is not None
        shown = {row["id"] for row in counting(result, only_new=self.only_new)}
        over = result.incidents["severity"] == "info"
        print_incidents(result.incidents[result.incidents["id"].isin(shown) | over], named=self.state is not None)
        left_out = len(result.incidents) - len(shown) - int(over.sum())
        if left_out:
            print(f"{left_out} more that are acknowledged or known are in {told.rstrip('/') or out}/incidents.parquet.")
        tell(result, out, told=told)
        raise SystemExit(code)


def finish(result: Result, out: Path) -> NoReturn:
    """Write the tables, say what was found, and end with the exit code."""
    from odradek_pipeline.audit.result import write_result

    write_result(result, out)
    if result.incidents is not None:
        print_incidents(result.incidents)
    tell(result, out)
    raise SystemExit(BAD if result.is_bad else 0)


def tell(result: Result, out: Path, *, told: str = "") -> None:
    """Say what was found; `told` is where the tables are in the end."""
    from odradek_pipeline.wording import counted

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
            "Checksums were compared only where a broker had not closed its segments; --check-crc compares all of "
            "them, and finds bytes that have changed within records."
        )
    print(
        f"{result.audit}: {'bad' if result.is_bad else 'ok'}; {counted(result.files, 'file')}, {result.bytes:,} bytes, "
        f"{result.seconds:.1f} s; {told.rstrip('/') or out}/summary.json"
    )
