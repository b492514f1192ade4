"""Partitions without a directory: lost, or never begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import Log
from tests.pipeline.corpus.fault import HIGH, RECOVERY, STOPPED

from odradek.testing import Cluster
from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs


def missing(result: Result) -> list[str]:
    return [one.severity for one in result.problems if one.problem == "missing-partition"]


def unnamed(log: Log, name: str) -> None:
    path = log.root / name
    topic, _, partition = log.name.rpartition("-")
    kept = [line for line in path.read_text().splitlines()[2:] if not line.startswith(f"{topic} {partition} ")]
    path.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")


@pytest.mark.parametrize(("names", "severity"), [([], "bad"), ([HIGH], "bad"), ([HIGH, RECOVERY], "info")])
def test_a_partition_that_a_checkpoint_names_is_lost(tmp_path: Path, names: list[str], severity: str) -> None:
    log = Log(unpack(STOPPED, tmp_path), "orders-1")
    log.remove_all()
    for name in names:
        unnamed(log, name)
    assert [severity] == missing(audited(tmp_path / STOPPED))


@pytest.mark.client
def test_a_snapshot_of_odradek_has_no_directories_of_partitions_without_records(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data", topics=["orders:2", "empty"]) as cluster:
        cluster.snapshot(tmp_path / "ready")
    result = audit_logs([tmp_path / "ready"])
    assert not result.is_bad
    assert ["info"] == missing(result), "one line for all of them"
    (told,) = (one.detail for one in result.problems if one.problem == "missing-partition")
    assert told.startswith("broker 1 has orders-0, orders-1, empty-0, ")
