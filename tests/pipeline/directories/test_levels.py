"""Levels of transaction.version: what the metadata log says of them, beside transactions and against them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.planting import add, close, partition_batches

from odradek.core.internal_topics import partition_for
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek_pipeline.directories.cluster import read_cluster
from odradek_pipeline.directories.levels import LEVEL_SLACK_MS, UNKNOWN, LevelChange, Levels
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import find_files

CHANGES = (LevelChange(5, 1000, 0), LevelChange(9, 500_000, 2), LevelChange(12, 900_000, 1))


def test_what_was_finalized_when() -> None:
    levels = Levels(CHANGES, is_whole=True)
    assert [UNKNOWN, 0, 0, 2, 1] == [levels.at(time) for time in (999, 1000, 499_999, 500_000, 900_000)]
    early = 500_000 - LEVEL_SLACK_MS
    assert [0, 0, 2, 2] == [levels.highest_until(time) for time in (0, early - 1, early, 10**9)]
    assert UNKNOWN == Levels(CHANGES).highest_until(10**9), "behind a snapshot there may have been others"
    assert UNKNOWN == Levels((), is_whole=True).highest_until(0)


def begin(directory: Path, level: int) -> None:
    """A transaction of a client that works at this level, as its coordinator would write it."""
    counted = len(list(directory.glob("__transaction_state-*")))
    name = f"__transaction_state-{partition_for('too-early', counted)}"
    before = partition_batches(directory, name)
    at = max(
        batch.max_timestamp for path in directory.glob("orders-*") for batch in partition_batches(directory, path.name)
    )
    value = TransactionLogValue(
        producer_id=4242,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=at,
        transaction_start_timestamp_ms=at,
        client_transaction_version=level,
    )
    key = encode_key(TransactionLogKey(transactional_id="too-early"))
    offset = before[-1].next_offset if before else 0
    made = replace(value, transaction_status=0, transaction_start_timestamp_ms=-1, client_transaction_version=0)
    for step in (made, value):
        record = Record(key=key, value=encode_value(step, 1), timestamp=at)
        add(directory, name, build_batch([record], base_offset=offset, leader_epoch=0))
        offset += 1


@pytest.mark.parametrize(("level", "found"), [(1, []), (2, [("txn-level-not-finalized", "too-early")])])
def test_a_client_that_is_ahead_of_its_cluster(
    recorded: Callable[[str], Path], level: int, found: list[tuple[str, str]]
) -> None:
    directory = recorded("tv1")
    close(directory)
    begin(directory, level)
    result = audit_logs([directory])
    told = [(row["anomaly"], row["transactional_id"]) for row in result.anomalies.to_dict("records")]
    assert found == told
    assert result.incidents is not None
    assert [name for name, _ in found] == result.incidents["incident"].tolist()
    assert all("finalized no more than 1" in what for what in result.incidents["what"])
    assert [1] == [one["level"] for one in result.facts["transaction_version"]]


def test_levels_beside_transactions(tmp_path: Path) -> None:
    """A cluster whose level was changed while it was in use."""
    directory = unpack("level_goes_up_and_down", tmp_path)
    cluster = read_cluster(find_files(sorted(directory.glob("broker-*"))))
    assert cluster is not None
    assert len(cluster.levels.changes) > 1
    lines = audit_logs(sorted(directory.glob("broker-*"))).tables["timelines"]
    assert lines["cluster_level"].nunique() > 1
