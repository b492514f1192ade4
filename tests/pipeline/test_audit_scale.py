"""The logs that the bench of the audit makes: valid, and with one hanging transaction if it is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.audit_scale.__main__ import straight
from bench.audit_scale.logs import Plan, make_logs

from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import FileKind, find_files
from odradek_pipeline.logs.scan import plan_ranges
from odradek_pipeline.logs.summary import scan_directories
from odradek_pipeline.spark.log_source import pack


@pytest.mark.parametrize("batch_bytes", [1024, 16 << 10])
@pytest.mark.parametrize("hanging", [False, True])
def test_the_audit_finds_what_was_planted_and_nothing_else(tmp_path: Path, batch_bytes: int, hanging: bool) -> None:
    plan = Plan(40 << 20, batch_bytes=batch_bytes, segment_bytes=5 << 20, hanging=hanging)
    made = make_logs(tmp_path / "logs", plan)
    scan = scan_directories([tmp_path / "logs"], check_crc=True)
    assert [] == scan.problems
    assert made.bytes >= 40 << 20
    assert 12 <= sum(row.segments for row in scan.partitions if not row.topic.startswith("__"))
    assert made.transactions * plan.transactional_partitions == sum(row.commits + row.aborts for row in scan.partitions)
    result = audit_logs([tmp_path / "logs"])
    # The bench writes the same batches to all partitions of a topic, which is said.
    assert {("same-batches", "info")} == {(each.problem, each.severity) for each in result.problems}
    planted = [("txn-hanging", "bad", "transfers", 0, made.hanging)] if hanging else []
    assert planted == [
        (row["anomaly"], row["severity"], row["topic"], row["partition"], row["offset"])
        for row in result.anomalies.to_dict("records")
    ]


def test_producers_go_on_with_new_ids_when_their_epochs_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.audit_scale.logs.EPOCHS_MAX", 30)
    made = make_logs(tmp_path / "logs", Plan(20 << 20, idempotent_partitions=0, transactional_partitions=1))
    assert made.transactions > 5 * 30
    result = audit_logs([tmp_path / "logs"])
    assert result.anomalies.empty
    assert [] == result.problems
    assert 10 <= result.tables["log_txns"]["producer_id"].nunique()


def test_one_partition_with_nine_tenths_of_the_data_is_read_in_even_tasks(tmp_path: Path) -> None:
    """A task is a range of bytes, whichever partition it is of; so no task waits for the largest partition."""
    plan = Plan(40 << 20, segment_bytes=16 << 20, transactional_partitions=2, idempotent_partitions=1, skew=0.9)
    make_logs(tmp_path / "logs", plan)
    tree = find_files([tmp_path / "logs"])
    sizes = {name: sum(file.size for file in tree.of(FileKind.SEGMENT, topic=name)) for name in ("events", "transfers")}
    assert 0.85 < sizes["events"] / sum(sizes.values()) < 0.95
    wanted = 4 << 20
    tasks = pack(plan_ranges(tree.files, range_bytes=wanted), wanted)
    assert len(tasks) >= 9
    assert max(sum(part.size for part in task.ranges) for task in tasks) <= 1.5 * wanted
    result = audit_logs([tmp_path / "logs"])
    assert result.anomalies.empty


def test_linked_partitions_are_the_same_logs_in_less_space(tmp_path: Path) -> None:
    plan = Plan(24 << 20, segment_bytes=2 << 20, hanging=True)
    made = {linked: make_logs(tmp_path / str(linked), replace(plan, linked=linked)) for linked in (False, True)}
    assert made[False] == made[True]
    files = {linked: sorted(path for path in (tmp_path / str(linked)).rglob("*") if path.is_file()) for linked in made}
    assert [one.name for one in files[False]] == [one.name for one in files[True]]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(*files.values(), strict=True))
    sizes = {one.stat().st_ino: one.stat().st_size for one in files[True] if one.suffix == ".log"}
    last = max((tmp_path / "True" / "transfers-0").glob("*.log"))  # the late batch of this partition is in no other
    coordinators = sum(path.stat().st_size for path in (tmp_path / "True").glob("__transaction_state-*/*.log"))
    assert sum(sizes.values()) - coordinators - last.stat().st_size <= replace(plan, linked=True).disk_bytes * 1.3
    assert replace(plan, linked=True).disk_bytes == plan.disk_bytes // 3


def test_a_line_through_points_of_a_line() -> None:
    assert (2.0, 5.0) == pytest.approx(straight([1, 2, 5, 10], [7, 9, 15, 25]))
