"""Commit markers that nobody decided, and when a log of coordinators without the decision proves that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import CRC_AT, Log, reseal
from tests.pipeline.corpus.fault import CLEANED, LEVEL_1, STOPPED
from tests.pipeline.corpus.faults_of_coordinators import appended
from tests.pipeline.corpus.faults_of_logs import coordinators
from tests.pipeline.corpus.faults_of_transactions import begun_by_nobody
from tests.pipeline.running_copies import DESTROYS

from odradek_pipeline.audit.result import Result

STRANGER = 900
"""A producer id that was given out, and of which no coordinator has a record."""
MAX_TIMESTAMP_AT, BASE_TIMESTAMP_AT = 35, 27


def told(result: Result) -> list[str]:
    rows = result.anomalies.to_dict("records")
    return [row["severity"] for row in rows if row["anomaly"] == "txn-undecided-marker"]


def commands(result: Result) -> list[str]:
    assert result.incidents is not None
    return [run for run in result.incidents["run"] if any(word in run for word in DESTROYS)]


@pytest.mark.parametrize("producer", [None, STRANGER])
def test_it_is_told_without_a_command_that_destroys(tmp_path: Path, producer: int | None) -> None:
    root = unpack(STOPPED, tmp_path)
    begun_by_nobody(root, bumped=1, producer=producer)
    result = audited(root)
    assert ["bad"] == told(result)
    assert [] == commands(result)


def compacted(root: Path) -> None:
    """The cleaner has been in one partition of the coordinators' log."""
    coordinators(root).checkpoint(CLEANED, 1)


def deleted(root: Path) -> None:
    """Records of the coordinators' log were deleted, up to the second segment."""
    log = coordinators(root)
    (path,) = log.segments
    found = log.read()
    path.unlink()
    base = int.from_bytes(found[1][:8])
    log.write(found[1:], path.with_name(f"{base:020}.log"))


def lacking(root: Path) -> None:
    """One of its partitions was not copied."""
    shutil.rmtree(Log(root, f"__transaction_state-{other(root)}").path)


def damaged(root: Path) -> None:
    """A batch of it cannot be read."""
    log = coordinators(root)
    found = log.read()
    found[3][CRC_AT] ^= 1
    found[3][1_000:] = b""
    log.write([*found[:3], bytearray(len(found[3])), *found[4:]])


def other(root: Path) -> int:
    """Another partition of it than that with records."""
    mine = int(coordinators(root).name.rpartition("-")[2])
    return (mine + 1) % 3


def younger(root: Path) -> None:
    """It was deleted, and made again behind the marker."""
    log = coordinators(root)
    found = log.read()
    for batch in found:
        for at in (BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT):
            batch[at : at + 8] = (int.from_bytes(batch[at : at + 8]) + 3_600_000).to_bytes(8)
        reseal(batch)
    log.write(found)


@pytest.mark.parametrize("change", [compacted, deleted, lacking, damaged, younger])
def test_it_is_not_told_where_the_coordinators_log_may_have_lost_the_decision(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = unpack(STOPPED, tmp_path)
    begun_by_nobody(root, bumped=1, producer=STRANGER)
    change(root)
    assert [] == told(audited(root))


@pytest.mark.parametrize("name", [STOPPED, LEVEL_1])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_expired_id_is_healthy(tmp_path: Path, name: str, is_compacted: bool) -> None:
    """Its coordinator writes a tombstone (transactional.id.expiration.ms), and compaction leaves nothing but that."""
    root = unpack(name, tmp_path)
    log = coordinators(root)
    appended(root, None, None)
    if is_compacted:
        found = log.read()
        log.write(found[-1:])
        log.checkpoint(CLEANED, int.from_bytes(found[-1][:8]))
        for beside in (*log.path.glob("*.snapshot"), *log.path.glob("*.timeindex")):
            beside.unlink()
    result = audited(root)
    assert not result.is_bad
    assert [] == told(result)
    assert {"commit"} <= set(result.tables["log_txns"]["outcome"])


def test_of_a_running_broker_it_is_told_once_all_of_the_log_is_younger(tmp_path: Path) -> None:
    """A client may have come between the copies of two partitions of the coordinators' log."""
    root = unpack(STOPPED, tmp_path)
    begun_by_nobody(root, bumped=1, producer=STRANGER)
    coordinators(root).unseal()
    result = audited(root)
    assert ["info"] == told(result)
    assert not result.is_bad
