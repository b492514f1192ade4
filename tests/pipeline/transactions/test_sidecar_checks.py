"""Indexes of aborted transactions and snapshots of producers that do not agree with their segments."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench.audit_scale.logs import Plan, make_logs
from crc32c import crc32c
from tests.pipeline.planting import drop, is_marker, partition_batches, rewrite

from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.sidecars import ABORTED, PRODUCER
from odradek_pipeline.transactions.sidecar_checks import CLAIM_COLUMNS, Beside, check_claims

Recorded = Callable[[str], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions of three segments each."""
    directory = tmp_path_factory.mktemp("whole") / "logs"
    make_logs(directory, Plan(16 << 20, segment_bytes=3 << 20, transactional_partitions=1, idempotent_partitions=1))
    return directory


@pytest.fixture
def made(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return shutil.copytree(whole, tmp_path / "logs")


def told(result: Result) -> list[tuple[str, str, str]]:
    return [(found.problem, found.severity, Path(found.path).parent.name) for found in result.problems]


def change_aborted(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_bytes(change(np.frombuffer(path.read_bytes(), ABORTED).copy()).tobytes())


def change_snapshot(path: Path, change: Callable[[Any], Any]) -> None:
    entries = change(np.frombuffer(path.read_bytes()[10:], PRODUCER).copy())
    body = len(entries).to_bytes(4) + entries.tobytes()
    path.write_bytes((1).to_bytes(2) + crc32c(body).to_bytes(4) + body)


def with_value(name: str, step: int) -> Callable[[Any], Any]:
    def change(entries: Any) -> Any:
        entries[name][1] += step
        return entries

    return change


def files(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern))


@pytest.mark.parametrize("name", ["tv1", "tv2", "hang"])
def test_what_a_real_broker_wrote_agrees(recorded: Recorded, name: str) -> None:
    assert [] == audit_logs([recorded(name)]).problems


@pytest.mark.parametrize(("segment", "severity"), [(0, "bad"), (-1, "info")])
def test_an_aborted_transaction_that_the_index_does_not_have(made: Path, segment: int, severity: str) -> None:
    """The index of the active segment may be behind: a broker rebuilds it when it starts."""
    change_aborted(files(made / "transfers-0", "*.txnindex")[segment], lambda entries: entries[1:])
    result = audit_logs([made])
    assert [("bad-txn-index", severity, "transfers-0")] == told(result)
    assert (severity == "bad") == result.is_bad


def test_an_index_that_is_gone(made: Path) -> None:
    files(made / "transfers-0", "*.txnindex")[0].unlink()
    (problem,) = audit_logs([made]).problems
    assert "more like it" in problem.detail
    assert not Path(problem.path).exists()


def test_only_segments_were_copied(made: Path) -> None:
    for path in [*made.rglob("*.*index"), *made.rglob("*.snapshot")]:
        path.unlink()
    assert [] == audit_logs([made]).problems


@pytest.mark.parametrize("name", ["producer_id", "first_offset", "last_offset"])
def test_an_entry_that_no_marker_bears_out(made: Path, name: str) -> None:
    change_aborted(files(made / "transfers-0", "*.txnindex")[0], with_value(name, 1))
    result = audit_logs([made])
    assert {("bad-txn-index", "bad", "transfers-0")} == set(told(result))
    assert ABORTED.itemsize in {found.position for found in result.problems}


def test_an_aborted_transaction_whose_marker_is_missing(recorded: Recorded) -> None:
    """The index remembers what the segment has lost."""
    directory = recorded("tv2")
    drop(directory, "orders-0", is_marker, 2)
    assert [("bad-txn-index", "bad", "orders-0")] == told(audit_logs([directory]))


@pytest.mark.parametrize(("says", "count"), [(10, 0), (11, 0), (9, 1), (12, 1)])
def test_a_transaction_without_a_marker_goes_on_in_the_next_epoch(says: int, count: int) -> None:
    """A broker ends both with the marker of the second, and its index has them as one."""
    of = {"topic": "t", "partition": 0, "producer_id": 7}
    txns = pd.DataFrame(
        [
            {**of, "outcome": "abort", "first_offset": 3, "marker_offset": 4},
            {**of, "outcome": "dropped", "first_offset": 10, "marker_offset": -1},
            {**of, "producer_id": 8, "outcome": "commit", "first_offset": 9, "marker_offset": 12},
            {**of, "outcome": "abort", "first_offset": 11, "marker_offset": 13},
        ]
    ).assign(batches=1, marker_path="t-0/00000000000000000000.log")
    claim = dict.fromkeys(CLAIM_COLUMNS, -1) | of | {"path": "t-0/00000000000000000000.txnindex", "source": "txnindex"}
    claims = pd.DataFrame([{**claim, "first_offset": says, "last_offset": 13}])[list(CLAIM_COLUMNS)]
    nothing: frozenset[str] = frozenset()
    beside = Beside(starts={}, cleaned={}, ends={("t", 0): 20}, active=nothing, indexed=nothing)
    assert count == len(check_claims(lambda: pd.DataFrame(), txns, claims, beside))


def test_an_aborted_transaction_whose_data_was_compacted_away(recorded: Recorded) -> None:
    """Its marker stands behind what the cleaner has been through, and the index goes on telling where it began."""
    directory = recorded("tv2")
    first, marker = _first_abort(directory)
    kept = [batch for batch in partition_batches(directory, "orders-0") if not first <= batch.base_offset < marker]
    rewrite(directory, "orders-0", [bytes(batch.view) for batch in kept])
    (directory / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {marker}\n")
    assert [] == told(audit_logs([directory]))


def _first_abort(directory: Path) -> tuple[int, int]:
    (index,) = files(directory / "orders-0", "*.txnindex")
    entry = np.frombuffer(index.read_bytes(), ABORTED)[0]
    return int(entry["first_offset"]), int(entry["last_offset"])


@pytest.mark.parametrize(
    ("partition", "name", "step"),
    [
        ("events-0", "last_offset", -1),
        ("events-0", "last_sequence", 1),
        ("events-0", "producer_epoch", 1),
        ("transfers-0", "producer_epoch", -1),
        ("transfers-0", "current_txn_first_offset", 5),
    ],
)
def test_a_producer_of_whom_the_snapshot_says_something_else(made: Path, partition: str, name: str, step: int) -> None:
    change_snapshot(files(made / partition, "*.snapshot")[0], with_value(name, step))
    result = audit_logs([made])
    assert [("bad-snapshot", "bad", partition)] == told(result)
    assert [10 + PRODUCER.itemsize] == [found.position for found in result.problems]


def test_a_producer_that_has_expired_is_not_in_a_snapshot(made: Path) -> None:
    change_snapshot(files(made / "events-0", "*.snapshot")[0], lambda entries: entries[2:])
    assert [] == audit_logs([made]).problems


def test_an_open_transaction_that_is_not_in_a_snapshot(recorded: Recorded) -> None:
    """A broker that starts from it would let consumers read beyond the transaction."""
    directory = recorded("hang")
    (path,) = files(directory / "orders-0", "*.snapshot")
    change_snapshot(path, lambda entries: entries[entries["current_txn_first_offset"] < 0])
    (problem,) = audit_logs([directory]).problems
    assert "bad-snapshot" == problem.problem
    assert "open since 36, is not in it" in problem.detail


def test_retention_explains_what_is_no_longer_there(made: Path) -> None:
    for partition in ("transfers-0", "events-0"):
        files(made / partition, "*.log")[0].unlink()
        for suffix in ("index", "timeindex", "txnindex"):
            for path in files(made / partition, f"{0:020}.{suffix}"):
                path.unlink()
    assert [] == audit_logs([made]).problems
