"""The report of the audits below a folder: report.html (pictures inline, no script), report.md, one summary.json."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.pictures import PICTURES

__all__ = ["find_audits", "write_report"]

ROWS_MAX = 200
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}"
    ".bad{color:#b00020;font-weight:600}"
    ".ok{color:#1a7f37;font-weight:600}figure{margin:1.5rem 0}svg{max-width:100%;height:auto}"
)


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
    sections = [_section(audit, summaries[audit]) for audit in audits]
    verdict = "bad" if bad else "ok"
    title = f"Exactly-once audit: {verdict}"
    body = "".join(section for section, _ in sections)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    page = f'<!doctype html><html lang="en">{head}<h1 class="{verdict}">{title}</h1>{body}</html>\n'
    (folder / "report.html").write_text(page)
    (folder / "report.md").write_text(f"# {title}\n\n" + "\n".join(text for _, text in sections))
    if folder not in audits:  # whose own summary would be lost
        combined = {"verdict": verdict, "audits": {audit.name: summary for audit, summary in summaries.items()}}
        (folder / "summary.json").write_text(json.dumps(combined, indent=2) + "\n")
    return bad


def _section(audit: Path, summary: dict[str, Any]) -> tuple[str, str]:
    anomalies = pd.read_parquet(audit / "anomalies.parquet")
    problems = pd.read_parquet(audit / "problems.parquet")
    heading = f"{summary['audit'].capitalize()}: {summary['verdict']}"
    facts = {key: value for key, value in summary.items() if key not in ("audit", "verdict", "anomalies")}
    figures = "".join(_picture(draw, audit) for draw in PICTURES)
    shown = anomalies.drop(columns=[column for column in anomalies if anomalies[column].isin(("", -1)).all()])
    page = (
        f'<h2 class="{summary["verdict"]}">{heading}</h2>{_facts(facts)}'
        f"<h3>Anomalies</h3>{_table(shown)}{'<h3>Problems</h3>' + _table(problems) if len(problems) else ''}{figures}"
    )
    lines = [
        f"## {heading}",
        "",
        *(f"- {key}: {json.dumps(value)}" for key, value in facts.items()),
        "",
        *_markdown(shown),
        *_markdown(problems),
    ]
    return page, "\n".join(lines) + "\n"


def _facts(facts: dict[str, Any]) -> str:
    return (
        "<table>"
        + "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(json.dumps(value))}</td></tr>"
            for key, value in facts.items()
        )
        + "</table>"
    )


def _table(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "<p>None.</p>"
    more = f"<p>The first {ROWS_MAX} of {len(frame)}.</p>" if len(frame) > ROWS_MAX else ""
    return str(frame.head(ROWS_MAX).to_html(index=False, border=0)) + more


def _markdown(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in frame.head(ROWS_MAX).itertuples(index=False)]
    heading = [str(column) for column in frame.columns]
    return ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)] + [""]


def _picture(draw: Callable[[Path], str | None], audit: Path) -> str:
    svg = draw(audit)
    return f"<figure>{svg}</figure>" if svg else ""
