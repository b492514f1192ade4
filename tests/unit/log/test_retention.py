"""Retention drops whole segments, by the youngest record of each and by what remains."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.log.helpers import NOW, batch, new_log

from odradek.log.log import Log
from odradek.log.retention import retain

SIZE = len(batch().view)


def aged(*ages: int, **config: Any) -> Log:
    """A log with a segment for each age."""
    log = new_log(segment_bytes=SIZE, **config)
    for age in ages:
        log.append(batch(timestamp=NOW - age), leader_epoch=0, now=NOW - age)
    return log


def start_after(log: Log) -> int:
    retain(log, NOW)
    return log.start_offset


@pytest.mark.parametrize(("retention_ms", "start"), [(-1, 0), (300, 0), (299, 1), (150, 2), (100, 2), (99, 3), (0, 3)])
def test_by_time(retention_ms: int, start: int) -> None:
    assert start == start_after(aged(300, 200, 100, retention_ms=retention_ms))


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    assert 0 == start_after(aged(10, 300, retention_ms=100))


def test_the_active_segment_goes_too_when_all_of_it_is_too_old() -> None:
    log = aged(300, retention_ms=100)
    assert 1 == start_after(log)
    assert (0, 1) == (log.size_bytes, log.end_offset)
    assert 1 == log.append(batch(timestamp=NOW), leader_epoch=0, now=NOW)


def test_records_without_a_timestamp_age_with_their_segment() -> None:
    log = new_log(segment_bytes=SIZE, retention_ms=100)
    log.append(batch(timestamp=-1), leader_epoch=0, now=NOW - 101)
    log.append(batch(timestamp=-1), leader_epoch=0, now=NOW - 100)
    assert 1 == start_after(log)


@pytest.mark.parametrize(("retention_bytes", "start"), [(-1, 0), (3, 0), (2.5, 0), (2, 1), (1, 2), (0, 3)])
def test_by_size_never_keeps_less_than_asked_for(retention_bytes: float, start: int) -> None:
    asked = -1 if retention_bytes < 0 else int(retention_bytes * SIZE)
    assert start == start_after(aged(0, 0, 0, retention_bytes=asked))


def test_compacted_topics_are_not_deleted_from() -> None:
    assert 0 == start_after(aged(300, cleanup_policy=("compact",), retention_ms=1, retention_bytes=0))


def test_both_policies_together() -> None:
    assert 1 == start_after(aged(300, 50, cleanup_policy=("compact", "delete"), retention_ms=100))
