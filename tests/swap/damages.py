"""Data directories, and ways to damage them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zlib import crc32

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec import Struct
from tests.swap.outcomes import FOLDER, LOOKED_FOR, ORDERS, OTHER, TIMEOUT_S, Lines
from tests.swap.systems import SHARED

from odradek.cli.logs import make_logger
from odradek.core.machine import LogRecord
from odradek.log.aborted import AbortedTransaction
from odradek.log.file_store import FileStore
from odradek.log.files.checkpoints import write_offsets
from odradek.log.files.indexes import write_aborted, write_offset_index, write_time_index
from odradek.log.files.marks import write_partition_metadata
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.files.walk import index_of_segment, walk
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.net.disk import LocalDisk
from odradek.records.batch import batches, plain_batch, stamp
from odradek.records.compression import Compression
from odradek.records.message_set import message_set
from odradek.records.record import iterate_records
from odradek.records.state import encode_metadata
from odradek.testing import Cluster

__all__ = [
    "SEGMENT_BYTES",
    "SEGMENTS",
    "END",
    "SECOND_MS",
    "Damage",
    "META",
    "CLEAN",
    "RECOVERY",
    "STARTS_AT",
    "MARKS",
    "CLEANED",
    "EPOCHS",
    "PARTITION",
    "METADATA_LOG",
    "UNKNOWN",
    "UNKNOWN_RECORD",
    "LAST_SNAPSHOT",
    "make_directory",
    "make_empty_directory",
    "write_orders",
    "times_of",
    "segment",
    "snapshot_copied",
    "rewritten",
    "without",
    "without_segments",
    "newest",
    "all_of",
    "killed",
    "added",
    "copied",
    "renamed",
    "in_its_place",
    "linked",
    "flipped",
    "garbage",
    "zeros",
    "zeros_in_the_middle",
    "nothing",
    "of_older_messages",
    "with_codec",
    "with_size",
    "half",
    "backwards",
    "more",
    "merged",
    "leaving",
    "of_other_topic",
    "folder_of",
    "producers_that_lie",
    "metadata",
    "metadata_begins_later",
    "quorum",
    "checkpoint",
    "linked_to_nothing",
    "of_newer_version",
    "with_unknown_record",
    "ABORTED_LIE",
]

SEGMENT_BYTES = 1_048_576
SEGMENTS = (0, 3, 8)
"""Where the segments of the topic begin; the second has an aborted transaction at offset 5, and its marker at 6."""
END = 11
SECOND_MS = 1000
Damage = Callable[[Path], None]
META = "meta.properties"
CLEAN = ".kafka_cleanshutdown"
RECOVERY, STARTS_AT = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
MARKS, CLEANED = "replication-offset-checkpoint", "cleaner-offset-checkpoint"
EPOCHS = f"{FOLDER}/leader-epoch-checkpoint"
PARTITION = f"{FOLDER}/partition.metadata"
METADATA_LOG = f"{METADATA_FOLDER}/{0:020d}.log"
UNKNOWN = bytes(range(16))
UNKNOWN_RECORD = b"\x01\x63\x00\x00"
"""A metadata record of type 99."""
LAST_SNAPSHOT = f"{FOLDER}/{END:020d}.snapshot"
ABORTED_LIE = write_aborted([AbortedTransaction(4711, 3, 6, 3)])


def write_orders(bootstrap: str) -> None:
    """Write the log of `ORDERS` that `SEGMENTS` and `END` speak of, and two records of `OTHER`."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}
    plain = Producer(settings)
    till = Producer({**settings, "transactional.id": "till"})
    till.init_transactions(TIMEOUT_S)
    began = int(time.time() * 1000) + 600 * SECOND_MS  # after the marker, whose time is the broker's
    offset = 0
    for number in range(9):
        plain.produce(ORDERS, f"{number}".encode() * 300_000, partition=0, timestamp=began + offset * SECOND_MS)
        assert 0 == plain.flush(TIMEOUT_S)
        offset += 1
        if number == 4:
            till.begin_transaction()
            till.produce(ORDERS, b"aborted", partition=0, timestamp=began + offset * SECOND_MS)
            till.flush(TIMEOUT_S)
            till.abort_transaction(TIMEOUT_S)
            offset += 2
            wait_for_end(bootstrap, offset)
    for word in ("a", "b"):
        plain.produce(OTHER, word)
        assert 0 == plain.flush(TIMEOUT_S)


def wait_for_end(bootstrap: str, offset: int) -> None:
    """The marker of a transaction comes a little later where its coordinator is another broker than the leader."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "log_level": 0})
    while consumer.get_watermark_offsets(TopicPartition(ORDERS, 0), TIMEOUT_S)[1] < offset:
        pass
    consumer.close()


def make_directory(path: Path) -> None:
    """The directory of a broker that has stopped cleanly: `SEGMENTS` of one topic, two records in another."""
    config = {**SHARED, "log.segment.bytes": str(SEGMENT_BYTES)}
    with Cluster(data_dir=path, topics=[ORDERS, OTHER], config=config, log=Lines()) as cluster:
        write_orders(cluster.bootstrap)
        running = cluster._running
        assert running.data_dir is not None
        for one in running.data_dir.dirs.values():
            cluster._call(partial(one.snapshots.write, running.controller.node.image))
    assert [f"{base:020d}.log" for base in SEGMENTS] == sorted(each.name for each in (path / FOLDER).glob("*.log"))


def make_empty_directory(path: Path, partitions: int) -> None:
    """The same topics with more partitions, and without the records of the first topic."""
    with Cluster(data_dir=path, topics=[f"{ORDERS}:{partitions}", OTHER], config=SHARED, log=Lines()) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for word in ("a", "b"):
            producer.produce(OTHER, word)
            assert 0 == producer.flush(TIMEOUT_S)


def times_of(base: Path) -> list[int]:
    """The timestamps of `LOOKED_FOR` in the whole directory."""
    found = {
        batch.base_offset: batch.max_timestamp
        for path in (base / FOLDER).glob("*.log")
        for batch in batches(memoryview(path.read_bytes()))
    }
    return [found[offset] for offset in LOOKED_FOR]


def segment(number: int, suffix: str = ".log") -> str:
    """A file of a segment, by its number."""
    return f"{FOLDER}/{SEGMENTS[number]:020d}{suffix}"


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Damage:
    """The file has other bytes."""

    def damage(path: Path) -> None:
        file = path / name
        file.write_bytes(change(file.read_bytes() if file.exists() else b""))

    return damage


def without(*names: str) -> Damage:
    """There are no such files or folders."""

    def damage(path: Path) -> None:
        for name in names:
            found = path / name
            if found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink()

    return damage


def without_segments(*numbers: int) -> Damage:
    """Half a copy: segments and their indexes are missing."""

    def damage(path: Path) -> None:
        for number in numbers:
            for found in (path / FOLDER).glob(f"{SEGMENTS[number]:020d}.*"):
                found.unlink()

    return damage


def newest(suffix: str, change: Callable[[bytes], bytes] | None, folder: str = METADATA_FOLDER) -> Damage:
    """The newest file of this kind has other bytes, or is missing."""

    def damage(path: Path) -> None:
        file = sorted((path / folder).glob(f"*{suffix}"))[-1]
        if change is None:
            file.unlink()
        else:
            file.write_bytes(change(file.read_bytes()))

    return damage


def all_of(*damages: Damage) -> Damage:
    def damage(path: Path) -> None:
        for each in damages:
            each(path)

    return damage


def killed(damage: Damage) -> Damage:
    """The same after a kill: no mark of a clean stop, and nothing that is known to be flushed."""
    return all_of(without(".kafka_cleanshutdown", RECOVERY), damage)


def added(name: str, data: bytes = b"notes") -> Damage:
    """There is a foreign file."""

    def damage(path: Path) -> None:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)

    return damage


def copied(name: str, to: str) -> Damage:
    """A file or folder is there twice."""

    def damage(path: Path) -> None:
        (shutil.copytree if (path / name).is_dir() else shutil.copy)(path / name, path / to)

    return damage


def renamed(name: str, to: str) -> Damage:
    def damage(path: Path) -> None:
        (path / name).rename(path / to)

    return damage


def in_its_place(name: str, *, folder: bool) -> Damage:
    """A folder in the place of a file, or a file in the place of a folder."""

    def damage(path: Path) -> None:
        found = path / name
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink(missing_ok=True)
        if folder:
            found.mkdir()
        else:
            found.write_bytes(b"")

    return damage


def linked(name: str, *, dangles: bool = False) -> Damage:
    """A symbolic link to something outside, which may be missing."""

    def damage(path: Path) -> None:
        outside = path.parent / f"outside-{Path(name).name}"
        (path / name).rename(outside)
        (path / name).symlink_to(outside)
        if dangles:
            (shutil.rmtree if outside.is_dir() else os.unlink)(outside)

    return damage


def linked_to_nothing(name: str) -> Damage:
    """A new symbolic link, to a path where nothing is."""
    return lambda path: (path / name).symlink_to(path.parent / "outside-nothing")


def flipped(data: bytes) -> bytes:
    """A byte in the middle has changed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def garbage(data: bytes) -> bytes:
    """Other bytes, as many."""
    return b"\xa5" * len(data)


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def zeros_in_the_middle(data: bytes) -> bytes:
    """The second of three batches is zeros."""
    [first, second, *_] = batches(memoryview(data))
    start = len(first.view)
    return data[:start] + bytes(len(second.view)) + data[start + len(second.view) :]


def of_older_messages(
    number: int,
    *,
    magic: int = 1,
    compression: Compression = Compression.NONE,
    last: Callable[[bytes], bytes] = bytes,
) -> Damage:
    """The records of a segment lie in messages of magic 0 or 1, by its indexes too; then the last message changes."""

    def damage(path: Path) -> None:
        file = path / segment(number)
        records = [each for batch in batches(memoryview(file.read_bytes())) for each in iterate_records(batch)]
        messages = [message_set([each], magic=magic, compression=compression) for each in records]
        content = b"".join(messages)
        view = memoryview(content)
        index = walk(view, SEGMENTS[number], checks=True)
        by_offset, by_time = index_of_segment(view, index, interval_bytes=256)
        (path / segment(number, ".index")).write_bytes(write_offset_index(SEGMENTS[number], by_offset))
        (path / segment(number, ".timeindex")).write_bytes(write_time_index(SEGMENTS[number], by_time))
        file.write_bytes(b"".join(messages[:-1]) + last(messages[-1]))

    return damage


def with_size(size: int) -> Callable[[bytes], bytes]:
    """A message that says this size."""
    return lambda message: message[:8] + size.to_bytes(4, signed=True) + message[12:]


def with_codec(number: int) -> Callable[[bytes], bytes]:
    """A message that says this codec, under a right checksum; its value is not compressed."""

    def change(message: bytes) -> bytes:
        covered = message[16:17] + bytes([number]) + message[18:]
        return message[:12] + crc32(covered).to_bytes(4) + covered

    return change


def nothing(_: bytes) -> bytes:
    return b""


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def backwards(width: int) -> Callable[[bytes], bytes]:
    """The entries of an index in the wrong order."""

    def change(data: bytes) -> bytes:
        entries = [data[at : at + width] for at in range(0, len(data), width)]
        return b"".join(reversed(entries))

    return change


def more(data: bytes) -> bytes:
    """Bytes behind the end."""
    return data + b"123"


def merged(to: str, *, cut: int = 0) -> Damage:
    """The output of a compaction of the first two segments."""

    def damage(path: Path) -> None:
        data = b"".join((path / segment(number)).read_bytes() for number in (0, 1))
        (path / f"{segment(0)}{to}").write_bytes(data[: len(data) - cut])

    return damage


def leaving(number: int) -> Damage:
    """The files of a segment have their last names."""

    def damage(path: Path) -> None:
        for found in (path / FOLDER).glob(f"{SEGMENTS[number]:020d}.*"):
            if found.suffix not in (".swap", ".cleaned"):
                found.rename(f"{found}.deleted")

    return damage


def of_other_topic(topic_id: bytes | None) -> Damage:
    """The folder names another topic; None: the id of `other`."""

    def damage(path: Path) -> None:
        other = (path / f"{OTHER}-0" / "partition.metadata").read_bytes()
        data = other if topic_id is None else write_partition_metadata(topic_id)
        (path / FOLDER / "partition.metadata").write_bytes(data)

    return damage


def folder_of(name: str, topic_id: bytes) -> Damage:
    """A folder of a topic that no metadata has."""
    return all_of(copied(FOLDER, name), added(f"{name}/partition.metadata", write_partition_metadata(topic_id)))


def producers_that_lie(path: Path) -> None:
    """A snapshot that can be read, and says that a transaction is open since offset 7."""
    name = path / FOLDER / f"{END:020d}.snapshot"
    producers = read_producers(name.read_bytes())
    for each in producers:
        each.first_offset = 7
    name.write_bytes(write_producers(producers))


def metadata(*records: Struct | bytes) -> Damage:
    """Append records to the metadata log, as a system that is newer may have."""

    def damage(path: Path) -> None:
        disk = LocalDisk(path, make_logger(level="error"))
        store = FileStore(disk, node_id=1, now=lambda: int(time.time() * 1000), unique=lambda: "0" * 32)
        store.begin()
        log = store.find(METADATA_TOPIC, 0)
        assert log is not None
        for each in records:
            value = each if isinstance(each, bytes) else encode_metadata(each, 0)
            batch = plain_batch([LogRecord(None, value)], timestamp=store.now())
            log.append(batch, leader_epoch=log.leader_epoch, now=store.now())
        store.close(broker_epoch=store.broker_epoch)
        disk.close()

    return damage


def metadata_begins_later(path: Path) -> None:
    """The metadata log has lost its beginning, which the snapshot has."""
    folder = path / METADATA_FOLDER
    [snapshot] = [each for each in folder.glob("*.checkpoint") if not each.name.startswith("0" * 20)]
    base = int(snapshot.name[:20])
    data = (folder / f"{0:020d}.log").read_bytes()
    kept = b"".join(bytes(each.view) for each in batches(memoryview(data)) if each.base_offset >= base)
    for each in folder.glob(f"{0:020d}.*"):
        if not each.name.endswith(".checkpoint"):
            each.unlink()
    (folder / f"{base:020d}.log").write_bytes(kept)


def snapshot_copied(to: str) -> Damage:
    """The newest snapshot of the metadata is there under another name, too."""

    def damage(path: Path) -> None:
        newest_one = sorted((path / METADATA_FOLDER).glob("*.checkpoint"))[-1]
        shutil.copy(newest_one, path / METADATA_FOLDER / to)

    return damage


def quorum(**values: object) -> Damage:
    """The state of the quorum says something else."""
    return rewritten(
        f"{METADATA_FOLDER}/quorum-state", lambda data: msgspec.json.encode({**msgspec.json.decode(data), **values})
    )


def checkpoint(name: str, *rows: tuple[str, int]) -> Damage:
    """An offset checkpoint with these lines."""
    return added(name, write_offsets({(topic, 0): offset for topic, offset in rows}))


def of_newer_version(*rows: tuple[str, int]) -> bytes:
    """An offset checkpoint of a version that a later release may have."""
    return b"1" + write_offsets({(topic, 0): offset for topic, offset in rows})[1:]


def with_unknown_record(data: bytes) -> bytes:
    """A snapshot of the metadata in which a record of a type of a later release comes before the footer."""
    whole = list(batches(memoryview(data)))
    unknown = bytearray(plain_batch([LogRecord(None, UNKNOWN_RECORD)], timestamp=whole[-1].max_timestamp).view)
    footer = bytearray(whole[-1].view)
    epoch = whole[-1].partition_leader_epoch
    stamp(unknown, 0, base_offset=whole[-1].base_offset, leader_epoch=epoch)
    stamp(footer, 0, base_offset=whole[-1].base_offset + 1, leader_epoch=epoch)
    return b"".join(bytes(each.view) for each in whole[:-1]) + bytes(unknown + footer)
