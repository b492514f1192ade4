"""A window of an event file, whatever the file is."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.show.event_files import line, played, written

from odradek.cli.usage import UsageError
from odradek.show import search, window
from odradek.show.events import Event
from odradek.show.window import Window, read_window

FILLER = 3_000


def seqs(read: Window) -> list[int]:
    return [event.seq for event in read.events]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A thousand events."""
    return written(tmp_path / "many.jsonl", (line(seq) for seq in range(1, 1001)))


@pytest.fixture(params=[1 << 20, 500], ids=["one-block", "many-blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Files are read in blocks, which may be smaller than a file."""
    monkeypatch.setattr(window, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(search, "CHUNK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block")
def test_the_newest_events(many: Path) -> None:
    read = read_window(many, most=10)
    assert seqs(read) == list(range(991, 1001))
    assert (read.left_out, read.note) == (990, "10 events of 1,000: the newest.")
    whole = read_window(many)
    assert (seqs(whole), whole.left_out, whole.note) == (list(range(1, 1001)), 0, "")


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("first", [1, 2, 317, 1000])
def test_events_from_a_number_on(many: Path, first: int) -> None:
    read = read_window(many, first=first, most=5)
    assert seqs(read) == list(range(first, min(first + 5, 1001)))
    assert read.left_out == 1000 - len(read.events)
    assert read.note.endswith(f"of 1,000: those from number {first} on.")


def test_no_event_is_missed_wherever_it_is(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "BLOCK_BYTES", 300)
    for first in range(1, 1001, 9):
        assert seqs(read_window(many, first=first, most=1)) == [first]


@pytest.mark.usefixtures("block")
def test_a_file_that_begins_later(tmp_path: Path) -> None:
    """That of a failed test has the newest events of its cluster."""
    file = written(tmp_path / "tail.jsonl", (line(seq) for seq in range(501, 1001)))
    assert read_window(file, most=100).left_out == 400
    assert seqs(read_window(file, first=1, most=2)) == [501, 502]


@pytest.mark.usefixtures("block")
def test_the_events_about_a_transactional_id_and_those_near_them(tmp_path: Path) -> None:
    """Far from each other, its events are found; those of the partition have its producer id only."""
    told = played(["x", "other"])
    mine = [each for each in told if b'"kind":"re' not in each and (b'"x"' in each or b'"producer_id":0,' in each)]
    lines = [line(seq) for seq in range(FILLER)]
    places = [150 + 170 * number for number in range(len(mine))]
    for place, each in zip(places, mine, strict=True):
        lines[place] = each.replace(each[each.index(b'"seq"') : each.index(b',"node"')], b'"seq":%d' % place)
    read = read_window(written(tmp_path / "x.jsonl", lines), transactional_id="x")
    assert {b"transaction_opened" in each and b'"x"' not in each for each in mine} == {True, False}
    assert set(places) <= set(seqs(read))
    assert len(read.events) == len(mine) * (2 * search.NEAR + 1)
    assert read.left_out == FILLER - len(read.events)
    assert "those about x, and what is near them." in read.note


@pytest.mark.usefixtures("block")
def test_an_event_with_a_producer_id_that_only_an_older_line_explains(tmp_path: Path) -> None:
    lines = [line(seq) for seq in range(1, 401)]
    lines[100] = line(101, "init_producer_id", transactional_id="x", producer_id=7, producer_epoch=0)
    lines[300] = line(301, "transaction_opened", topic="t", partition=0, producer_id=7, offset=0)
    lines[350] = line(351, "transaction_opened", topic="t", partition=0, producer_id=77, offset=0)
    read = read_window(written(tmp_path / "x.jsonl", lines), transactional_id="x")
    assert {101, 301} <= set(seqs(read))
    assert 351 not in seqs(read)


@pytest.mark.usefixtures("block")
def test_an_answer_far_behind_its_request(tmp_path: Path) -> None:
    """It says nothing of the id; others have the same correlation id."""
    exchange: dict[str, Any] = {"api": "END_TXN", "version": 5, "client_id": "till", "correlation": 4}
    lines = [line(seq) for seq in range(1, 401)]
    lines[50] = line(51, "request", connection=3, **exchange)
    lines[51] = line(52, "state_change", transactional_id="x", producer_id=7, state_to="PrepareCommit")
    for place, connection, node in ((100, 2, 1), (200, 3, 2), (300, 3, 1), (350, 3, 1)):
        lines[place] = line(place + 1, "response", node, connection=connection, error="NONE", **exchange)
    read = read_window(written(tmp_path / "x.jsonl", lines), transactional_id="x")
    assert [seq for seq in seqs(read) if seq > 51 + search.NEAR + 1] == [301]


def test_of_very_many_events_about_an_id_the_newest(tmp_path: Path) -> None:
    lines = (line(seq, "fenced", transactional_id="x") for seq in range(1, 1001))
    read = read_window(written(tmp_path / "x.jsonl", lines), transactional_id="x", most=50)
    assert seqs(read) == list(range(951, 1001))


# ---------------------------------------------------------------------- what is wrong with files


def test_a_file_that_is_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl"
    file.write_bytes(line(1) + b"\n" + line(2) + b"\n" + line(3)[:40])
    for read in (read_window(file), read_window(file, first=1)):
        assert (seqs(read), read.note) == ([1, 2], "The file ends in the middle of an event.")


def test_a_last_event_without_its_end_of_line_is_an_event(tmp_path: Path) -> None:
    file = tmp_path / "whole.jsonl"
    file.write_bytes(line(1) + b"\n" + line(2))
    assert (seqs(read_window(file)), read_window(file).note) == ([1, 2], "")


def test_lines_in_the_middle_that_are_no_events(tmp_path: Path) -> None:
    file = written(tmp_path / "odd.jsonl", [line(1), b"", b"\x00\xff", b'{"kind":"request"}', b"[]", line(2)])
    assert (seqs(read_window(file)), read_window(file).note) == ([1, 2], "3 lines are no events.")


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    """`odradek serve --events` appends."""
    file = written(tmp_path / "runs.jsonl", [*map(line, range(1, 8)), *map(line, range(1, 4))])
    read = read_window(file)
    assert (seqs(read), read.left_out) == ([1, 2, 3], 0)
    assert read.note == "The file has the events of several runs; these are of the last one."


def test_a_newer_version_with_more_kinds_and_fields(tmp_path: Path) -> None:
    file = written(tmp_path / "new.jsonl", [line(1, "moon_rose", phase=["full"], body={"a": 1})])
    [event] = read_window(file).events
    assert event == Event(
        seq=1, at_ns=1_000_000, node=1, kind="moon_rose", fields={"phase": ["full"], "body": {"a": 1}}
    )


@pytest.mark.parametrize("odd", [{"topic": ["t"]}, {"partition": "0"}, {"producer_id": 1.5}, {"correlation": {}}])
def test_an_event_that_cannot_be_understood_is_none(tmp_path: Path, odd: dict[str, Any]) -> None:
    read = read_window(written(tmp_path / "odd.jsonl", [line(1), line(2, **odd), line(3)]))
    assert (seqs(read), read.note) == ([1, 3], "1 line is no event.")


def test_a_pipe_is_read_to_its_end(tmp_path: Path, many: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(many.read_bytes()))
    writer.start()
    assert seqs(read_window(pipe, most=3)) == [998, 999, 1000]
    writer.join()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "this is no event file"),
        (b"\x7fELF\x00\x00" * 1000, "this is no event file"),
        (b'[1, 2, 3]\n{"name": "odradek"}\n', "this is no event file"),
        (b"\xff\xfe{\x00", "this is no event file"),
        (b"[" * 100_000, "this is no event file"),
        (b'{"kind":"request","seq":"one","wall_ns":1,"node":1}\n', "does not know the format of its events"),
        (b'{"kind":"request","seq":1,"at":1,"broker":1}\n', "does not know the format of its events"),
    ],
    ids=["empty", "blank", "binary", "json", "utf-16", "deep", "types", "names"],
)
def test_what_is_no_event_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence) as refused:
        read_window(file)
    assert len(str(refused.value).splitlines()) == 1


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, many: Path) -> None:
    with pytest.raises(UsageError, match="none: No such file"):
        read_window(tmp_path / "none")
    with pytest.raises(UsageError, match="Is a directory"):
        read_window(tmp_path)
    with pytest.raises(UsageError, match="no event from number 2000 on: its last is 1000"):
        read_window(many, first=2000)
    with pytest.raises(UsageError, match="says nothing about the transactional id 'x'"):
        read_window(many, transactional_id="x")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="here everybody may read everything")
def test_a_file_that_may_not_be_read(many: Path) -> None:
    many.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        read_window(many)


def test_a_file_says_what_was_stuck(tmp_path: Path) -> None:
    why = {"now_ms": 1, "reasons": [], "sentences": ["Nothing is stuck."], "events": []}
    file = written(tmp_path / "why.jsonl", [line(1), line(2), line(3, "why", why=why)])
    for read in (read_window(file), read_window(file, first=1), read_window(file, most=1)):
        assert read.why == why
        assert seqs(read)[-1] == 2
