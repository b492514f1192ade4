"""Directories that `kafka-storage format` has made and no broker has used: their levels and users are the cluster's.

`data/formatted.tar.gz` has those of real tools: of 4.4 (`--feature` with levels that a new cluster has not, and
`--add-scram`; `--standalone`), of 4.0 (`--feature`; `--standalone`) and of 3.9 (`--release-version 3.8`).
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from odradek.cli.usage import UsageError
from odradek.log.files.marks import read_meta
from odradek.log.metadata_log import METADATA_FOLDER
from odradek.metadata.quorum import decode_quorum
from odradek.metadata.snapshot_file import read_quorum
from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.records.control import ControlType, quorum_records
from odradek.testing import Cluster
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from odradek.wire.messages.describe_quorum_response import DescribeQuorumResponse
from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.voters_record import Endpoint, VotersRecord

pytestmark = pytest.mark.client

ARCHIVE = Path(__file__).parent / "data" / "formatted.tar.gz"
OF_4_4 = {"metadata.version": 27, "share.version": 1, "transaction.version": 1}
OF_4_0 = {"metadata.version": 23, "group.version": 1, "transaction.version": 1}
OF_3_9 = {"metadata.version": 20}
FIRST_RECORDS = {"4.4": f"__cluster_metadata-0/{0:020d}-{0:010d}.checkpoint", "4.0": "bootstrap.checkpoint"}


def formatted(release: str, path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path, filter="data")
    return path / release / "data"


def levels_and_users(bootstrap: str) -> tuple[Mapping[str, int], list[str]]:
    with BlockingClient(bootstrap.split(",")[0], client_id="look") as client:
        found = client.ask(ApiVersionsRequest(client_software_name="look", client_software_version="1"), 3)
        users = client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results
    return {each.name: each.max_version_level for each in found.finalized_features}, [each.user for each in users]


def quorum_of(bootstrap: str) -> DescribeQuorumResponse:
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    with BlockingClient(bootstrap.split(",")[0], client_id="look") as client:
        return client.ask(DescribeQuorumRequest(topics=[asked]), 2)


def raise_quorum(bootstrap: str) -> None:
    wanted = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    with BlockingClient(bootstrap.split(",")[0], client_id="operator") as client:
        assert 0 == client.ask(UpdateFeaturesRequest(feature_updates=[wanted]), 2).error_code


def voters(bootstrap: str) -> list[tuple[int, bytes]]:
    """The voters that DescribeQuorum tells, with the ids of their directories."""
    [partition] = quorum_of(bootstrap).topics[0].partitions
    return [(each.replica_id, each.replica_directory_id) for each in partition.current_voters]


@pytest.mark.parametrize(
    ("release", "as_kafka", "levels", "users"),
    [
        ("4.4", None, OF_4_4, ["alice"]),
        ("4.0", None, OF_4_0, []),
        ("4.0", "4.0", OF_4_0, []),
        ("3.9", "3.9", OF_3_9, []),
    ],
)
def test_a_cluster_begins_with_what_its_directory_was_formatted_with(
    release: str, as_kafka: str | None, levels: Mapping[str, int], users: list[str], tmp_path: Path
) -> None:
    path = formatted(release, tmp_path)
    with Cluster(data_dir=path, as_kafka=as_kafka, topics=["orders"]) as cluster:
        assert (levels, users) == levels_and_users(cluster.bootstrap)
    # From now on the log has it.
    for file in FIRST_RECORDS.values():
        if (path / file).exists():
            (path / file).write_bytes(b"\xa5" * 300)
    with Cluster(data_dir=path, as_kafka=as_kafka) as cluster:
        assert (levels, users) == levels_and_users(cluster.bootstrap)


def test_the_quorum_that_a_directory_was_formatted_with_is_told(tmp_path: Path) -> None:
    """The level of kraft.version is in no record of a feature, but with the voters (KIP-853)."""
    path = formatted("standalone", tmp_path)
    directory = read_meta((path / "meta.properties").read_bytes()).directory_id
    for _ in range(2):
        with Cluster(data_dir=path) as cluster:
            assert 1 == levels_and_users(cluster.bootstrap)[0]["kraft.version"]
            assert [(1, directory)] == voters(cluster.bootstrap)
    # Kafka's first leader writes them into the log, too.
    log = memoryview((path / METADATA_FOLDER / f"{0:020d}.log").read_bytes())
    first = read_quorum((path / FIRST_RECORDS["4.4"]).read_bytes())
    assert {kind: each.value for kind, each in first.items()} == {
        kind: each.value for kind, each in quorum_records(batches(log)).items()
    }
    (path / FIRST_RECORDS["4.4"]).unlink()
    with Cluster(data_dir=path) as cluster:
        assert 1 == levels_and_users(cluster.bootstrap)[0]["kraft.version"]


@pytest.mark.parametrize("as_kafka", [None, "4.0"])
def test_a_quorum_has_a_file_of_its_own_before_4_2(as_kafka: str | None, tmp_path: Path) -> None:
    """All other records are in `bootstrap.checkpoint` then."""
    path = formatted("standalone-4.0", tmp_path)
    with Cluster(data_dir=path, as_kafka=as_kafka) as cluster:
        assert {
            "metadata.version": 25,
            "group.version": 1,
            "transaction.version": 2,
            "kraft.version": 1,
        } == levels_and_users(cluster.bootstrap)[0]


def test_of_a_log_that_does_not_have_them_the_voters_are_those_of_the_format(tmp_path: Path) -> None:
    path = formatted("standalone", tmp_path)
    voters_of_format = (path / FIRST_RECORDS["4.4"]).read_bytes()
    (path / FIRST_RECORDS["4.4"]).unlink()
    with Cluster(data_dir=path) as cluster:
        assert "kraft.version" not in levels_and_users(cluster.bootstrap)[0]
    (path / FIRST_RECORDS["4.4"]).write_bytes(voters_of_format)
    with Cluster(data_dir=path) as cluster:
        assert 1 == levels_and_users(cluster.bootstrap)[0]["kraft.version"]


@pytest.mark.parametrize("level", [0, 1])
def test_all_brokers_with_directories_are_told_as_voters(level: int, tmp_path: Path) -> None:
    """Each of them is a controller of Kafka, too. The leader has not heard of one that does not run."""
    with Cluster(data_dir=tmp_path / "data", brokers=3) as cluster:
        if level:
            raise_quorum(cluster.bootstrap)
        cluster.stop_broker(3)
        told = quorum_of(cluster.bootstrap)
    [partition] = told.topics[0].partitions
    metas = [read_meta((tmp_path / "data" / f"broker-{each}" / "meta.properties").read_bytes()) for each in (1, 2, 3)]
    assert [(each.node_id, each.directory_id if level else bytes(16)) for each in metas] == [
        (each.replica_id, each.replica_directory_id) for each in partition.current_voters
    ]
    end = partition.high_watermark
    assert [end, end, -1] == [each.log_end_offset for each in partition.current_voters]
    assert [False, False, True] == [each.last_fetch_timestamp == -1 for each in partition.current_voters]
    assert [] == partition.observers
    assert [1, 2, 3] == [each.node_id for each in told.nodes]


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_version_of_the_quorum_goes_up_with_all_voters(brokers: int, tmp_path: Path) -> None:
    """A node of Kafka is a voter only with the id of its directory."""
    quorum = {"controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{19090 + each}" for each in range(1, 4))}
    path = tmp_path / "data"
    with Cluster(data_dir=path, brokers=brokers, config=quorum) as cluster:
        assert "kraft.version" not in levels_and_users(cluster.bootstrap)[0]
        raise_quorum(cluster.bootstrap)
        assert 1 == levels_and_users(cluster.bootstrap)[0]["kraft.version"]
    folders = [path] if brokers == 1 else [path / f"broker-{node_id}" for node_id in range(1, brokers + 1)]
    directories = [read_meta((each / "meta.properties").read_bytes()).directory_id for each in folders]
    for folder in folders:
        log = memoryview((folder / METADATA_FOLDER / f"{0:020d}.log").read_bytes())
        level, found = decode_quorum(quorum_records(batches(log)))
        assert KRaftVersionRecord(k_raft_version=1) == level
        assert isinstance(found, VotersRecord)
        assert [
            (node_id, directory, [Endpoint(name="CONTROLLER", host="127.0.0.1", port=19090 + node_id)])
            for node_id, directory in enumerate(directories, start=1)
        ] == [(each.voter_id, each.voter_directory_id, each.endpoints) for each in found.voters]
    with Cluster(data_dir=path) as cluster:
        assert 1 == levels_and_users(cluster.bootstrap)[0]["kraft.version"]


def test_the_voters_of_a_quorum_are_in_each_snapshot(tmp_path: Path) -> None:
    """A node that begins with the newest snapshot has no other file that names them (KIP-853)."""
    path = formatted("standalone", tmp_path)
    first = read_quorum((path / FIRST_RECORDS["4.4"]).read_bytes())
    assert [ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS] == list(first)
    for count in (2, 3):
        with Cluster(data_dir=path, topics=["orders"]) as cluster:
            running = cluster._running
            assert running.data_dir is not None
            for one in running.data_dir.dirs.values():
                cluster._call(partial(one.snapshots.write, running.controller.node.image))
        snapshots = sorted((path / METADATA_FOLDER).glob("*.checkpoint"))
        assert count == len(snapshots)
        found = read_quorum(snapshots[-1].read_bytes())
        assert {kind: each.value for kind, each in first.items()} == {kind: each.value for kind, each in found.items()}
        # The one before is not needed any more.
        snapshots[-2].write_bytes(b"")


@pytest.mark.parametrize("release", FIRST_RECORDS)
@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\xa5" * 300, "Record size"), (b"", "it has no header and footer of a snapshot")],
    ids=["garbage", "empty"],
)
def test_first_records_that_cannot_be_read_are_refused(release: str, data: bytes, reason: str, tmp_path: Path) -> None:
    path = formatted(release, tmp_path)
    file = FIRST_RECORDS[release]
    (path / file).write_bytes(data)
    with pytest.raises(UsageError) as refused, Cluster(data_dir=path):
        pass
    assert f"The data directory {path} cannot be used: {file}: {reason}" in str(refused.value)


def test_levels_that_the_release_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused, Cluster(data_dir=formatted("4.0", tmp_path), as_kafka="3.9"):
        pass
    assert "feature metadata.version is finalized at 23, the broker supports" in str(refused.value)


def test_brokers_of_one_cluster_begin_with_what_the_first_was_formatted_with(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for node_id in (1, 2):
        path = formatted("4.4", tmp_path / str(node_id)).rename(data / f"broker-{node_id}")
        meta = (path / "meta.properties").read_text()
        meta = re.sub("node.id=.*", f"node.id={node_id}", meta)
        (path / "meta.properties").write_text(re.sub("directory.id=.", f"directory.id={node_id}", meta))
    with Cluster(data_dir=data, brokers=2) as cluster:
        assert (OF_4_4, ["alice"]) == levels_and_users(cluster.bootstrap)
