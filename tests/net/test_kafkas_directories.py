"""Directories that a real Kafka has left (`tests/pipeline/data`), gone on with: an operator's case among them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.swap.look import look

from odradek.net.client import BlockingClient
from odradek.records.batch import CONTROL, batches
from odradek.testing import Cluster
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

pytestmark = pytest.mark.client

DATA = Path(__file__).parents[1] / "pipeline" / "data"
TIMEOUT_S = 15


def copied(archive: str, to: Path) -> Path:
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(to, filter="data")
    return to


def records_in(folder: Path) -> int:
    """Records of data of the segments in a folder, by the headers of their batches."""
    return sum(_records(path) for path in folder.iterdir() if path.suffix == ".log")


def _records(path: Path) -> int:
    return sum(batch.record_count for batch in batches(memoryview(path.read_bytes())) if not batch.is_control)


def folders(path: Path) -> Iterator[Path]:
    return (each for each in path.iterdir() if each.is_dir() and not each.name.startswith("__"))


@pytest.mark.parametrize("archive", ["tv1", "tv2", "cleaned", "emptied", "emptied-0", "idle"])
def test_what_kafka_left_is_read(archive: str, tmp_path: Path) -> None:
    path = copied(archive, tmp_path)
    written = {folder.name: records_in(folder) for folder in folders(path)}
    with Cluster(data_dir=path) as cluster:
        seen = look(cluster.bootstrap, whole=True)
    found = {name: sum(not record[-1] & CONTROL for record in log["records"]) for name, log in seen["logs"].items()}
    # A topic whose folder was not copied is there, and has nothing in it.
    assert {**dict.fromkeys(found, 0), **written} == found
    with Cluster(data_dir=path) as cluster:
        assert seen == look(cluster.bootstrap, whole=True)


def test_a_hanging_transaction_of_a_copy_is_described_and_aborted(tmp_path: Path) -> None:
    """KIP-664: the partition has a transaction that its coordinator does not know of."""
    path = copied("hang", tmp_path)
    with Cluster(data_dir=path) as cluster:
        before = look(cluster.bootstrap)
        [(name, log)] = [(name, log) for name, log in before["logs"].items() if log["stable"] < log["end"]]
        topic, _, index = name.rpartition("-")
        [producer] = [each for each in log["producers"] if each[4] >= 0]
        producer_id, epoch, _, coordinator_epoch, start = producer
        assert start == log["stable"]
        assert all((topic, [int(index)]) not in state[4] for state in before["transactions"].values())
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[int(index)])],
            coordinator_epoch=coordinator_epoch,
        )
        with BlockingClient(cluster.bootstrap, client_id="operator") as client:
            [answer] = client.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
        assert [0] == [each.error_code for found in answer.topics for each in found.partitions]
        after = look(cluster.bootstrap)["logs"][name]
        assert after["stable"] == after["end"] == log["end"] + 1
        assert (producer_id, start) in after["aborted"]
        assert [-1] == [each[4] for each in after["producers"] if each[0] == producer_id]
        told = Producer({"bootstrap.servers": cluster.bootstrap})
        told.produce(topic, "goes on", partition=int(index))
        assert 0 == told.flush(TIMEOUT_S)
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "r", "isolation.level": "read_committed"}
        )
        consumer.assign([TopicPartition(topic, int(index), start)])
        [message] = consumer.consume(1, TIMEOUT_S)
        consumer.close()
        assert b"goes on" == message.value()
