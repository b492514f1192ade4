"""The directory that a broker keeps its logs in: what is there after a stop, and what cannot be gone on with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.cli.usage import UsageError
from odradek.log.files.marks import read_clean_stop, read_meta, read_quorum_state
from odradek.log.files.names import read_checkpoint_file
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.snapshot_file import read_snapshot
from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.testing import Cluster
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

pytestmark = pytest.mark.client

TIMEOUT_S = 15
SMALL = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


def cluster(path: Path, **arguments: object) -> Cluster:
    return Cluster(data_dir=path, topics=["orders"], config=SMALL, **arguments)  # type: ignore[arg-type]


def produce(bootstrap: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce("orders", value)
    assert 0 == producer.flush(TIMEOUT_S)


def read(bootstrap: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found = consumer.consume(count, TIMEOUT_S)
    consumer.close()
    return [(message.value() or b"").decode() for message in found]


def test_a_cluster_goes_on_where_the_one_before_stopped(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with cluster(path) as first:
        produce(first.bootstrap, "a", "b")
    assert (path / ".kafka_cleanshutdown").exists()
    with cluster(path) as second:
        assert not (path / ".kafka_cleanshutdown").exists()
        produce(second.bootstrap, "c")
        assert ["a", "b", "c"] == read(second.bootstrap, 3)


def test_the_directory_says_which_broker_it_is(tmp_path: Path) -> None:
    with cluster(tmp_path, node_ids=[7]) as first:
        assert [7] == first.broker_ids
    meta = read_meta((tmp_path / "meta.properties").read_bytes())
    assert 7 == meta.node_id
    with cluster(tmp_path) as second:
        assert [7] == second.broker_ids
    state = read_quorum_state((tmp_path / "__cluster_metadata-0" / "quorum-state").read_bytes())
    assert (7, 2, (7,)) == (state.leader_id, state.leader_epoch, state.voters)


def test_a_snapshot_of_the_metadata_is_gone_on_from(tmp_path: Path) -> None:
    """What stands before it in the log has gone."""
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a")
        running = first._running
        data_dir = running.data_dir
        assert data_dir is not None
        image = running.controller.node.image
        for one in data_dir.dirs.values():
            first._call(partial(one.snapshots.write, image))
        log = data_dir.store.find(METADATA_TOPIC, 0)
        assert log is not None
        log.seal()
        first._call(lambda: log.advance_start(image.offset + 1))
    folder = tmp_path / "__cluster_metadata-0"
    [snapshot] = [name for name in os.listdir(folder) if read_checkpoint_file(name)]
    assert read_snapshot((folder / snapshot).read_bytes())
    assert f"{0:020d}.log" not in os.listdir(folder)
    with cluster(tmp_path) as second:
        assert ["a"] == read(second.bootstrap, 1)


def test_the_sequences_of_coordinators_are_those_of_kafkas(tmp_path: Path) -> None:
    """0 in every batch of a group coordinator, and none in those of the transaction coordinator and in markers."""
    with cluster(tmp_path) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "till"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        position = [TopicPartition("orders", 0, 5)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()
        producer.commit_transaction(TIMEOUT_S)

    def sequences(folder: str) -> set[tuple[bool, bool, int]]:
        data = (tmp_path / folder / f"{0:020d}.log").read_bytes()
        return {(one.is_transactional, one.is_control, one.base_sequence) for one in batches(memoryview(data))}

    assert {(False, False, 0), (True, False, 0), (True, True, -1)} == sequences("__consumer_offsets-0")
    assert {(False, False, -1)} == sequences("__transaction_state-0")


def test_a_broker_that_stops_cleanly_is_fenced(tmp_path: Path) -> None:
    """A Kafka that takes over would else wait until the session of the broker is over."""
    with cluster(tmp_path):
        pass
    log = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    loader = MetadataLoader()
    for batch in batches(memoryview(log.read_bytes())):
        loader.apply(batch)
    broker = loader.image.brokers[1]
    meta = read_meta((tmp_path / "meta.properties").read_bytes())
    assert (True, (meta.directory_id,)) == (broker.fenced, broker.log_dirs)
    assert broker.epoch == read_clean_stop((tmp_path / ".kafka_cleanshutdown").read_bytes())
    [orders] = loader.image.topics["orders"].partitions.values()
    assert (-1, (meta.directory_id,)) == (orders.leader, orders.directories)


def test_clients_are_told_the_directory_and_its_volume(tmp_path: Path) -> None:
    """DescribeLogDirs (KIP-827), and `log.dirs` among the configs of the broker."""
    with cluster(tmp_path) as running:
        produce(running.bootstrap, "a")
        with BlockingClient(running.bootstrap, client_id="test") as reader:
            [told] = reader.ask(DescribeLogDirsRequest(topics=None), 4).results
            resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["log.dirs"])
            [broker] = reader.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert os.fspath(tmp_path) == told.log_dir
    assert shutil.disk_usage(tmp_path).total == told.total_bytes > told.usable_bytes > 0
    assert [os.fspath(tmp_path)] == [each.value for each in broker.configs]


def test_it_is_written_now_and_then_how_far_the_logs_are(tmp_path: Path) -> None:
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a", "b", "c")
        marks = tmp_path / "replication-offset-checkpoint"
        assert waited(lambda: marks.exists() and b"orders 0 3" in marks.read_bytes())
        assert not (tmp_path / ".kafka_cleanshutdown").exists()


def waited(holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + TIMEOUT_S
    while not holds() and time.monotonic() < ends:
        time.sleep(0.05)
    return holds()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a")
    return tmp_path


def refusal(path: Path, **arguments: object) -> str:
    with pytest.raises(UsageError) as raised, cluster(path, **arguments):
        pass
    return str(raised.value)


def test_another_cluster_uses_it(tmp_path: Path) -> None:
    with cluster(tmp_path):
        assert f"The data directory cannot be used: another cluster of this process uses {tmp_path}." == refusal(
            tmp_path
        )


def test_another_process_uses_it(tmp_path: Path) -> None:
    with cluster(tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "serve", "--port", "0", "--data-dir", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert 0 != done.returncode
    assert f"The data directory cannot be used: another process uses {tmp_path}: it has locked .lock." in done.stderr
    assert "Traceback" not in done.stderr


def test_it_is_of_another_broker(stopped: Path) -> None:
    assert f"The data directory {stopped} is of broker 1, not of 2." == refusal(stopped, node_ids=[2])


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def without(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            rewrite("meta.properties", lambda data: data.replace(b"version=1", b"version=2")),
            " cannot be used: meta.properties: it is of version 2, and version 1 is known.",
        ),
        (
            without("meta.properties"),
            " has no meta.properties and is not empty: half a copy, or something else.",
        ),
        (
            rewrite("orders-0/partition.metadata", lambda data: data.replace(b"version: 0", b"version: 3")),
            " cannot be used: orders-0/partition.metadata: it is of version 3, and version 0 is known.",
        ),
        (
            lambda path: (path / "__cluster_metadata-0" / f"{0:020d}.log").rename(
                path / "__cluster_metadata-0" / f"{5:020d}.log"
            ),
            " cannot be used: __cluster_metadata-0 begins at offset 5 and has no snapshot.",
        ),
    ],
    ids=["newer", "no-meta", "newer-partition", "no-snapshot"],
)
def test_a_directory_that_cannot_be_gone_on_with(stopped: Path, damage: Callable[[Path], None], reason: str) -> None:
    damage(stopped)
    assert f"The data directory {stopped}{reason}" == refusal(stopped)
    # It was left alone, and is free.
    assert f"The data directory {stopped}{reason}" == refusal(stopped)
    assert (stopped / ".kafka_cleanshutdown").exists()


def test_a_start_that_fails_later_gives_the_directory_back(stopped: Path) -> None:
    with cluster(stopped) as first:
        port = int(first.bootstrap.rpartition(":")[2])
        other = stopped.parent / f"{stopped.name}-other"
        assert "already in use" in refusal(other, port=port)
    with cluster(other):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_to(stopped: Path) -> None:
    stopped.chmod(0o500)
    try:
        assert f"The data directory cannot be used: {stopped} cannot be written to" in refusal(stopped)
    finally:
        stopped.chmod(0o700)


def test_it_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert f"The data directory {path} is a file: name a directory, or a path where none is yet." == refusal(path)
