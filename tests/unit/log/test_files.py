"""The formats of Kafka's files, held against files that a real Kafka has written (`tests/pipeline/data`)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from odradek.log.aborted import AbortedTransaction
from odradek.log.disk import DamagedFile
from odradek.log.files.checkpoints import read_epochs, read_offsets, write_epochs, write_offsets
from odradek.log.files.indexes import (
    last_entry,
    last_timestamp,
    read_aborted,
    read_offset_index,
    read_time_index,
    write_aborted,
    write_offset_index,
    write_time_index,
)
from odradek.log.files.marks import (
    Meta,
    QuorumState,
    read_clean_stop,
    read_meta,
    read_partition_metadata,
    read_quorum_state,
    write_clean_stop,
    write_meta,
    write_partition_metadata,
    write_quorum_state,
)
from odradek.log.files.names import (
    BOOTSTRAP,
    Folder,
    SegmentFile,
    SnapshotId,
    checkpoint_file,
    read_checkpoint_file,
    read_folder,
    read_segment_file,
    segment_file,
)
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.files.walk import index_of_segment, walk
from odradek.records.compression import Compression
from odradek.records.message_set import message_set
from odradek.records.record import Record

DATA = Path(__file__).parents[2] / "pipeline" / "data"
INDEX_INTERVAL = {"tv1": 256, "tv2": 256, "hang": 256, "cleaned": 4096, "emptied": 4096, "emptied-0": 4096}
"""`log.index.interval.bytes` of the brokers that were recorded."""


@cache
def recorded(archive: str) -> dict[str, bytes]:
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        files = ((member, tar.extractfile(member)) for member in tar.getmembers())
        return {member.name.removeprefix("./"): file.read() for member, file in files if file is not None}


def of_kind(suffix: str) -> Iterator[tuple[str, str, bytes]]:
    for archive in INDEX_INTERVAL:
        for name, data in recorded(archive).items():
            if name.endswith(suffix):
                yield archive, name, data


def base_of(name: str) -> int:
    found = read_segment_file(name.rpartition("/")[2])
    assert found is not None
    return found.base_offset


def test_snapshots_of_producers_are_written_as_by_kafka() -> None:
    files = [data for _, _, data in of_kind(".snapshot")]
    assert any(read_producers(data) for data in files)
    assert files == [write_producers(read_producers(data)) for data in files]


def test_transaction_indexes_are_written_as_by_kafka() -> None:
    files = [data for _, _, data in of_kind(".txnindex")]
    assert any(read_aborted(data) for data in files)
    assert files == [write_aborted(read_aborted(data)) for data in files]


def test_checkpoints_are_written_as_by_kafka() -> None:
    epochs = [data for _, _, data in of_kind("leader-epoch-checkpoint") if data]
    offsets = [data for _, _, data in of_kind("-offset-checkpoint") if data]
    assert epochs
    assert offsets
    assert epochs == [write_epochs(read_epochs(data)) for data in epochs]
    assert offsets == [write_offsets(read_offsets(data)) for data in offsets]


def test_the_ids_of_topics_are_written_as_by_kafka() -> None:
    files = [data for _, _, data in of_kind("partition.metadata")]
    assert files
    assert files == [write_partition_metadata(read_partition_metadata(data)) for data in files]


@pytest.mark.parametrize("archive", INDEX_INTERVAL)
def test_indexes_are_made_of_a_segment_as_by_kafka(archive: str) -> None:
    files = recorded(archive)
    compared = 0
    for name in [name for name in files if name.endswith(".log")]:
        base = base_of(name)
        view = memoryview(files[name])
        index = walk(view, base, checks=True)
        assert (len(view), "") == (index.size, index.problem)
        by_offset, by_time = index_of_segment(view, index, interval_bytes=INDEX_INTERVAL[archive])
        if "__cluster_metadata" in name:
            continue  # which has an interval of its own
        stem = name.removesuffix(".log")
        kafkas = read_offset_index(files[f"{stem}.index"], base)
        assert kafkas == by_offset
        assert write_offset_index(base, by_offset) == files[f"{stem}.index"][: 8 * len(kafkas)]
        # The last entry comes when the segment ends, and some of these were recorded while they were written to.
        times = read_time_index(files[f"{stem}.timeindex"], base)
        assert times in (by_time, by_time[:-1])
        assert write_time_index(base, times) == files[f"{stem}.timeindex"][: 12 * len(times)]
        compared += len(kafkas) + len(times)
    assert compared


@pytest.mark.parametrize("room", [0, 1, 3, 8192, 10_000, 1_310_720])
def test_room_behind_an_index_is_no_entry(room: int) -> None:
    entries = [(10, 70), (11, 256), (266, 1 << 24), (10 + (1 << 24), 0)]
    for count in range(len(entries) + 1):
        data = write_offset_index(10, entries[:count]) + bytes(8 * room)
        assert entries[:count] == read_offset_index(data, 10)
        assert (entries[count - 1] if count else None) == last_entry(data, 10)
    times = [(256, 10), (1 << 24, 266), (1 << 40, 10)]
    for count in range(len(times) + 1):
        data = write_time_index(10, times[:count]) + bytes(12 * room)
        assert times[:count] == read_time_index(data, 10)
        assert (times[count - 1][0] if count else None) == last_timestamp(data)


def test_the_last_entry_of_a_time_index_is_the_greatest_timestamp() -> None:
    data = write_time_index(10, [(1_000, 11), (2_000, 14)])
    assert 2_000 == last_timestamp(data)
    assert 2_000 == last_timestamp(data + bytes(24))
    assert last_timestamp(bytes(24)) is None


def test_an_offset_too_far_from_the_base_has_no_entry() -> None:
    assert b"" == write_offset_index(0, [(1 << 31, 5)])


META = b"""#
#Thu Nov 26 07:11:14 UTC 2026
cluster.id=F5wpdsAcYFEn3APxtiq9Tw
directory.id=nbRLNuv2PfEMVZ_FlbO3kQ
node.id=1
version=1
"""


def test_the_owner_of_a_directory_is_written_as_by_kafka() -> None:
    meta = read_meta(META)
    assert ("F5wpdsAcYFEn3APxtiq9Tw", 1) == (meta.cluster_id, meta.node_id)
    assert write_meta(meta, date="Thu Nov 26 07:11:14 UTC 2026") == META


def test_the_recorded_owners_are_read() -> None:
    owners = [read_meta(data) for _, _, data in of_kind("meta.properties")]
    assert owners
    assert all(owner.node_id == 1 and len(owner.directory_id) == 16 for owner in owners)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"version=0\nbroker.id=1\n", "it is of version 0, and version 1 is known"),
        (b"", "it is damaged: it names no version"),
        (b"version=1\nnode.id=1\n", "it names no cluster.id"),
        (b"version=1\ncluster.id=x\nnode.id=one\n", "'one' is no node id"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "'short' is no id of 16 bytes"),
    ],
)
def test_an_owner_that_cannot_be_read(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedFile) as raised:
        read_meta(data)
    assert reason == str(raised.value)


def test_an_owner_without_an_id_of_the_directory() -> None:
    assert Meta("x", 1, b"") == read_meta(b"version=1\ncluster.id=x\nnode.id=1\n")


QUORUM_0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
QUORUM_1 = b'{"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


@pytest.mark.parametrize("data", [QUORUM_0, QUORUM_1])
def test_the_state_of_the_quorum_is_written_as_by_kafka(data: bytes) -> None:
    state = read_quorum_state(data)
    assert (1, 7) == (state.leader_id, state.leader_epoch)
    assert data == write_quorum_state(state)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"data_version":9}', b'{"data_version":0,"leaderId":"x"}'])
def test_a_state_of_the_quorum_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(DamagedFile):
        read_quorum_state(data)


def test_voters_in_the_log_are_not_named() -> None:
    assert QuorumState(1, 7) == read_quorum_state(QUORUM_1)


def test_the_mark_of_a_clean_stop_is_written_as_by_kafka() -> None:
    assert b'{"version":0,"brokerEpoch":11}' == write_clean_stop(11)
    assert 11 == read_clean_stop(write_clean_stop(11))
    assert [-1, -1, -1] == [read_clean_stop(data) for data in (b"", b"[]", b'{"version":0}')]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"1\n0\n", "it is of version '1', and version 0 is known"),
        (b"0\n2\nt 0 5\n", "it announces 2 lines and has 1"),
        (b"0\n", "it announces nothing lines and has 0"),
        (b"0\n1\nt 0\n", "a line has 2 words in place of 3"),
        (b"0\n1\nt 0 x\n", "'x' is no number from 0 on"),
        (b"\xff\xfe", "it is no text"),
    ],
)
def test_a_checkpoint_that_cannot_be_read(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedFile) as raised:
        read_offsets(data)
    assert reason == str(raised.value)


def test_an_empty_checkpoint_is_one_without_lines() -> None:
    assert {} == read_offsets(b"")
    assert [] == read_epochs(b"")


def test_damage_to_a_snapshot_of_producers_is_seen() -> None:
    _, _, data = max(of_kind(".snapshot"), key=lambda found: len(found[2]))
    with pytest.raises(DamagedFile, match="version 256"):
        read_producers(b"\1\0" + data[2:])
    for broken in (data[:-1], data[:20] + bytes([data[20] ^ 1]) + data[21:], data[:9], b""):
        with pytest.raises(DamagedFile):
            read_producers(broken)


def test_damage_to_a_transaction_index_is_seen() -> None:
    one = AbortedTransaction(1, 2, 3, 4)
    for broken in (write_aborted([one])[:-1], write_aborted([one, one]), b"\0\1" + write_aborted([one])[2:]):
        with pytest.raises(DamagedFile):
            read_aborted(broken)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("orders-0", Folder("orders", 0)),
        ("a-b.c_d-12", Folder("a-b.c_d", 12)),
        ("orders-1.0123456789abcdef0123456789abcdef-delete", Folder("orders", 1, "delete")),
        ("orders-1.0123456789abcdef0123456789abcdef-stray", Folder("orders", 1, "stray")),
        ("orders", None),
        ("lost+found", None),
    ],
)
def test_names_of_folders(name: str, folder: Folder | None) -> None:
    assert folder == read_folder(name)


def test_names_of_files() -> None:
    assert "00000000000000000042.log" == segment_file(42, ".log")
    assert SegmentFile(42, ".log") == read_segment_file("00000000000000000042.log")
    assert SegmentFile(42, ".log", ".swap") == read_segment_file("00000000000000000042.log.swap")
    assert read_segment_file("leader-epoch-checkpoint") is None
    assert "00000000000000000042-0000000003.checkpoint" == checkpoint_file(SnapshotId(42, 3))
    assert SnapshotId(42, 3) == read_checkpoint_file("00000000000000000042-0000000003.checkpoint")
    assert read_checkpoint_file("00000000000000000042-0000000003.checkpoint.part") is None
    assert SnapshotId(0, 0) == read_checkpoint_file(BOOTSTRAP)


def test_a_segment_ends_where_its_batches_do() -> None:
    files = recorded("tv2")
    data = files["orders-0/00000000000000000000.log"]
    whole = walk(memoryview(data), 0, checks=True)
    last = whole.positions[-1]
    for cut in (data[:-1], data[: last + 30], data[: last + 5]):
        found = walk(memoryview(cut), 0, checks=True)
        assert (last, whole.offsets[-1]) == (found.size, found.next_offset)
        assert found.problem
    zeros = walk(memoryview(data + bytes(5_000)), 0, checks=True)
    assert (len(data), "there is no batch") == (zeros.size, zeros.problem)
    flipped = bytearray(data)
    flipped[last + 65] ^= 1
    assert last == walk(memoryview(flipped), 0, checks=True).size
    assert len(data) == walk(memoryview(flipped), 0, checks=False).size
    twice = walk(memoryview(data + data), 0, checks=True)
    assert (len(data), "a batch at offset 0 follows offset 47") == (twice.size, twice.problem)


SOME = [Record(offset, 1_000 * offset, b"k", b"v" * 40) for offset in (3, 4, 7)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_segment_of_older_messages_ends_where_they_do(magic: int, compression: Compression) -> None:
    first = message_set(SOME, magic=magic, compression=compression)
    data = first + message_set([Record(9, 500)], magic=magic, compression=compression)
    for checks in (False, True):
        whole = walk(memoryview(data), 3, checks=checks)
        assert (len(data), 10, "", False) == (whole.size, whole.next_offset, whole.problem, whole.has_producers)
        assert ([3, 8] if compression else [3, 4, 7, 9]) == [*whole.offsets]
        newest = 7_000 if magic else -1
        assert newest == whole.timestamps[-1]
        for cut in range(len(first) + 1, len(data)):
            found = walk(memoryview(data[:cut]), 3, checks=checks)
            assert (len(first), 8) == (found.size, found.next_offset)
            assert found.problem
    flipped = bytearray(data)
    flipped[-1] ^= 1
    assert len(first) == walk(memoryview(flipped), 3, checks=True).size
    assert len(data) == walk(memoryview(flipped), 3, checks=False).size
    assert (len(data), "there is no batch") == (
        (zeros := walk(memoryview(data + bytes(5_000)), 3, checks=True)).size,
        zeros.problem,
    )
    twice = walk(memoryview(data + data), 3, checks=True)
    assert (len(data), f"a batch at offset {whole.offsets[0] if not compression else 7} follows offset 9") == (
        twice.size,
        twice.problem,
    )


def test_an_older_message_that_says_wrong_sizes_ends_a_segment() -> None:
    good = message_set(SOME, magic=1)
    for length in (-1, 0, 13, 21, 1 << 30):
        bad = bytearray(message_set([Record(9, 500)], magic=1))
        bad[8:12] = length.to_bytes(4, "big", signed=True)
        found = walk(memoryview(good + bad), 3, checks=False)
        assert (len(good), 8) == (found.size, found.next_offset), length
        assert found.problem


def test_a_batch_of_which_there_is_only_the_beginning_is_no_older_message() -> None:
    torn = bytes(8) + (64).to_bytes(4, "big") + bytes(64)
    assert 0 == walk(memoryview(torn), 0, checks=True).size
