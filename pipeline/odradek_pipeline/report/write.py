"""The report of the audits below a folder: report.html (pictures inline, no script), report.md, one summary.json.

It begins with one sentence for each incident; the evidence stands below.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.jobs.audit_events import CLOCK
from odradek_pipeline.report.evidence import batches_around, event_times
from odradek_pipeline.report.finding_words import sentences_of
from odradek_pipeline.report.parts import card, page_of, said_of, since_of
from odradek_pipeline.report.pictures import pictures_of
from odradek_pipeline.wording import counted, number, size, span, table_of, time_of, words

__all__ = ["find_audits", "write_report"]

ROWS_MAX = 200
CARDS_MAX = 50
"""Incidents with their evidence; of more there are the sentences."""
OPEN_MAX = 5
LISTED_MAX = 500
Incident = tuple[Path, dict[str, Any]]


def find_audits(folder: Path) -> list[Path]:
    """The folder itself and those directly below it that an audit has written to its end; the summary comes last."""
    return [
        one
        for one in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
        if (one / "anomalies.parquet").exists() and (one / "summary.json").exists()
    ]


def write_report(folder: Path) -> bool:
    """Write the report; whether anything is bad."""
    audits = find_audits(folder)
    summaries = {audit: json.loads((audit / "summary.json").read_text()) for audit in audits}
    bad = any(summary["verdict"] == "bad" for summary in summaries.values())
    causes = [(audit, row) for audit in audits for row in _incidents(audit, summaries[audit])]
    around = [batches_around(row) for _, row in causes[:CARDS_MAX]]
    causes[:CARDS_MAX] = [
        (audit, row | {"since": since_of(audit, row, near)}) for (audit, row), near in zip(causes, around, strict=False)
    ]
    verdict, heading = ("bad" if bad else "ok"), _heading(bad, len(causes), list(summaries.values()))
    title = f"Exactly-once audit: {verdict}"
    body = f'<header class="{verdict}"><h1>{title}</h1><p>{html.escape(heading)}</p></header>{_contents(causes)}'
    body += "".join(
        card(place, audit, row, near, is_open=place <= OPEN_MAX, is_one_of_many=len(causes) > 1)
        for place, ((audit, row), near) in enumerate(zip(causes, around, strict=False), start=1)
    )
    first = {audit: place for place, (audit, _) in reversed(list(enumerate(causes, start=1)))}
    body += "".join(_section(audit, summaries[audit], first.get(audit, 0), len(causes)) for audit in audits)
    (folder / "report.html").write_text(page_of(title, body), encoding="utf-8")
    lines = [f"# {title}", "", heading, ""]
    lines += [line for _, row in causes[:LISTED_MAX] for line in _incident_lines(row)]
    lines += [
        line for audit in audits for line in _section_lines(audit, summaries[audit], first.get(audit, 0), len(causes))
    ]
    (folder / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if folder not in audits:  # whose own summary would be lost
        combined = {"verdict": verdict, "audits": {audit.name: summary for audit, summary in summaries.items()}}
        (folder / "summary.json").write_text(json.dumps(combined, indent=2) + "\n")
    return bad


def _heading(bad: bool, causes: int, summaries: list[dict[str, Any]]) -> str:
    of_kinds: dict[str, list[dict[str, Any]]] = {}
    for summary in summaries:
        of_kinds.setdefault(str(summary["audit"]), []).append(summary)
    read = "; ".join(_read(kind, of) for kind, of in of_kinds.items())
    if causes:
        said = f"{counted(causes, 'incident')}: what is wrong, and what to do about it."
    else:
        said = "Something is bad; the findings stand below." if bad else "Nothing that breaks a promise was found."
    return f"{said} Read: {read}."


def _read(kind: str, summaries: list[dict[str, Any]]) -> str:
    """What audits of one kind have looked at, in a few words."""
    what = kind if len(summaries) == 1 else f"{number(len(summaries))} audits of {kind}"
    amounts = [what]
    for key, name in _AMOUNTS.items():
        found = [summary[key] for summary in summaries if isinstance(summary.get(key), int)]
        if found:
            amounts.append(size(sum(found)) if key == "bytes" else counted(sum(found), name, _MANY.get(name, "")))
    return ", ".join(amounts)


_AMOUNTS = {
    "batches": "batch",
    "operations": "operation",
    "events": "event",
    "rows": "record",
    "files": "file",
    "bytes": "",
}
_MANY = {"batch": "batches"}


# ---------------------------------------------------------------------- incidents


def _incidents(audit: Path, summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that the audit tells; of one that has only findings, what they amount to."""
    path = audit / "incidents.parquet"
    if path.exists():
        return [{str(key): value for key, value in row.items()} for row in pd.read_parquet(path).to_dict("records")]
    frame = pd.read_parquet(audit / "anomalies.parquet")
    rows = list(sentences_of(frame[frame["severity"] == "bad"]))
    return event_times(audit, rows, summary[CLOCK]) if summary.get(CLOCK) else rows


def _contents(causes: list[Incident]) -> str:
    """One sentence each, above all evidence, where there are several."""
    if len(causes) < 2:
        return ""
    lines = []
    for place, (_, row) in enumerate(causes[:LISTED_MAX], start=1):
        text = html.escape(row["what"])
        lines.append(f'<li><a href="#i{place}">{text}</a></li>' if place <= CARDS_MAX else f"<li>{text}</li>")
    more = len(causes) - LISTED_MAX
    rest = f"<p>And {number(more)} more in incidents.parquet.</p>" if more > 0 else ""
    if len(causes) > CARDS_MAX:
        rest += f"<p>The first {CARDS_MAX} follow with their evidence.</p>"
    return f'<ol class="all">{"".join(lines)}</ol>{rest}'


def _incident_lines(row: dict[str, Any]) -> Iterable[str]:
    yield f"## {_plain(words(row['incident']))}"
    yield ""
    yield f"**{_plain(row['what'])}**\n"
    for label, text in said_of(row):
        yield f"- {label}: {_plain(text)}"
    yield ""


_MARKDOWN = str.maketrans(
    {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "\\|", "`": "\\`", "*": "\\*", "[": "\\[", "\n": " ", "\r": " "}
)


def _plain(text: object) -> str:
    """Without any meaning for Markdown or HTML: names are what somebody else chose."""
    return str(text).translate(_MARKDOWN)


# ---------------------------------------------------------------------- audits


def _section(audit: Path, summary: dict[str, Any], first: int, causes: int) -> str:
    heading = f"{summary['audit'].capitalize()}: {summary['verdict']}"
    facts = "".join(f"<li>{html.escape(name)} <b>{html.escape(value)}</b></li>" for name, value in _facts(summary))
    tables = "".join(
        f"<details><summary>{title}: {number(len(frame))}</summary>"
        f'<div class="wide">{table_of(frame.head(ROWS_MAX))}</div>{_more(frame)}</details>'
        for title, frame in _findings(audit, first, causes)
    )
    figures = "".join(f"<figure>{svg}</figure>" for svg in pictures_of(audit))
    return (
        f'<h2 class="{summary["verdict"]}">{heading}</h2><ul class="facts">{facts}</ul>'
        f"{_delays(summary)}{tables}{figures}"
    )


def _section_lines(audit: Path, summary: dict[str, Any], first: int, causes: int) -> list[str]:
    lines = [f"## {summary['audit'].capitalize()}: {summary['verdict']}", ""]
    lines += [f"- {_plain(name)}: {_plain(value)}" for name, value in _facts(summary)]
    lines.append("")
    for title, frame in _findings(audit, first, causes):
        lines += [f"### {title}", "", *_markdown(frame)]
    return lines


def _findings(audit: Path, first: int, causes: int) -> list[tuple[str, pd.DataFrame]]:
    """Anomalies and problems, bad ones first, without columns that say nothing; `incident` is the number that it has in
    the report, where there are several."""
    found = []
    for title in ("Anomalies", "Problems"):
        frame = pd.read_parquet(audit / f"{title.lower()}.parquet")
        frame = frame.iloc[(frame["severity"] != "bad").argsort(kind="stable")].reset_index(drop=True)
        frame["incident"] = frame["incident"].where((frame["incident"] < 0) | (causes < 2), frame["incident"] + first)
        if causes < 2:
            frame = frame.drop(columns="incident")
        shown = frame.drop(columns=[column for column in frame if frame[column].isin(("", -1)).all()])
        if len(shown):
            found.append((title, shown))
    return found


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Figures of an audit in words; what is a table of its own is left out."""
    rows: list[tuple[str, str]] = []
    for key, value in summary.items():
        if key in ("audit", "verdict", "delays_ms", CLOCK):
            continue
        if key == "transaction_version":
            changes = [
                f"{one['level']} since {time_of(one['since'])}"
                for before, one in zip([{"level": None}, *value], value, strict=False)
                if one["level"] != before["level"]
            ]
            rows.append(("transaction.version", ", ".join(changes) or "not in the metadata"))
            continue
        if isinstance(value, dict):
            rows += [(f"{words(key)}: {name}", _value(one)) for name, one in value.items()]
        elif key in _UNITS and isinstance(value, int | float):
            label, shown = _UNITS[key]
            rows.append((label, shown(value)))
        else:
            rows.append((words(key), _value(value)))
    return rows


_UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "bytes": ("read", size),
    "seconds": ("took", lambda value: span(value * 1000)),
    "newest_ms": ("newest record", lambda value: time_of(value) or "has no time"),
}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_value(one)} {words(name)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


def _delays(summary: dict[str, Any]) -> str:
    found = summary.get("delays_ms") or {}
    if not found:
        return ""
    frame = pd.DataFrame([{"step, ms": name, **values} for name, values in found.items()])
    return f'<h3>How long transactions took</h3><div class="wide">{table_of(frame)}</div>'


def _more(frame: pd.DataFrame) -> str:
    return f"<p>The first {ROWS_MAX} of {number(len(frame))}.</p>" if len(frame) > ROWS_MAX else ""


def _markdown(frame: pd.DataFrame) -> list[str]:
    rows = [[_plain(cell) for cell in row] for row in frame.head(ROWS_MAX).itertuples(index=False)]
    heading = [str(column) for column in frame.columns]
    return ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)] + [""]
