"""Directories that were closed at different moments, with a start between: copies of a rolling restart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.pipeline.corpus.__main__ import unpack

from odradek.testing import Cluster
from odradek_pipeline.audit.result import Result
from odradek_pipeline.directories.place import Place
from odradek_pipeline.jobs.audit_logs import audit_logs


def rolled(folder: Path) -> tuple[Path, Path]:
    """Copies of two brokers: the first one is of a moment at which a transaction was open, in a partition of its own;
    it was started again, and the coordinator, which is the other one, has ended the transaction there."""
    settings = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    with Cluster(brokers=2, data_dir=folder / "data", config=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic("orders", num_partitions=1, replica_assignment=[[1]])
        admin.create_topics([topic])["orders"].result(10)
        till = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-1"})
        till.init_transactions(30)
        cluster.move_transaction_coordinator("till-1", to=2)
        for ends in (True, False):
            till.begin_transaction()
            till.produce("orders", b"a coffee")
            till.flush(10)
            if ends:
                till.commit_transaction(30)
        cluster.stop_broker(1, cleanly=True)
        shutil.copytree(folder / "data" / "broker-1", folder / "early")
        cluster.start_broker(1)
        till.commit_transaction(30)
        cluster.wait(transaction={"id": "till-1", "state": "CompleteCommit"})  # its marker is in orders-0
        cluster.stop_broker(1, cleanly=True)
    return folder / "early", folder / "data" / "broker-2"


def destructive(result: Result) -> list[str]:
    assert result.incidents is not None
    return [command for command in result.incidents["run"] if " abort " in command]


@pytest.mark.client
def test_what_was_open_when_an_earlier_copy_was_made_does_not_hang(tmp_path: Path) -> None:
    early, late = rolled(tmp_path)
    result = audit_logs([early, late])
    assert not result.is_bad
    assert [] == destructive(result)
    (row,) = result.anomalies[result.anomalies["anomaly"] == "txn-hanging"].to_dict("records")
    assert ("info", "orders") == (row["severity"], row["topic"])
    assert "an older copy" in row["detail"]
    assert not audit_logs([late.parent / "broker-1", late]).is_bad


def test_directories_of_brokers_that_were_all_stopped_are_of_one_moment(tmp_path: Path) -> None:
    """Each has the epoch of the broker's last run, by which the metadata know it."""
    place = Place.of(sorted(unpack("three_brokers", tmp_path).glob("broker-*")), ())
    assert place.cluster is not None
    assert {one.node_id for one in place.around.log_dirs.values()} == {1, 2, 3}
    for log_dir in place.around.log_dirs.values():
        assert log_dir.broker_epoch == place.cluster.image.brokers[log_dir.node_id].epoch
        assert not place.cluster.has_started_since(log_dir)
    assert place.proof({}).closed >= {one.key for one in place.audited()}
