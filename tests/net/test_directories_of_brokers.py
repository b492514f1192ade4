"""The directories of a cluster of several brokers: after stops and kills, left by Kafka, and refused."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.net.warned import warned

from odradek.cli.usage import UsageError
from odradek.log.files.marks import read_clean_stop, read_meta, read_quorum_state
from odradek.log.files.names import read_checkpoint_file
from odradek.log.files.walk import walk
from odradek.log.metadata_log import METADATA_FOLDER
from odradek.metadata.loader import MetadataLoader
from odradek.records.batch import batches
from odradek.testing import Cluster

pytestmark = pytest.mark.client

TIMEOUT_S = 15
DATA = Path(__file__).parents[1] / "pipeline" / "data"
NODES = (1, 2, 3)
FIRST = f"{0:020d}.log"
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "default.replication.factor": 3,
    "min.insync.replicas": 1,
}


def cluster(path: Path, **arguments: object) -> Cluster:
    return Cluster(**{"data_dir": path, "brokers": 3, "topics": ["orders"], "config": CONFIG} | arguments)  # type: ignore[arg-type]


def produce(bootstrap: str, *values: str, acks: str = "all") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": acks})
    for value in values:
        producer.produce("orders", value)
    assert 0 == producer.flush(TIMEOUT_S)


def read(bootstrap: str, count: int, topic: str = "orders") -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, TIMEOUT_S)
    consumer.close()
    return [(message.value() or b"").decode() for message in found]


def in_sync(running: Cluster, partition: int) -> set[int]:
    """The ISR of a partition as its leader and the controller have it."""
    image = running._running.controller.node.image
    return set(image.topics["orders"].partitions[partition].isr)


def committed(bootstrap: str, topic: str, partitions: int) -> list[str]:
    """The first ten records of a topic that a committed read sees."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found = consumer.consume(10, TIMEOUT_S)
    consumer.close()
    return [(message.value() or b"").decode() for message in found]


def written(path: Path, folder: str = "orders-0") -> list[bytes]:
    """The batches of a partition in the directory of each broker."""
    contents = [(path / f"broker-{node_id}" / folder / FIRST).read_bytes() for node_id in NODES]
    return [content[: walk(memoryview(content), 0, checks=True).size] for content in contents]


def test_each_broker_has_its_replicas_and_the_metadata(tmp_path: Path) -> None:
    with cluster(tmp_path, topics=["orders", "alone:3:1"]) as running:
        produce(running.bootstrap, "a", "b")
        epochs = {broker.id: broker.epoch for broker in running._running.controller.node.image.brokers.values()}
    places = [tmp_path / f"broker-{node_id}" for node_id in NODES]
    metas = [read_meta((place / "meta.properties").read_bytes()) for place in places]
    assert [1, 2, 3] == [meta.node_id for meta in metas]
    assert 1 == len({meta.cluster_id for meta in metas})
    assert 3 == len({meta.directory_id for meta in metas})
    for place in places:
        folders = {each.name for each in place.iterdir() if each.is_dir()}
        assert {METADATA_FOLDER, "orders-0", "__consumer_offsets-0", "__transaction_state-0"} <= folders
        assert 1 == len([each for each in folders if each.startswith("alone-")])
        state = read_quorum_state((place / METADATA_FOLDER / "quorum-state").read_bytes())
        assert (1, 1, NODES) == (state.leader_id, state.leader_epoch, state.voters)
    marks = [read_clean_stop((place / ".kafka_cleanshutdown").read_bytes()) for place in places]
    assert [epochs[node_id] for node_id in NODES] == marks
    assert 1 == len(set(written(tmp_path)))
    assert 1 == len(set(written(tmp_path, METADATA_FOLDER)))


def test_a_cluster_goes_on_where_the_one_before_stopped(tmp_path: Path) -> None:
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a", "b")
    with Cluster(data_dir=tmp_path) as second:
        assert [1, 2, 3] == second.broker_ids
        produce(second.bootstrap, "c")
        assert ["a", "b", "c"] == read(second.bootstrap, 3)
        assert in_sync(second, 0) == {1, 2, 3}
    assert 1 == len(set(written(tmp_path)))


def test_the_last_leader_leads_again_and_the_others_come_back_into_the_isr(tmp_path: Path) -> None:
    """As recorded: brokers that stop one after the other leave the ISR, and only the last one may lead at first."""
    with cluster(tmp_path):
        pass
    loader = MetadataLoader()
    for batch in batches(memoryview((tmp_path / "broker-1" / METADATA_FOLDER / FIRST).read_bytes())):
        loader.apply(batch)
    [stopped] = loader.image.topics["orders"].partitions.values()
    assert -1 == stopped.leader
    with cluster(tmp_path) as second:
        assert in_sync(second, 0) == {1, 2, 3}
        now = second._running.controller.node.image.topics["orders"].partitions[0]
        assert now.leader in (*stopped.isr, *stopped.eligible_replicas)
        assert stopped.leader_epoch < now.leader_epoch


def test_a_broker_that_was_stopped_has_what_there_was_until_then(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        produce(running.bootstrap, "a")
        running.stop_broker(3, cleanly=True)
        stopped = written(tmp_path)[2], written(tmp_path, METADATA_FOLDER)[2]
        assert (tmp_path / "broker-3" / ".kafka_cleanshutdown").exists()
        produce(running.bootstrap, "b")
        assert stopped == (written(tmp_path)[2], written(tmp_path, METADATA_FOLDER)[2])
        assert written(tmp_path)[0].startswith(stopped[0])
        assert len(stopped[0]) < len(written(tmp_path)[0])
        running.start_broker(3)
        assert not (tmp_path / "broker-3" / ".kafka_cleanshutdown").exists()
        produce(running.bootstrap, "c")
        assert 1 == len(set(written(tmp_path)))
        # The controller hears a little later that the broker is in sync.
        running.wait_for(lambda: 1 == len(set(written(tmp_path, METADATA_FOLDER))))
        running.stop_broker(3)
    assert not (tmp_path / "broker-3" / ".kafka_cleanshutdown").exists()


def test_a_leader_takes_only_what_it_has(tmp_path: Path) -> None:
    """KIP-101 across processes: what a replica out of sync has not acknowledged is gone when it leads."""
    with cluster(tmp_path) as first:
        first.move_leader("orders", 0, to=1)
        produce(first.bootstrap, "kept")
        first.set_replica_lag(2, None)
        produce(first.bootstrap, "lost", acks="1")
        first.advance(timedelta(seconds=31))  # replica.lag.time.max.ms
        assert in_sync(first, 0) == {1, 3}
    [one, two, three] = written(tmp_path)
    assert one == three
    assert one.startswith(two)
    assert len(two) < len(one)
    with cluster(tmp_path) as second:
        assert 2 not in in_sync(second, 0)
        second.move_leader("orders", 0, to=2, unclean=True)
        produce(second.bootstrap, "new", acks="1")
        assert ["kept", "new"] == read(second.bootstrap, 2)
    assert 1 == len(set(written(tmp_path)))


@contextmanager
def served(path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    settings = [word for key, value in CONFIG.items() for word in ("--set", f"{key}={value}")]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "odradek", "serve", "--port", "0", "--data-dir", str(path), "--topic", "orders"),
            *settings,
            *arguments,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip().removeprefix("odradek ready bootstrap=")
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdout.close()


def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    with served(tmp_path, "--brokers", "3") as (process, bootstrap):
        told: list[str] = []
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        for number in range(200):
            producer.produce(
                "orders",
                str(number),
                on_delivery=lambda error, message: (
                    told.append((message.value() or b"").decode()) if error is None else None
                ),
            )
            producer.poll(0)
        while len(told) < 100:
            producer.poll(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
        producer.purge()
        producer.flush(TIMEOUT_S)
    # Every replica in sync has all of it: any of the three files is enough.
    for content in written(tmp_path):
        found = sum(batch.record_count for batch in batches(memoryview(content)))
        assert found >= len(told)
    with served(tmp_path) as (_, bootstrap):
        assert told == read(bootstrap, len(told))


def test_a_directory_that_was_lost_is_filled_by_the_others(tmp_path: Path) -> None:
    """An empty folder is a new disk: its broker fetches everything from the leaders."""
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a", "b")
    lost = tmp_path / "broker-1"
    lost.rename(tmp_path.parent / "lost")
    lost.mkdir()
    with cluster(tmp_path) as second:
        assert ["a", "b"] == read(second.bootstrap, 2)
        assert in_sync(second, 0) == {1, 2, 3}
    assert 1 == len(set(written(tmp_path)))
    assert 1 == len(set(written(tmp_path, METADATA_FOLDER)))


@pytest.mark.parametrize("node_id", NODES)
def test_a_replica_that_has_lost_its_files_takes_nothing_from_the_others(tmp_path: Path, node_id: int) -> None:
    """Kafka's replica leads with what it has, if it is the one in the ISR, and the others lose their records."""
    with cluster(tmp_path) as first:
        produce(first.bootstrap, "a", "b")
    whole = written(tmp_path)
    (tmp_path / f"broker-{node_id}" / "orders-0" / FIRST).unlink()
    with warned() as told, cluster(tmp_path) as second:
        assert ["a", "b"] == read(second.bootstrap, 2)
        found = second.warnings
    assert told == found
    [damaged, filled] = found
    assert damaged.endswith("orders-0 reason=it ends at offset 0, and everything up to 2 was on the device")
    assert filled.startswith(f"replica_filled broker={node_id} folder=orders-0 offsets=0 to 1 reason=")
    assert 1 == len(set(written(tmp_path)))
    assert written(tmp_path)[0].startswith(whole[0])
    with cluster(tmp_path) as third:
        assert [] == third.warnings
        assert ["a", "b"] == read(third.bootstrap, 2)


def test_a_directory_that_is_missing_is_told_with_what_it_had(tmp_path: Path) -> None:
    with cluster(tmp_path, topics=["orders:12"]):
        pass
    shutil.rmtree(tmp_path / "broker-3")
    with warned() as told, cluster(tmp_path, brokers=None) as second:
        assert [1, 2] == second.broker_ids
        leaderless = [f"orders-{index}" for index in range(12) if second.leader("orders", index) < 0]
    # The last broker that stops cleanly is alone in the ISR, as in Kafka.
    assert 12 == len(leaderless)
    [line] = told
    assert line.startswith("directories_are_missing brokers=[3] partitions_with_fewer_replicas=1")
    assert f"partitions_without_leader={', '.join(leaderless[:10])} and " in line


def test_what_three_brokers_of_kafka_left_is_gone_on_with(tmp_path: Path) -> None:
    """Kafka 4.4, combined brokers and controllers: broker 1 was stopped first, so its metadata ends sooner."""
    with tarfile.open(DATA / "three-brokers.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    ends = [len(content) for content in written(tmp_path, METADATA_FOLDER)]
    assert ends[0] < ends[1] == ends[2]
    with Cluster(data_dir=tmp_path) as running:
        assert [1, 2, 3] == running.broker_ids
        for index in (0, 1):
            assert in_sync(running, index) == {1, 2, 3}
        for topic, partitions in (("orders", 2), ("solo", 3)):
            # The aborted record is not among them.
            assert {f"v{number}" for number in range(10)} == set(committed(running.bootstrap, topic, partitions))
        offsets = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "g"})
        found = offsets.committed([TopicPartition("orders", index) for index in (0, 1)], TIMEOUT_S)
        offsets.close()
        assert all(each.offset > 0 for each in found)
        till = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "t"})
        till.init_transactions(TIMEOUT_S)
        till.begin_transaction()
        till.produce("solo", "in a transaction")
        till.commit_transaction(TIMEOUT_S)
        produce(running.bootstrap, "goes on")
    with Cluster(data_dir=tmp_path) as again:
        assert [1, 2, 3] == again.broker_ids


def refusal(path: Path, **arguments: object) -> str:
    with pytest.raises(UsageError) as raised, cluster(path, **arguments):
        pass
    return str(raised.value)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with cluster(tmp_path):
        pass
    return tmp_path


def test_it_is_of_other_brokers(stopped: Path) -> None:
    there = f"The data directory {stopped} is of brokers 1, 2 and 3, not of"
    assert f"{there} brokers 1 and 2." == refusal(stopped, brokers=2)
    assert f"{there} broker 1." == refusal(stopped, brokers=1)
    assert f"{there} brokers 4, 5 and 6." == refusal(stopped, brokers=None, node_ids=[4, 5, 6])
    more = f"{there} brokers 1, 2, 3 and 4: an empty folder broker-4 would be a new disk."
    assert more == refusal(stopped, brokers=4)


def test_nobody_begins_a_cluster_in_the_directory_of_another(
    stopped: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("broker-7", "mine", "broker-1/mine"):
        sentence = f"{stopped / name} lies in the data directory "
        assert refusal(stopped / name, brokers=1).startswith(sentence)
        assert not (stopped / name).exists()
    shutil.rmtree(stopped / "broker-3")
    assert refusal(stopped / "broker-3", brokers=1).startswith(f"{stopped / 'broker-3'} lies in the data directory ")
    alone = tmp_path_factory.mktemp("alone")
    for name in ("broker-1", "broker-2", "broker-3"):
        with cluster(alone / name, brokers=1, config={}) as each:
            assert [1] == each.broker_ids, "these only happen to be called so"


def test_it_is_of_one_broker(tmp_path: Path) -> None:
    with cluster(tmp_path, brokers=1, config={}):
        pass
    assert f"The data directory {tmp_path} is of one broker, not of 3 brokers." == refusal(tmp_path)


def test_one_of_them_is_of_another_node_or_cluster(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    with cluster(other):
        pass
    cluster_id, strange = (
        read_meta((path / "broker-1" / "meta.properties").read_bytes()).cluster_id for path in (stopped, other)
    )
    two = stopped / "broker-2"
    two.rename(stopped.parent / "two")
    (other / "broker-2").rename(two)
    assert f"The data directory {two} is of cluster {strange}, not of {cluster_id}." == refusal(stopped)
    two.rename(stopped.parent / "strange")
    (stopped / "broker-3").rename(two)
    (stopped.parent / "two").rename(stopped / "broker-3")
    assert f"The data directory {two} is of broker 3, not of 2." == refusal(stopped)
    assert (stopped / "broker-1" / ".kafka_cleanshutdown").exists()


def test_one_of_them_is_in_use(stopped: Path) -> None:
    with warned(), Cluster(data_dir=stopped / "broker-2"):
        assert (
            f"The data directory cannot be used: another cluster of this process uses {stopped / 'broker-2'}."
            == refusal(stopped)
        )
    with cluster(stopped) as again:
        assert [1, 2, 3] == again.broker_ids


def test_the_directory_of_one_of_several_brokers_is_gone_on_with_alone(tmp_path: Path) -> None:
    with served(tmp_path, "--brokers", "3") as (process, bootstrap):
        produce(bootstrap, "a")
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
    with warned() as told, Cluster(data_dir=tmp_path / "broker-2") as alone:
        assert [2] == alone.broker_ids
        image = alone._running.controller.node.image
        assert [True, False, True] == [image.brokers[node_id].fenced for node_id in NODES]
        assert ["a"] == read(alone.bootstrap, 1)
    assert [
        "directories_are_missing brokers=[1, 3] partitions_with_fewer_replicas=3 partitions_without_leader=none"
    ] == told


def test_there_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert f"The data directory {tmp_path} has no folders of brokers, and is not empty." == refusal(tmp_path)


def test_every_broker_has_a_snapshot_of_the_metadata(tmp_path: Path) -> None:
    with cluster(tmp_path) as first:
        running = first._running
        data_dir = running.data_dir
        assert data_dir is not None
        for one in data_dir.dirs.values():
            first._call(partial(one.snapshots.write, running.controller.node.image))
    for node_id in NODES:
        names = (tmp_path / f"broker-{node_id}" / METADATA_FOLDER).iterdir()
        assert 1 == len([name for name in names if read_checkpoint_file(name.name)])
    with cluster(tmp_path) as second:
        produce(second.bootstrap, "a")
