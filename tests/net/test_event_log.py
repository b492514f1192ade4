"""The event log where the disk has no place for it."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from odradek.cli.usage import UsageError
from odradek.core.machine import Fact
from odradek.net.event_log import EventLog

FACTS = tuple(Fact("topic_created", {"topic": f"orders-{number}"}) for number in range(20))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: a write ends there, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_finds_no_place_is_told_once_and_fails_nobody(tmp_path: Path) -> None:
    path, log = tmp_path / "events.jsonl", CapturingLogger()
    with closing(EventLog(path, log)) as events:
        with room_for(1000):
            for fact in FACTS:
                events.emit(1, (fact,))
        whole = [json.loads(line) for line in path.read_text().splitlines()]
        assert list(range(1, len(whole) + 1)) == [event["seq"] for event in whole]
        assert 0 < len(whole) < len(FACTS)
        events.emit(1, FACTS[:1])
        assert len(whole) == len(path.read_text().splitlines())
        lost = len(FACTS) + 1 - len(whole)
        assert f"{path} lacks {lost} events, from number {len(whole) + 1} on: File too large." == events.lost
    [told] = log.calls
    assert ("error", ("events_lost",)) == (told.method_name, told.args)
    assert {"path": str(path), "from_seq": len(whole) + 1, "reason": "File too large"} == told.kwargs


def test_where_there_is_place_nothing_is_lost(tmp_path: Path) -> None:
    log = CapturingLogger()
    with closing(EventLog(tmp_path / "events.jsonl", log)) as events:
        events.emit(1, FACTS)
        assert events.lost is None
    assert [] == log.calls


def test_a_file_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Cannot write events to .*: Is a directory\."):
        EventLog(tmp_path, CapturingLogger())
