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

from odradek_pipeline.evidence import batches_around, steps_of
from odradek_pipeline.pictures import PICTURES
from odradek_pipeline.wording import number, table_of, time_of, words

__all__ = ["find_audits", "write_report"]

ROWS_MAX = 200
INCIDENTS_MAX = 50
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{margin-bottom:.2rem}h2{margin-top:2.5rem;border-bottom:2px solid #ddd}h3{margin-top:1.5rem}
table{border-collapse:collapse;font-size:13px;margin:.5rem 0}
td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
tr.here td{background:#fff3cd}
.bad{color:#b00020}.ok{color:#1a7f37}
.incident{border-left:4px solid #b00020;padding:.2rem 1rem;margin:1rem 0;break-inside:avoid}
.incident p{margin:.3rem 0}
.label{color:#666}code{font:13px ui-monospace,monospace;background:#f3f3f3;padding:.1rem .3rem;overflow-wrap:anywhere}
figure{margin:1.5rem 0;break-inside:avoid}svg{max-width:100%;height:auto}
.wide{overflow-x:auto}
@media print{body{max-width:none;margin:0;font-size:11px}code{background:none}table{font-size:9px}
.wide{overflow:visible}td{overflow-wrap:anywhere}details>*{display:block}}
"""


def find_audits(folder: Path) -> list[Path]:
    """The folder itself and those directly below it that an audit has written."""
    return [
        one
        for one in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
        if (one / "anomalies.parquet").exists()
    ]


def write_report(folder: Path) -> bool:
    """Write the report; whether anything is bad."""
    audits = find_audits(folder)
    summaries = {audit: json.loads((audit / "summary.json").read_text()) for audit in audits}
    bad = any(summary["verdict"] == "bad" for summary in summaries.values())
    verdict = "bad" if bad else "ok"
    causes = {audit: _incidents(audit) for audit in audits}
    heading = _heading(bad, sum(map(len, causes.values())))
    title = f"Exactly-once audit: {verdict}"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    body = "".join(_incident(audit, row) for audit in audits for row in causes[audit][:INCIDENTS_MAX])
    body += "".join(_section(audit, summaries[audit]) for audit in audits)
    page = f'<!doctype html><html lang="en">{head}<h1 class="{verdict}">{title}</h1><p>{heading}</p>{body}</html>\n'
    (folder / "report.html").write_text(page)
    lines = [f"# {title}", "", heading, ""]
    lines += [line for audit in audits for row in causes[audit] for line in _incident_lines(row)]
    lines += [line for audit in audits for line in _section_lines(audit, summaries[audit])]
    (folder / "report.md").write_text("\n".join(lines) + "\n")
    if folder not in audits:  # whose own summary would be lost
        combined = {"verdict": verdict, "audits": {audit.name: summary for audit, summary in summaries.items()}}
        (folder / "summary.json").write_text(json.dumps(combined, indent=2) + "\n")
    return bad


def _heading(bad: bool, causes: int) -> str:
    if causes:
        return f"{number(causes)} {'incident' if causes == 1 else 'incidents'}: what is wrong, and what to do about it."
    return "Something is bad; the findings stand below." if bad else "Nothing that breaks a promise was found."


# ---------------------------------------------------------------------- incidents


def _incidents(audit: Path) -> list[dict[str, Any]]:
    path = audit / "incidents.parquet"
    return pd.read_parquet(path).to_dict("records") if path.exists() else []


def _said(row: dict[str, Any]) -> list[tuple[str, str]]:
    """The sentences of an incident, with their labels."""
    findings = row["anomalies"] + row["problems"]
    parts = [
        ("", row["what"]),
        ("Since", time_of(row["since"]) if row["since"] > 0 else ""),
        ("Blocks", row["blocks"]),
        ("Run", row["run"]),
        ("Findings", f"{number(findings)} follow from it" if findings > 1 else ""),
    ]
    return [(label, text) for label, text in parts if text]


def _incident(audit: Path, row: dict[str, Any]) -> str:
    lines = []
    for label, text in _said(row):
        escaped = html.escape(text)
        if label == "Run" and text.startswith("kafka-"):
            escaped = f"<code>{escaped}</code>"
        lines.append(f'<p><span class="label">{label}:</span> {escaped}</p>' if label else f"<p><b>{escaped}</b></p>")
    around, steps = batches_around(row), steps_of(audit, row)
    evidence = ""
    if len(around):
        here = around.pop("here")
        evidence += f"<h4>The batches around it</h4>{table_of(around, marked=here)}"
    if len(steps):
        evidence += f"<h4>The steps of its transactions</h4>{table_of(steps)}"
    if evidence:
        evidence = f'<details open><summary>Evidence</summary><div class="wide">{evidence}</div></details>'
    return (
        f'<section class="incident"><h3>{html.escape(words(row["incident"]))}</h3>{"".join(lines)}{evidence}</section>'
    )


def _incident_lines(row: dict[str, Any]) -> Iterable[str]:
    yield f"## {words(row['incident'])}"
    yield ""
    for label, text in _said(row):
        yield f"- {label}: {text}" if label else f"**{text}**\n"
    yield ""


# ---------------------------------------------------------------------- audits


def _section(audit: Path, summary: dict[str, Any]) -> str:
    heading = f"{summary['audit'].capitalize()}: {summary['verdict']}"
    tables = "".join(
        f'<h3>{title}</h3><div class="wide">{table_of(frame.head(ROWS_MAX))}</div>{_more(frame)}'
        for title, frame in _findings(audit)
    )
    figures = "".join(_picture(draw, audit) for draw in PICTURES)
    return (
        f'<h2 class="{summary["verdict"]}">{heading}</h2>{table_of(_facts(summary))}{_delays(summary)}{tables}{figures}'
    )


def _section_lines(audit: Path, summary: dict[str, Any]) -> list[str]:
    lines = [f"## {summary['audit'].capitalize()}: {summary['verdict']}", ""]
    lines += [f"- {name}: {value}" for name, value in _facts(summary).itertuples(index=False)]
    lines.append("")
    for title, frame in _findings(audit):
        lines += [f"### {title}", "", *_markdown(frame)]
    return lines


def _findings(audit: Path) -> list[tuple[str, pd.DataFrame]]:
    """Anomalies and problems, without columns that say nothing."""
    found = []
    for title in ("Anomalies", "Problems"):
        frame = pd.read_parquet(audit / f"{title.lower()}.parquet")
        shown = frame.drop(columns=[column for column in frame if frame[column].isin(("", -1)).all()])
        if len(shown):
            found.append((title, shown))
    return found


def _facts(summary: dict[str, Any]) -> pd.DataFrame:
    """Figures of an audit in words; what is a table of its own is left out."""
    rows: list[tuple[str, str]] = []
    for key, value in summary.items():
        if key in ("audit", "verdict", "delays_ms"):
            continue
        if isinstance(value, dict):
            rows += [(f"{words(key)}: {name}", _value(one)) for name, one in value.items()]
        else:
            rows.append((words(key), _value(value)))
    return pd.DataFrame(rows, columns=["what", "how much"])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_value(one)} {words(name)}" for name, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


def _delays(summary: dict[str, Any]) -> str:
    found = summary.get("delays_ms") or {}
    if not found:
        return ""
    frame = pd.DataFrame([{"step, ms": name, **values} for name, values in found.items()])
    return f"<h3>How long transactions took</h3>{table_of(frame)}"


def _more(frame: pd.DataFrame) -> str:
    return f"<p>The first {ROWS_MAX} of {number(len(frame))}.</p>" if len(frame) > ROWS_MAX else ""


def _markdown(frame: pd.DataFrame) -> list[str]:
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in frame.head(ROWS_MAX).itertuples(index=False)]
    heading = [str(column) for column in frame.columns]
    return ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)] + [""]


def _picture(draw: Callable[[Path], str | None], audit: Path) -> str:
    svg = draw(audit)
    return f"<figure>{svg}</figure>" if svg else ""
