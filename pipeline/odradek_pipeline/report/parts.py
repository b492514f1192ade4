"""The pieces of a report's page: its style, an incident as a card, a transaction as a line of time."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.report.evidence import steps_of
from odradek_pipeline.wording import number, span, table_of, time_of, words

__all__ = ["STYLE", "card", "command_in", "page_of", "said_of", "since_of"]

STYLE = """
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--page:#fff;--card:#f6f8fa;
--bad:#b42318;--bad-soft:#fef3f2;--ok:#1a7f37;--ok-soft:#eefbf1;--mark:#fff3c4;--link:#0757b8}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--line:#3d444d;--page:#0d1117;--card:#161b22;
--bad:#ff7b72;--bad-soft:#2d1517;--ok:#56d364;--ok-soft:#0f2417;--mark:#4a3c10;--link:#79b8ff}}
*{box-sizing:border-box}
body{font:15px/1.55 system-ui,sans-serif;max-width:68rem;margin:0 auto;padding:1.5rem 1rem 4rem;color:var(--ink);
background:var(--page);overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0}h2{margin:2.5rem 0 .5rem;font-size:1.2rem}h3{margin:1.5rem 0 .3rem;font-size:1rem}
h4{margin:1rem 0 .2rem;font-size:.9rem;color:var(--soft)}a{color:var(--link)}
header{border-left:.5rem solid var(--tone);background:var(--tone-soft);padding:1rem 1.2rem;border-radius:.4rem}
header p{margin:.2rem 0 0}.bad{--tone:var(--bad);--tone-soft:var(--bad-soft)}
.ok{--tone:var(--ok);--tone-soft:var(--ok-soft)}
header h1,h2.bad,h2.ok{color:var(--tone)}
ol.all{padding-left:2.6rem;max-height:max(26rem,80vh);overflow-y:auto}ol.all li{margin:.25rem 0}ol.all a{color:inherit}
.incident{border:1px solid var(--line);border-left:.3rem solid var(--bad);border-radius:.4rem;padding:.8rem 1.1rem;
margin:1rem 0;background:var(--card);break-inside:avoid-page}
.incident h3{margin:0 0 .5rem;font-size:1.05rem;line-height:1.4}
.kind{display:block;font-size:.75rem;font-weight:600;letter-spacing:.05em;text-transform:uppercase;color:var(--bad)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:.5rem 0}dt{color:var(--soft)}dd{margin:0}
code{display:block;font:13px/1.5 ui-monospace,monospace;background:var(--page);border:1px solid var(--line);
border-radius:.3rem;padding:.4rem .6rem;margin:.2rem 0;overflow-wrap:anywhere;user-select:all}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:.3rem 0}
td,th{padding:.25rem .7rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
th{color:var(--soft);font-weight:600}td.l{white-space:normal;min-width:14rem}
td.n{text-align:right;font-variant-numeric:tabular-nums}tr.here td{background:var(--mark)}
tr.gap td{background:var(--bad-soft);color:var(--bad);text-align:center;font-weight:600}
summary{cursor:pointer;color:var(--soft);margin-top:.5rem}
.facts{display:flex;flex-wrap:wrap;gap:.3rem 2rem;padding:0;margin:.5rem 0;list-style:none}.facts b{font-weight:600}
.line{list-style:none;margin:.5rem 0;padding:0 0 0 .4rem}.line li{position:relative;padding:.1rem 0 .5rem 1.4rem;
border-left:2px solid var(--line)}.line li::before{content:"";position:absolute;left:-.38rem;top:.5rem;width:.65rem;
height:.65rem;border-radius:50%;background:var(--soft)}.line li.not{border-left-style:dashed;color:var(--bad)}
.line li.not::before{background:var(--page);border:2px solid var(--bad)}
.line li:last-child{border-left-color:transparent}
.line span{color:var(--soft);font-variant-numeric:tabular-nums;margin-left:.6rem}
figure{margin:1.5rem 0;break-inside:avoid}svg{max-width:100%;height:auto}svg text{fill:currentColor}
@media(max-width:40rem){dl{grid-template-columns:1fr;gap:0}dt{margin-top:.4rem}.incident{padding:.7rem .8rem}}
@media print{:root{color-scheme:light;--ink:#000;--soft:#444;--line:#bbb;--page:#fff;--card:#fff;--bad:#a00;
--bad-soft:#fff;--ok:#060;--ok-soft:#fff;--mark:#eee}body{max-width:none;padding:0;font-size:10.5pt}table{font-size:7.5pt}
td,th{padding:.1rem .3rem;white-space:normal;overflow-wrap:normal}td.l{min-width:8rem;overflow-wrap:anywhere}
.wide{overflow:visible}ol.all{max-height:none}h2,h3,h4{break-after:avoid}
details::details-content{content-visibility:visible;block-size:auto}summary{list-style:none;font-weight:600}
a{color:inherit;text-decoration:none}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_COMMAND = re.compile(r"\bkafka-[a-z-]+\.sh .*$", re.DOTALL)
_STEPS = (
    ("begin", "begun, says its coordinator", "Its coordinator does not say that it began"),
    ("first_record", "first record in a partition", "No record of it is in a partition"),
    ("prepare", "decided", "Its coordinator has not decided it"),
    ("first_marker", "first marker", "No partition has a marker of it"),
    ("last_marker", "last marker", ""),
    ("complete", "complete, says its coordinator", "Its coordinator does not call it complete"),
)
"""By column of the timelines: what is said of a step, and what if it is not there."""
_SINCE = {"stuck-prepare": "prepare", "txn-timeout-exceeded": "begin"}


def page_of(title: str, body: str) -> str:
    """A whole page that loads nothing and runs nothing."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        f'content="{_POLICY}"><title>{html.escape(title)}</title><style>{STYLE}</style>{body}</html>\n'
    )


def command_in(text: str) -> tuple[str, str]:
    """Advice, and the command at its end if there is one."""
    match = _COMMAND.search(text)
    return (text, "") if match is None else (text[: match.start()].strip(), match[0])


def said_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sentences of an incident below the first, with their labels."""
    findings = row["anomalies"] + row["problems"]
    parts = [
        ("Since", time_of(row["since"]) if row["since"] > 0 else row.get("begins", "")),
        ("Blocks", row["blocks"]),
        ("Cluster", row.get("cluster", "")),
        ("Run", row["run"]),
        ("Follows", f"{number(findings)} findings, in the tables below" if findings > 1 else ""),
    ]
    return [(label, text) for label, text in parts if text]


def since_of(audit: Path, row: Mapping[str, Any], around: pd.DataFrame) -> int:
    """Since when it is so: as the incident says, a step of its transaction, the first batch that it is about, or the
    last one before what is missing or cannot be read; -1 where nothing tells."""
    if row["since"] > 0:
        return int(row["since"])
    if row["incident"] in _SINCE:
        steps = steps_of(audit, row)
        return -1 if steps.empty else int(steps[_SINCE[row["incident"]]].iloc[-1])
    if around.empty:
        return -1
    known = around[around["timestamp"] > 0]
    times = [*known.loc[known["here"], "timestamp"].head(1), *known.loc[known["before"], "timestamp"].tail(1)]
    return int(times[0]) if times else -1


def card(
    place: int, audit: Path, row: Mapping[str, Any], around: pd.DataFrame, *, is_open: bool, is_one_of_many: bool
) -> str:
    """An incident: what is wrong, since when, what it blocks, what to run; then what it rests on."""
    lines = []
    for label, text in said_of(row):
        advice, command = command_in(text) if label == "Run" else (text, "")
        shown = html.escape(advice) + (f"<code>{html.escape(command)}</code>" if command else "")
        lines.append(f"<dt>{label}</dt><dd>{shown}</dd>")
    evidence = _batches(row, around) + _transactions(audit, row)
    if evidence:
        evidence = f"<details{' open' if is_open else ''}><summary>Evidence</summary>{evidence}</details>"
    kind = (f"{place} · " if is_one_of_many else "") + html.escape(words(row["incident"]))
    return (
        f'<section class="incident" id="i{place}"><h3><span class="kind">{kind}</span>{html.escape(row["what"])}</h3>'
        f"<dl>{''.join(lines)}</dl>{evidence}</section>"
    )


# ---------------------------------------------------------------------- evidence


def _batches(row: Mapping[str, Any], around: pd.DataFrame) -> str:
    if around.empty:
        return ""
    day, around = _without_day(around)
    here = around["here"]
    around = around.drop(columns=["here", "before"])
    around = around.drop(columns=[name for name in around if (around[name] == -1).all()])
    table = table_of(around, marked=here)
    rows = table.split("<tr")
    ends = around["last_offset"].tolist()
    begins = around["base_offset"].tolist()
    for at in range(len(begins) - 1, 0, -1):  # from behind, so that places stay
        if begins[at] > ends[at - 1] + 1:
            first, last = ends[at - 1] + 1, begins[at] - 1
            missing = (
                f"{number(first)} is not here" if first == last else f"{number(first)} to {number(last)} are not here"
            )
            rows.insert(at + 2, f' class="gap"><td colspan="{len(around.columns)}">{missing}</td></tr>')
    is_of_a_replica = str(row["incident"]).startswith("replica-")
    partition = html.escape(row["path"] if is_of_a_replica else f"{row['topic']}-{row['partition']}")
    return f'<h4>The batches around it, in {partition}{day}</h4><div class="wide">{"<tr".join(rows)}</div>'


def _without_day(frame: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Times of one day need no date; the day, for the heading."""
    times = [time_of(value) for value in frame["timestamp"]]
    days = {text[:10] for text in times if text}
    if len(days) != 1:
        return "", frame
    return f", {days.pop()} (UTC)", frame.assign(timestamp=[text[11:23] for text in times])


def _transactions(audit: Path, row: Mapping[str, Any]) -> str:
    steps = steps_of(audit, row)
    if steps.empty:
        return ""
    own = steps.iloc[-1].to_dict()
    about = f"{own['transactional_id'] or 'its producer'}, epoch {own['epoch']}"
    text = f"<h4>What became of the transaction of {html.escape(about)}</h4>{_line(own, _late(row, own))}"
    if len(steps) > 1:
        text += (
            f"<details><summary>The {len(steps)} last transactions of this producer</summary>"
            f'<div class="wide">{table_of(steps)}</div></details>'
        )
    return text


def _late(row: Mapping[str, Any], own: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The batch that hangs, where it came when its transaction had been decided already."""
    if row["incident"] != "hanging-transaction" or not 0 < own["prepare"] < row["since"]:
        return []
    return [(int(row["since"]), f"the batch at offset {number(row['offset'])}, which nothing ends")]


def _line(steps: Mapping[str, Any], more: Sequence[tuple[int, str]]) -> str:
    """The steps in the order of their times; those that did not come are last."""
    known = [*((int(steps[name]), label) for name, label, _ in _STEPS if steps[name] > 0), *more]
    there = sorted(known, key=lambda one: one[0])
    absent = [text for name, _, text in _STEPS if steps[name] <= 0 and text]
    lines, before = [], 0
    for when, label in there:
        after = f"+{span(when - before)}" if before and when > before else ""
        lines.append(f"<li>{label}<span>{time_of(when)}</span><span>{after}</span></li>")
        before = when
    lines += [f'<li class="not">{text}</li>' for text in absent]
    return f'<ul class="line">{"".join(lines)}</ul>'
