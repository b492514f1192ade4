"""The report: incidents first, with what to do; evidence below; nothing that only programs read."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import Log, is_commit, is_data

from odradek_pipeline.jobs.report import write_report
from odradek_pipeline.result import Result, anomalies_frame, write_result
from odradek_pipeline.wording import number, table_of, time_of


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
    assert re.search(r"Since:</span> 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", head)
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
    steps = page[page.index("The steps of its transactions") :]
    assert "<td>commit</td>" in steps[: steps.index("</table>")], "the coordinator had decided otherwise"


def test_evidence_of_damage_inside_a_segment(tmp_path: Path) -> None:
    root = unpack("java_level_2_clean_stop", tmp_path)
    Log(root, "orders-0").change(is_data, 2, 16, b"\x09", seal=False)
    assert "The batches around it" in page_of(root, tmp_path / "out")


def test_nothing_that_only_programs_read(tmp_path: Path) -> None:
    for name in ("hang", "tv2"):
        page = page_of(unpack(name, tmp_path), tmp_path / f"out-{name}")
        body = re.sub(r"<svg.*?</svg>|<style>.*?</style>", "", page, flags=re.S)
        assert not re.search(r"\{|\}|&quot;|\bnan\b|>-1<|>None<", body)
    assert "Nothing that breaks a promise was found." in body
    assert "begin to decision" in body


def test_what_a_name_contains_is_no_markup(tmp_path: Path) -> None:
    anomalies = anomalies_frame([])
    result = Result("logs", anomalies)
    row = {"incident": "other", "topic": "<b>", "what": "<script>alert(1)</script> & co", "path": "/nowhere"}
    numbers = dict.fromkeys(("partition", "offset", "end_offset", "producer_id", "producer_epoch", "position"), -1)
    result.incidents = pd.DataFrame(
        [
            {
                **row,
                **numbers,
                "since": -1,
                "blocks": "",
                "run": "",
                "anomalies": 1,
                "problems": 0,
                "transactional_id": "",
            }
        ]
    )
    write_result(result, tmp_path)
    write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in page
    assert "<script" not in page


def test_numbers_and_times() -> None:
    assert ("1,234,567", "0.123", "12.3", "1,235") == tuple(map(number, (1234567, 0.1234, 12.345, 1234.7)))
    assert ("2023-11-14 22:13:20.007 UTC", "") == (time_of(1_700_000_000_007), time_of(-1))
    table = table_of(pd.DataFrame({"producer_id": [12345], "offset": [12345], "path": [""]}))
    assert '<td class="n">12345</td><td class="n">12,345</td><td></td>' in table
