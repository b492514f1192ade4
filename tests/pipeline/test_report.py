"""The report: incidents first, with what to do; evidence below; nothing that only programs read."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import Log, is_commit, is_data
from tests.pipeline.corpus.faults import FAULTS
from tests.pipeline.corpus.faults_of_transactions import stuck

from odradek_pipeline.jobs.audit_history import audit_history
from odradek_pipeline.jobs.report import write_report
from odradek_pipeline.pictures import pictures_of
from odradek_pipeline.result import Result, anomalies_frame, write_result
from odradek_pipeline.wording import number, size, span, table_of, time_of


def page_of(root: Path, out: Path) -> str:
    write_result(audited(root), out)
    write_report(out)
    return (out / "report.html").read_text()


def test_it_begins_with_what_is_wrong_and_what_to_run(tmp_path: Path) -> None:
    page = page_of(unpack("hang", tmp_path), tmp_path / "out")
    head = page[page.index("<h1") : page.index("<h2")]
    assert "1 incident: what is wrong" in head
    assert "A transaction of producer 1 (shop) hangs in orders-0 since offset 36" in head
    command = "abort --topic orders --partition 0 --start-offset 36</code>"
    assert command in head
    assert re.search(r"<dt>Since</dt><dd>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", head)
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.index("## hanging transaction") < text.index("## Logs: bad")
    assert command.removesuffix("</code>") in text


def test_the_batches_around_a_place_and_the_steps_of_its_transaction(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    log = Log(root, "orders-1")
    offset = int.from_bytes(log.read()[log.places(is_commit)[1]][:8])
    log.change(is_commit, 1, 69, b"\0")
    page = page_of(root, tmp_path / "out")
    (marked,) = re.findall(r'<tr class="here">(.*?)</tr>', page)
    assert marked.startswith(f'<td class="n">{offset}</td>')
    assert "abort marker" in marked
    steps = page[page.index("What became of the transaction of shop") :]
    assert "<td>commit</td>" in steps[: steps.index("</table>")], "the coordinator had decided otherwise"


def test_evidence_of_damage_inside_a_segment(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    Log(root, "orders-0").change(is_data, 2, 16, b"\x09", seal=False)
    assert "The batches around it" in page_of(root, tmp_path / "out")


def test_nothing_that_only_programs_read(tmp_path: Path) -> None:
    for name in ("hang", "tv2"):
        page = page_of(unpack(name, tmp_path), tmp_path / f"out-{name}")
        body = re.sub(r"<svg.*?</svg>|<style>.*?</style>|<meta.*?>", "", page, flags=re.S)
        assert not re.search(r"\{|\}|&quot;|\bnan\b|>-1<|>None<", body)
    assert "Nothing that breaks a promise was found." in body
    assert "begin to decision" in body


NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(2)> & $\\frac{ co'


def incident(place: int = 0, changed: Mapping[str, object] | None = None) -> dict[str, object]:
    numbers = dict.fromkeys(("partition", "offset", "end_offset", "producer_id", "producer_epoch", "position"), -1)
    texts = {"incident": "other", "topic": "t", "what": f"Number {place}.", "path": "/nowhere", "transactional_id": ""}
    return {**texts, **numbers, "since": -1, "blocks": "", "run": "", "anomalies": 1, "problems": 0, **(changed or {})}


def page_with(tmp_path: Path, *rows: dict[str, object]) -> str:
    result = Result("logs", anomalies_frame([]))
    result.incidents = pd.DataFrame(rows)
    write_result(result, tmp_path)
    write_report(tmp_path)
    return (tmp_path / "report.html").read_text()


def test_what_a_name_contains_is_no_markup(tmp_path: Path) -> None:
    names = ("incident", "topic", "what", "path", "blocks", "run", "transactional_id")
    page = page_with(tmp_path, incident(0, dict.fromkeys(names, NASTY)), incident(1, {"run": f"kafka-x.sh {NASTY}"}))
    assert html.escape(NASTY) in page
    assert not re.search(r"<script|<img", page)
    assert "default-src 'none'" in page, "and if it were, it would not run"
    assert not re.search(r"<script|<img", (tmp_path / "report.md").read_text())


def test_names_in_pictures_are_text_and_not_mathematics(tmp_path: Path) -> None:
    """A transactional id can be anything; `$` begins a formula in matplotlib, `_` hides a line from its legend."""
    at = {"topic": "_orders", "partition": 0}
    moments = [{"ts_ns": second * 10**9, **at, "hw": 5 + second, "lso": 5} for second in range(3)]
    stall = {**at, "begin_ns": 0, "end_ns": 2 * 10**9, "lso": 5, "transactional_id": NASTY, "open_at_end": True}
    pd.DataFrame(moments).to_parquet(tmp_path / "lso.parquet")
    pd.DataFrame([stall]).to_parquet(tmp_path / "stalls.parquet")
    (picture,) = pictures_of(tmp_path)
    assert not re.search(r"<script|<img", picture)
    assert "&lt;script&gt;" in picture
    assert "#000000" not in picture, "ink is that of the page"


def test_five_hundred_incidents(tmp_path: Path) -> None:
    page = page_with(tmp_path, *(incident(number, {"topic": "t" * 249}) for number in range(700)))
    listed = page[: page.index('<section class="incident"')]
    assert 500 == listed.count("<li>")
    assert "And 200 more in incidents.parquet." in listed
    assert 50 == page.count('<section class="incident"')
    assert len(page) < 1_000_000
    assert '<a href="#i1">Number 0.</a>' in listed


def test_what_is_missing_is_shown_between_what_is_there(tmp_path: Path) -> None:
    root = unpack("deleted_records", tmp_path)
    log = Log(root, "orders-2")
    log.remove(log.segments[1])
    page = page_of(root, tmp_path / "out")
    assert re.search(r'<tr class="gap"><td colspan="8">4 to 7 are not here</td></tr><tr><td class="n">8</td>', page)


def test_the_steps_of_a_transaction_and_those_that_never_came(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    stuck(root, commit=True)
    page = page_of(root, tmp_path / "out")
    line = page[page.index('<ul class="line">') : page.index("</ul>")]
    assert ["begun", "decided"] == re.findall(r"<li>(\w+)", line)
    assert re.search(r"<span>\+\d+ ms</span>", line)
    assert '<li class="not">No partition has a marker of it</li>' in line
    assert re.search(r"<dt>Since</dt><dd>20", page)
    assert "PrepareCommit for 3 h, and not all" in page
    assert (
        "again.<code>kafka-transactions.sh --bootstrap-server HOST:PORT describe --transactional-id shop</code>" in page
    )


def test_findings_of_histories_are_sentences_too(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(
        '{"time": 1, "process": 0, "type": "ok", "f": "send", "value": [["send", "t-0", [0, 1]]]}\n'
        '{"time": 2, "process": 0, "type": "ok", "f": "send", "value": [["send", "t-0", [1, 2]]]}\n'
        '{"time": 3, "process": 1, "type": "ok", "f": "poll", "value": [["poll", {"t-0": [[1, 2]]}]]}\n'
    )
    write_result(audit_history([history]), tmp_path / "out")
    assert write_report(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Once an acknowledged write was never read, and later ones were" in page[: page.index("<h2")]


def test_numbers_and_times() -> None:
    assert ("1,234,567", "0.123", "12.3", "1,235") == tuple(map(number, (1234567, 0.1234, 12.345, 1234.7)))
    assert ("2023-11-14 22:13:20.007 UTC", "") == (time_of(1_700_000_000_007), time_of(-1))
    assert "9,223,372,036,854,775,807 ms after 1970" == time_of(2**63 - 1)
    assert ("999 bytes", "18.6 KB", "7 ms", "1.5 s", "2 min 5 s", "3 h", "2 d 1 h") == (
        *map(size, (999, 18_630)),
        *map(span, (7, 1500, 125_000, 10_800_001, 176_400_000)),
    )
    table = table_of(pd.DataFrame({"producer_id": [12345], "offset": [12345], "path": [""]}))
    assert '<td class="n">12345</td><td class="n">12,345</td><td></td>' in table


def test_since_when_it_is_so_and_what_is_missing_alone(tmp_path: Path) -> None:
    wanted = {
        "a sequence number that jumps ahead": r"<dt>Since</dt><dd>20\d\d-",
        "zeros in the middle": r"<dt>Since</dt><dd>20\d\d-",
        "the first of a transaction": "2 is not here",
        "both outcomes, and no coordinators' log": "describe-producers --topic orders --partition 1</code>",
    }
    planted = {fault.name: fault for fault in FAULTS if fault.name in wanted}
    for place, (name, text) in enumerate(wanted.items()):
        root = unpack(planted[name].base, tmp_path / str(place))
        planted[name].plant(root)
        assert re.search(text, page_of(root, tmp_path / f"out-{place}")), name


def test_evidence_is_of_a_place_in_a_log(tmp_path: Path) -> None:
    (fault,) = (one for one in FAULTS if one.name == "an index position in the middle of a batch")
    root = unpack(fault.base, tmp_path)
    fault.plant(root)
    assert "The batches around it" not in page_of(root, tmp_path / "out"), "those at the end are not around it"


def test_an_audit_that_is_still_writing_is_left_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_result(Result("logs", anomalies_frame([])), tmp_path / name)
    (tmp_path / "two" / "summary.json").unlink()
    assert not write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert 1 == page.count("<h2")
    assert "audits of logs" not in page
