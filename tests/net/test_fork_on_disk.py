"""Snapshots that are directories: what they share, that nobody changes them, and what is refused."""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import AdminClient
from tests.net.copies import copy_while_it_runs
from tests.net.test_fork import TIMEOUT_S, committed, hang, produce, read, settings, stable_end

from odradek.cli.usage import UsageError
from odradek.log.file_store import FileStore
from odradek.net import disk
from odradek.net.fork_dir import SnapshotFiles
from odradek.net.snapshot import ClusterSnapshot
from odradek.net.snapshot_dir import MARK
from odradek.testing import Cluster, Snapshot

pytestmark = pytest.mark.client

CONFIG = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2, "log.segment.bytes": 1_048_576}
LARGE = "x" * 200_000


def digests(directory: Path) -> dict[str, str]:
    """Of every file below, by its name."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def delete(cluster: Cluster) -> None:
    """Delete the topic."""
    admin = AdminClient(settings(cluster))
    admin.delete_topics(["orders"])["orders"].result(TIMEOUT_S)


def prepare(path: Path) -> Snapshot:
    """Ten large records in several segments, a transaction that hangs with offsets, and an origin that is gone."""
    with Cluster(data_dir=path / "origin", topics=["orders"], config=CONFIG) as origin:
        for number in range(10):
            produce(origin, f"{number}{LARGE}")
        producer = hang(origin)
        snapshot = origin.snapshot(path / "kept")
        producer.abort_transaction(TIMEOUT_S)
        produce(origin, "of the origin")
        delete(origin)
    shutil.rmtree(path / "origin")
    return snapshot


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return prepare(tmp_path_factory.mktemp("fork"))


def first_letters(cluster: Cluster, count: int, *, committed: bool = False) -> list[str]:
    return [value[:1] for value in read(cluster, count, committed=committed)]


def test_forks_go_on_and_change_nothing_of_their_snapshot(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    before = digests(kept.directory)
    with (
        Cluster(from_=kept, data_dir=tmp_path / "one") as one,
        Cluster(from_=kept, data_dir=tmp_path / "other") as other,
    ):
        assert [*"0123456789o"] == first_letters(one, 11)
        assert 10 == stable_end(one)
        one.advance(timedelta(minutes=2))  # the transaction had a minute left
        produce(one, "new")
        assert [*"0123456789n"] == first_letters(one, 11, committed=True)
        assert 0 > committed(one, stable=True)  # those of the transaction were pending, and it was aborted
        assert 10 == stable_end(other)
        produce(other, *[f"more{LARGE}"] * 8)
        delete(other)
        assert [*"0123456789n"] == first_letters(one, 11, committed=True)
    assert before == digests(kept.directory)
    with Cluster(data_dir=tmp_path / "one") as again:
        produce(again, "later")
        assert [*"0123456789nl"] == first_letters(again, 12, committed=True)
    assert before == digests(kept.directory)


def test_a_fork_shares_the_files_that_nobody_writes_to(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    with Cluster(from_=kept, data_dir=tmp_path / "fork"):
        shared = {path.name: path.stat().st_ino for path in (kept.directory / "orders-0").glob("*.log")}
        forked = {path.name: path.stat().st_ino for path in (tmp_path / "fork" / "orders-0").glob("*.log")}
        assert len(shared) >= 2
        *sealed, last = sorted(shared)
        assert [shared[name] for name in sealed] == [forked[name] for name in sealed]
        assert shared[last] != forked[last]


def test_a_fork_lacks_the_last_indexes_until_it_stops_cleanly(kept: Snapshot, tmp_path: Path) -> None:
    """While it runs its directory is as that of any process; a clean stop leaves what it left in the snapshot."""
    assert kept.directory is not None
    folders = [folder.name for folder in kept.directory.iterdir() if folder.is_dir() and folder.name[:2] != "__"]
    assert ["orders-0"] == folders
    before = digests(kept.directory / "orders-0")
    last = max(name for name in before if name.endswith(".log")).removesuffix(".log")
    with Cluster(from_=kept, data_dir=tmp_path / "fork"):
        running = digests(tmp_path / "fork" / "orders-0")
        assert {f"{last}.index", f"{last}.timeindex"} == before.keys() - running.keys()
        copy_while_it_runs(tmp_path / "fork", tmp_path / "killed")
    assert before == digests(tmp_path / "fork" / "orders-0")
    for path in (tmp_path / "fork", tmp_path / "killed"):
        with Cluster(data_dir=path) as again:
            assert [*"0123456789o"] == first_letters(again, 11)
            assert 10 == stable_end(again)
            assert [] == again.warnings
        assert before.keys() == digests(path / "orders-0").keys()


def test_a_fork_whose_process_ended_while_it_was_made_is_no_data_directory(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    SnapshotFiles(kept.directory).make(str(tmp_path), late=False)
    with pytest.raises(UsageError, match=r"has no meta\.properties and is not empty"):
        Cluster(data_dir=tmp_path).__enter__()


def test_a_large_last_segment_ends_with_the_snapshot(tmp_path: Path) -> None:
    config = CONFIG | {"log.segment.bytes": 16 * 1024 * 1024}
    with Cluster(data_dir=tmp_path / "origin", topics=["orders"], config=config) as origin:
        for number in range(8):
            produce(origin, f"{number}{LARGE}")
        origin.snapshot(tmp_path / "kept")
        produce(origin, "of the origin")
    assert ["0" * 20 + ".log", "0" * 19 + "8.log"] == sorted(
        path.name for path in (tmp_path / "kept" / "orders-0").glob("*.log")
    )
    with Cluster(from_=tmp_path / "kept", data_dir=tmp_path / "fork") as fork:
        produce(fork, "a")
        assert [*"01234567a"] == first_letters(fork, 9)


def test_a_path_is_enough_and_a_fork_without_a_directory_leaves_none(kept: Snapshot) -> None:
    assert kept.directory is not None
    with Cluster(from_=kept.directory) as fork:
        made = fork._running.made_dir
        assert made is not None
        assert made.exists()
        assert [*"0123456789o"] == first_letters(fork, 11)
        assert 10 == stable_end(fork)
        second = fork.snapshot(made.parent / "second")
    assert not made.exists()
    with Cluster(from_=second) as grandchild:
        produce(grandchild, "new")
        assert [*"0123456789on"] == first_letters(grandchild, 12)


def test_a_directory_that_goes_with_its_fork_has_folders_with_their_first_change(kept: Snapshot) -> None:
    with Cluster(from_=kept) as fork:
        made = fork._running.made_dir
        assert made is not None
        assert not (made / "orders-0").exists()
        assert [*"0123456789o"] == first_letters(fork, 11)
        assert not (made / "orders-0").exists()
        produce(fork, "new")
        assert {log.name for log in (kept_folder(kept) / "orders-0").glob("*.log")} <= {
            log.name for log in (made / "orders-0").glob("*.log")
        }
        hang(fork).commit_transaction(TIMEOUT_S)
        assert [*"0123456789no"] == first_letters(fork, 12, committed=True)


def kept_folder(snapshot: Snapshot) -> Path:
    assert snapshot.directory is not None
    return snapshot.directory


def test_such_a_fork_outlives_a_snapshot_that_lets_it_go(kept: Snapshot, tmp_path: Path) -> None:
    shutil.copytree(kept_folder(kept), tmp_path / "copy")
    snapshot = Snapshot(ClusterSnapshot.read(tmp_path / "copy"))
    with Cluster(from_=snapshot) as fork, Cluster(from_=snapshot) as other:
        fork._call(snapshot.cluster.let_go)
        shutil.rmtree(tmp_path / "copy")
        produce(fork, "new")
        assert [*"0123456789on"] == first_letters(fork, 12)
        assert [*"0123456789o"] == first_letters(other, 11)
        second = other.snapshot(tmp_path / "second")
    with Cluster(from_=second) as grandchild:
        assert [*"0123456789o"] == first_letters(grandchild, 11)


def test_a_topic_is_deleted_before_it_has_a_folder(kept: Snapshot) -> None:
    with Cluster(from_=kept) as fork:
        made = fork._running.made_dir
        assert made is not None
        delete(fork)
        assert not (made / "orders-0").exists()
        assert [*"0123456789o"] == first_letters_of_another(kept)


def first_letters_of_another(kept: Snapshot) -> list[str]:
    with Cluster(from_=kept) as fork:
        return first_letters(fork, 11)


@pytest.mark.parametrize("stays", [True, False])
def test_a_fork_waits_for_the_device_only_if_its_directory_stays(
    kept: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    synced: list[int] = []
    closed: list[FileStore] = []
    close = FileStore.close

    def noted(store: FileStore, *, broker_epoch: int) -> None:
        closed.append(store)
        close(store, broker_epoch=broker_epoch)

    monkeypatch.setattr(disk, "_SYNC", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(FileStore, "close", noted)
    with Cluster(from_=kept, data_dir=tmp_path / "fork" if stays else None, topics=["new"]) as fork:
        produce(fork, "a")
    assert stays == bool(synced)
    assert stays == bool(closed)


def test_a_snapshot_in_memory_outlives_the_directory_of_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "origin"
    with Cluster(data_dir=path, topics=["orders"], config=CONFIG) as origin:
        for number in range(10):
            produce(origin, f"{number}{LARGE}")
    with Cluster(data_dir=path) as origin:  # its segments are not opened before somebody reads them
        snapshot = origin.snapshot()
    shutil.rmtree(path)
    with Cluster(from_=snapshot) as one, Cluster(from_=snapshot) as other:
        produce(one, "new")
        assert [*"0123456789n"] == first_letters(one, 11)
        assert [*"0123456789"] == first_letters(other, 10)


def test_the_configuration_is_kept_and_its_secrets_are_not(tmp_path: Path) -> None:
    users = {"alice": "hush"}
    with Cluster(data_dir=tmp_path / "origin", security="sasl-plaintext", users=users, config=CONFIG) as origin:
        snapshot = origin.snapshot(tmp_path / "kept")
    assert "hush" not in (tmp_path / "kept" / MARK).read_text()
    assert "1048576" in (tmp_path / "kept" / MARK).read_text()
    with Cluster(from_=snapshot) as fork:  # in this process nothing is missing
        assert "hush" == fork.access.librdkafka["sasl.password"]


def test_a_snapshot_that_is_gone(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    shutil.copytree(kept.directory, tmp_path / "copy")
    fork = Cluster(from_=tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UsageError, match=rf"^The snapshot {tmp_path}/copy is not there any more\.$"):
        fork.__enter__()
    assert [] == list(tmp_path.iterdir())


def test_what_is_no_snapshot(kept: Snapshot, tmp_path: Path) -> None:
    assert kept.directory is not None
    with pytest.raises(UsageError, match=r"is no snapshot of a cluster: it has no odradek-snapshot\.json"):
        Cluster(from_=tmp_path / "nothing")
    newer = tmp_path / "newer"
    shutil.copytree(kept.directory, newer)
    mark = msgspec.json.decode((newer / MARK).read_bytes())
    (newer / MARK).write_bytes(msgspec.json.encode({**mark, "format": 9, "odradek": "7.0"}))
    with pytest.raises(UsageError, match=r"is of Odradek 7\.0 \(format 9\)"):
        Cluster(from_=newer)
    (newer / MARK).write_bytes(b"{")
    with pytest.raises(UsageError, match="cannot be read"):
        Cluster(from_=newer)


def test_where_a_fork_and_a_snapshot_cannot_be(kept: Snapshot, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("mine")
    with pytest.raises(UsageError, match=r"A fork begins in a directory of its own, and .* is not empty"):
        Cluster(from_=kept, data_dir=taken).__enter__()
    assert ["mine"] == [path.name for path in taken.iterdir()]
    with Cluster(data_dir=tmp_path / "origin", config=CONFIG) as origin:
        with pytest.raises(UsageError, match=r"A snapshot is written to a directory of its own, and .* is not empty"):
            origin.snapshot(taken)
        with pytest.raises(UsageError, match="lies in the data directory"):
            origin.snapshot(tmp_path / "origin" / "kept")
    assert kept.directory is not None
    files = sorted(kept.directory.rglob("*"))
    within = kept.directory / "mine"
    refused: list[dict[str, Any]] = [
        {"from_": kept, "data_dir": within},
        {"data_dir": within},
        {"record": within},
        {"data_dir": tmp_path / "new", "events": within},
    ]
    for arguments in refused:
        with pytest.raises(UsageError, match=rf"^{within} lies in the snapshot {kept.directory}, which never changes"):
            Cluster(**arguments).__enter__()
    with Cluster(from_=kept, data_dir=tmp_path / "fork", config=CONFIG) as fork:
        with pytest.raises(UsageError, match="lies in the snapshot"):
            fork.snapshot(within)
        with pytest.raises(UsageError, match="lies in the data directory"):
            Cluster(data_dir=tmp_path / "fork" / "another").__enter__()
    assert files == sorted(kept.directory.rglob("*"))
    with Cluster() as memory, pytest.raises(UsageError, match="without a data directory is kept in memory"):
        memory.snapshot(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
