"""The report: incidents first, with what to do; evidence below; nothing that only programs read."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import Log, is_commit, is_data
from tests.pipeline.corpus.faults import FAULTS
from tests.pipeline.corpus.faults_of_transactions import stuck

from odradek_pipeline.audit.result import Result, Severity, anomalies_frame, anomaly, write_result
from odradek_pipeline.jobs.audit_events import audit_events
from odradek_pipeline.jobs.audit_history import audit_history
from odradek_pipeline.report.finding_words import MEANINGS, sentences_of
from odradek_pipeline.report.pictures import pictures_of, standing_alone
from odradek_pipeline.report.write import write_report
from odradek_pipeline.wording import counted, listed, number, size, span, table_of, time_of


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
    assert re.search(r"- newest record: 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC\n", text)
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


def test_a_picture_of_its_own_has_ink_and_paper_for_both_schemes() -> None:
    tree = ElementTree.fromstring(
        standing_alone('<svg xmlns="http://www.w3.org/2000/svg" width="1"><text>x</text></svg>')
    )
    style, paper, text = tree
    assert "prefers-color-scheme:dark" in (style.text or "")
    assert ("page", "x", "1") == (paper.get("class"), text.text, tree.get("width"))


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
    head = page[: page.index("<h2")]
    said = "value 1 was acknowledged at offset 0; reads went on to offset 1 and never had it."
    assert f"An acknowledged write was never read, and later ones were: t-0 at offset 0; {said}" in head
    assert f"<dt>Since</dt><dd>operation 1 of {history}, of process 0</dd>" in head
    assert "odradek audit logs" in head[head.index("<dt>Run</dt>") :]
    assert "Read: history, 3 operations, 1 file, " in head
    assert "<svg" not in page, "a few polls are no picture"


def found_in_history(*rows: dict[str, object]) -> list[str]:
    bad = [anomaly(str(row.pop("anomaly")), Severity.BAD, "why", **row) for row in rows]
    return [row["what"] for row in sentences_of(anomalies_frame(bad))]


def test_several_findings_of_a_kind_are_one_sentence_with_the_places_of_a_few() -> None:
    at = [{"anomaly": "duplicate", "topic": "t", "partition": 0, "offset": offset} for offset in range(1000, 1007)]
    places = "t-0 at offset 1,000, t-0 at offset 1,001 and 5 more"
    assert [f"7 values are there at two offsets each: {places}; of the first: why."] == found_in_history(*at)
    cycle = {"anomaly": "G1c", "process": "3", "position": 4}
    assert ["Transactions depend on each other in a cycle: why."] == found_in_history(cycle)
    assert ["Never heard of: t-0 at offset 7; why."] == found_in_history(
        {"anomaly": "never-heard-of", "topic": "t", "partition": 0, "offset": 7}
    )


def test_every_finding_is_said_in_full() -> None:
    """What it is, of one and of several, what it costs and what to run."""
    for kind, texts in MEANINGS.items():
        assert all(texts), kind
        for count in (1, 2):
            at: dict[str, object] = {"topic": "t", "partition": 0, "producer_id": 5, "transactional_id": "shop"}
            rows = [anomaly(kind, Severity.BAD, "why", **{**at, "offset": offset}) for offset in range(count)]
            (said,) = sentences_of(anomalies_frame(rows))
            assert not re.search(r"[{}]|--topic +-|-id *$", said["what"] + said["run"]), said
            assert said["what"].endswith("why.")


def test_a_history_is_told_without_lists_of_a_programming_language(tmp_path: Path) -> None:
    def line(process: int, f: str, *steps: object) -> str:
        return json.dumps({"process": process, "type": "ok", "f": f, "value": list(steps), "time": 1}) + "\n"

    history = tmp_path / "history.jsonl"
    polls = [
        line(1, "poll", ["poll", {"t-0": [[offset, value]]}]) for offset, value in ((0, 4), (0, 5), (2, 4), (7, 8))
    ]
    sends = [line(0, "send", ["send", "t-0", [5, 6]]), line(0, "send", ["send", "t-0", [6, 9]])]
    history.write_text("".join(sends + polls))
    details = audit_history([history]).anomalies["detail"].tolist()
    assert {"values 4 and 5", "value 4 at offsets 0 and 2", "offset 7 follows 2: 2 values skipped"} <= set(details)
    assert not any("[" in one for one in details)


def events_of(tmp_path: Path, *, wall: bool) -> Path:
    """A transaction that stays open in two partitions, and its coordinator says that it is complete."""
    id_of: dict[str, object] = {"producer_id": 5, "producer_epoch": 0, "transactional_id": "shop"}
    started: list[dict[str, object]] = [
        {"kind": "transaction_opened", "topic": "orders", "partition": at, "offset": 2} for at in (0, 1)
    ]
    rest: list[dict[str, object]] = [
        {"kind": "state_change", "state_to": "CompleteCommit"},
        {"kind": "lso_moved", "topic": "orders", "partition": 0, "hw": 9, "lso": 2},
    ]
    path = tmp_path / "events.jsonl"
    with path.open("w") as file:
        for number, event in enumerate([*started, *rest]):
            now = {"ts_ns": 1_000_000_000 + number * 1_000_000, "seq": number, "node": 1}
            if wall:
                now["wall_ns"] = now["ts_ns"] + 1_700_000_000_000_000_000
            file.write(json.dumps({**now, **id_of, **event}) + "\n")
    return path


def test_a_transaction_that_hangs_in_events_is_one_incident_with_what_it_holds(tmp_path: Path) -> None:
    write_result(audit_events([events_of(tmp_path, wall=True)]), tmp_path / "out")
    assert write_report(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    head = page[: page.index("<h2")]
    assert "1 incident: what is wrong" in head
    said = "of the first: open since offset 2; its coordinator says CompleteCommit."
    assert f"A transaction of producer 5 (shop) hangs in orders-0 and orders-1: {said}" in head
    assert "<dt>Since</dt><dd>2023-11-14 22:13:21.000 UTC</dd>" in head
    assert "abort --topic orders --partition 0 --start-offset 2</code>" in head
    assert "4 findings, in the tables below" in head, "two that hang, and the stalls of both partitions"
    assert "monotonic" not in page
    assert "of shop" not in page
    assert "held by producer 5 (shop)" in page


def test_events_without_a_wall_clock_have_no_since(tmp_path: Path) -> None:
    write_result(audit_events([events_of(tmp_path, wall=False)]), tmp_path / "out")
    write_report(tmp_path / "out")
    assert "<dt>Since" not in (tmp_path / "out" / "report.html").read_text()


def test_what_a_replica_lacks_stands_among_its_own_batches(tmp_path: Path) -> None:
    root = unpack("three_brokers", tmp_path)
    Log(root, "orders-0", 3).drop(is_data, 2)
    page = page_of(root, tmp_path / "out")
    problems = page[page.index("<summary>Problems") :]
    assert problems.index("replica-lacks") < problems.index("other-replica"), "what is bad is first"
    assert f"The batches around it, in {root}/broker-3/orders-0, 20" in page
    assert "4 to 5 are not here" in page
    assert re.search(r"<dt>Since</dt><dd>20\d\d-", page)


def test_incidents_have_the_numbers_of_the_list_and_levels_are_words(tmp_path: Path) -> None:
    one, two = (unpack("java_level_2_clean_stop", tmp_path / name) for name in ("1", "2"))
    for root in (one, two):
        Log(root, "orders-1").change(is_commit, 1, 69, b"\0")
    assert ">incident<" not in page_of(one, tmp_path / "one"), "there is one"
    stuck(two, commit=True)
    page = page_of(two, tmp_path / "two")
    assert ["1", "2"] == re.findall(r'<span class="kind">(\d) · ', page)
    (place,) = re.findall(r'id="i(\d)"><h3><span class="kind">\d · wrong outcome', page)
    table = page[page.index("<summary>Anomalies") :]
    row = next(one for one in table.split("<tr") if "txn-wrong-outcome" in one)
    assert row.startswith("><td>txn-wrong-outcome</td>")
    assert f'<td class="n">{place}</td></tr>' in row
    assert re.search(r"transaction\.version <b>2 since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC</b>", page)


def test_numbers_and_times() -> None:
    assert ("1 file", "1,000 files", "2 batches") == (
        counted(1, "file"),
        counted(1000, "file"),
        counted(2, "batch", "batches"),
    )
    assert ("", "4", "4 and 5", "4, 5 and 6", "1, 2, 3, 4 and 3 more") == (
        *map(listed, ([], [4], [4, 5], [4, 5, 6], range(1, 8))),
    )
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
