"""The lines of producers and consumer."""

from __future__ import annotations

import pytest
from tests.demo.samples import posting, seen

from odradek.demo import lines
from odradek.demo.lines import (
    AtEnd,
    Began,
    Committing,
    Ended,
    JsonLines,
    Line,
    Read,
    Spoken,
    Started,
    Trouble,
    Violated,
    decode_line,
)
from odradek.demo.transfers import Fate

LINES: list[Line] = [
    Started("till-1"),
    Began("a", 3, Fate.CRASH_COMMITTING),
    Committing("a"),
    Ended("a", True),
    Ended("b", False),
    Trouble("timed out", fatal=True),
    Read([seen(4, posting("a", 1), partition=2)]),
    AtEnd(2, 6),
    Violated("part 1 was read twice"),
]


def test_every_line_survives(capsys: pytest.CaptureFixture[str]) -> None:
    for line in LINES:
        JsonLines()(line)
    assert LINES == [decode_line(line) for line in capsys.readouterr().out.splitlines()]


def test_people_get_counts(capsys: pytest.CaptureFixture[str]) -> None:
    spoken = Spoken()
    for line in LINES:
        spoken(line)
    spoken.speak()
    assert [
        "started as till-1",
        "trouble: timed out",
        "violated: part 1 was read twice",
        "1 VIOLATION, 1 error, 1 record read, 1 transaction aborted, 1 transaction committed",
    ] == capsys.readouterr().out.splitlines()


def test_counts_come_every_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SPEAK_EVERY_S", 0.0)
    Spoken()(Ended("a", True))
    assert "1 transaction committed\n" == capsys.readouterr().out
