"""Decisions of coordinators against markers: which are too many, and which contradict what may have been removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from confluent_kafka import Producer
from tests.oracle.asking import ask
from tests.pipeline.watch.test_running import LEVEL_0, committed, late_batch

from odradek.testing import Cluster
from odradek.wire.registry import ApiKey
from odradek_pipeline.audit.result import Result
from odradek_pipeline.directories.proof import CLOCKS_MS
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.transactions.checks import TXN_COLUMNS
from odradek_pipeline.transactions.decisions import decision_frame, surplus, undecided, wrong_outcomes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN = 1_700_000_000_000
ORDERS = ("orders", 0)
MINUTES = timedelta(minutes=3)
ROLLED = {"log.roll.ms": "60000", "log.retention.ms": "60000", "log.retention.check.interval.ms": "1000"}


def decided(*rows: tuple[int, bool], epoch: int = 0) -> pd.DataFrame:
    """Decisions about orders-0: when, and whether to commit."""
    records = [
        TransactionRecord(
            *("log", at, 0, at, BEGAN + time, "shop"),
            state="PrepareCommit" if commit else "PrepareAbort",
            producer_id=5,
            producer_epoch=epoch,
            last_update=BEGAN + time,
            partitions=(ORDERS,),
        )
        for at, (time, commit) in enumerate(rows)
    ]
    return decision_frame(records, {})


def ended(*rows: tuple[int, str, int], epoch: int = 0, bumped: int = 0) -> pd.DataFrame:
    """Transactions in orders-0: when their markers were written, what these say, and of how many batches."""
    listed: list[dict[str, Any]] = [
        {"topic": "orders", "partition": 0, "producer_id": 5, "epoch": epoch, "marker_epoch": epoch + bumped}
        | {"marker_offset": 10 * at + 9, "marker_timestamp": BEGAN + time, "outcome": outcome, "batches": batches}
        for at, (time, outcome, batches) in enumerate(rows)
    ]
    table = pd.DataFrame(listed)
    empty = {name: "" if kind == "object" else 0 for name, kind in TXN_COLUMNS.items() if name not in table}
    return table.assign(**empty)[list(TXN_COLUMNS)].astype(TXN_COLUMNS)


def wrong(decisions: pd.DataFrame, txns: pd.DataFrame, start: int = 0, cleaned: int = 0) -> list[bool]:
    unanswered = undecided(decisions, txns)
    return wrong_outcomes(decisions, txns, unanswered, {ORDERS: start}, {ORDERS: cleaned}).tolist()


def test_as_many_markers_as_decisions_are_none_too_many() -> None:
    """Neither are markers without data, wherever clocks put them: one is written again, and to every partition."""
    txns = ended((5, "commit", 2), (6, "commit", 0), (24, "commit", 1), (9, "abort", 0))
    assert [False] * 4 == surplus(decided((4, True), (25, True)), txns).tolist()


@pytest.mark.parametrize("decisions", [decided(), decided((4, False)), decided((4, True), epoch=1)])
def test_a_marker_that_no_decision_names_is_too_many(decisions: pd.DataFrame) -> None:
    assert [True] == surplus(decisions, ended((5, "commit", 2))).tolist()


def test_one_of_the_markers_of_an_epoch_is_too_many() -> None:
    txns = ended((5, "commit", 2), (15, "commit", 2), (25, "commit", 1))
    assert [False, True, False] == surplus(decided((4, True), (24, True)), txns).tolist()


@pytest.mark.parametrize(("start", "cleaned"), [(3, 0), (0, 3), (0, 1 << 62)])
def test_a_decision_whose_marker_may_have_been_removed_says_nothing_of_a_later_one(start: int, cleaned: int) -> None:
    """An operator has aborted what hung in the same epoch."""
    decisions, txns = decided((4, True)), ended((9_000, "abort", 1))
    assert [True] == wrong(decisions, txns)
    assert [False] == wrong(decisions, txns, start, cleaned)


def test_a_decision_behind_a_marker_that_is_left_has_its_own_behind_that_one() -> None:
    later = 1_000 + CLOCKS_MS + 4
    decisions = decided((4, True), (999, True), (later, True))
    txns = ended((1_000, "commit", 1), (later + 5, "abort", 1))
    assert [False, True] == wrong(decisions, txns, start=3)
    assert [False, False] == wrong(decisions, txns, start=10), "which of the two is the first behind retention"


def test_at_level_2_a_marker_is_of_the_only_decision_of_its_epoch() -> None:
    assert [True] == wrong(decided((4, True), epoch=7), ended((9_000, "abort", 1), epoch=6, bumped=1), start=3)
    assert [False] == wrong(decided((4, True), epoch=7), ended((9_000, "abort", 0), epoch=6, bumped=1), start=3)


@pytest.fixture
def aborted_behind_retention(tmp_path: Path) -> Path:
    """A directory of Odradek: a transaction was committed, and retention has removed it with its marker; a late batch
    of its epoch hung, and an operator has aborted it."""
    directory = tmp_path / "data"
    first = directory / "orders-0" / f"{0:020}.log"
    with Cluster(
        data_dir=directory, topics=["orders:1:1"], transaction_version=0, config=LEVEL_0 | ROLLED, seed=1
    ) as cluster:
        committed(cluster.bootstrap, "shop")
        plain = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for _ in range(2):
            cluster.advance(MINUTES)
            plain.produce("orders", value=b"plain", partition=0)
            plain.flush(30)
        cluster.wait_for(lambda: not first.exists())
        assert late_batch(cluster.bootstrap, "shop") == 0
        host, port = cluster.bootstrap.split(":")
        wanted = {"topics": [{"name": "orders", "partition_indexes": [0]}], "coordinator_epoch": 0}
        marker = {"producer_id": 0, "producer_epoch": 0, "transaction_result": False, **wanted}
        answer = ask((host, int(port)), ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [marker]})
        assert 0 == answer.markers[0].topics[0].partitions[0].error_code
    return directory


def bad(result: Result) -> list[str]:
    return [row["detail"] for row in result.anomalies.to_dict("records") if row["severity"] == "bad"]


@pytest.mark.client
def test_an_abort_behind_retention_is_not_held_against_an_older_decision(
    aborted_behind_retention: Path, spark: SparkSession, tmp_path: Path
) -> None:
    from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark

    here = audit_logs([aborted_behind_retention])
    spread = audit_logs_on_spark(spark, [aborted_behind_retention], tmp_path / "out")
    assert [] == bad(here) == bad(spread)
    (row,) = here.tables["log_txns"].to_dict("records")
    assert ("abort", 1, True) == (row["outcome"], row["batches"], row["undecided"])
