"""Damaged directories of three brokers: see `brokers.py` for the cluster, and `damage.py` for the rows of one broker.

`python -m tests.swap.damage_brokers record [NAME …]` plays the table against three nodes of a real Kafka; `look` prints
both answers.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.swap.brokers import (
    BROKERS,
    FIRST,
    LAST,
    Replicas,
    answer_of_kafkas,
    answer_of_odradeks,
    at,
    make_brokers,
    make_empty_brokers,
)
from tests.swap.compacted import file_of
from tests.swap.damages import (
    ABORTED_LIE,
    CLEAN,
    END,
    EPOCHS,
    LAST_SNAPSHOT,
    MARKS,
    META,
    METADATA_LOG,
    PARTITION,
    RECOVERY,
    SEGMENTS,
    STARTS_AT,
    Damage,
    added,
    all_of,
    checkpoint,
    flipped,
    garbage,
    half,
    nothing,
    quorum,
    rewritten,
    times_of,
    without,
)
from tests.swap.outcomes import FOLDER, LINE, LINES, LOOKED_FOR, ORDERS, OTHER, REFUSES, STARTS, Seen
from tests.swap.systems import directory

from odradek.core.machine import LogRecord
from odradek.log.files.checkpoints import write_offsets
from odradek.log.files.names import segment_file
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.metadata_log import METADATA_FOLDER
from odradek.records.batch import batches, plain_batch, stamp

__all__ = ["CASES", "INSTEAD", "RECORDED", "TOLD", "prepared"]

RECORDED = Path(__file__).with_suffix(".json")
TOGETHER = 16
"""Damages of a partition that one start of a real Kafka answers."""
NODES = range(1, BROKERS + 1)
LAST_SEGMENT = SEGMENTS[-1]


class Case(Struct):
    """Damaged directories."""

    damage: Damage
    is_alone: bool = False
    """Whether it is of more than the folder of a partition, or a node of Kafka gives up its directory for it."""
    is_killed: bool = False
    """Whether nobody has stopped cleanly, and nothing is known to be on the device."""


def segments_gone(*bases: int) -> Damage:
    def damage(path: Path) -> None:
        for base in bases:
            for found in (path / FOLDER).glob(segment_file(base, ".*")):
                found.unlink()

    return damage


def one_more(epoch: int | None = None) -> Damage:
    """The replica has a batch that the others have not, of its last leader epoch or of this one."""

    def damage(path: Path) -> None:
        file = path / file_of(LAST_SEGMENT)
        last = list(batches(memoryview(file.read_bytes())))[-1]
        batch = bytearray(plain_batch([LogRecord(None, b"more")], timestamp=last.max_timestamp).view)
        leader_epoch = last.partition_leader_epoch if epoch is None else epoch
        stamp(batch, 0, base_offset=last.next_offset, leader_epoch=leader_epoch)
        file.write_bytes(file.read_bytes() + bytes(batch))
        if epoch is not None:
            (path / EPOCHS).write_bytes(f"0\n2\n{last.partition_leader_epoch} 0\n{epoch} {END}\n".encode())
        # As of a broker that has stopped so: its index and its snapshot are those of its end.
        (path / LAST_SNAPSHOT).rename(path / file_of(END + 1, ".snapshot"))

    return damage


def another(data: bytes) -> bytes:
    """The last batch of the segment is another one."""
    *kept, last = batches(memoryview(data))
    batch = bytearray(plain_batch([LogRecord(None, b"another")], timestamp=last.max_timestamp).view)
    stamp(batch, 0, base_offset=last.base_offset, leader_epoch=last.partition_leader_epoch)
    return b"".join(bytes(each.view) for each in kept) + bytes(batch)


def one_less(data: bytes) -> bytes:
    """The last batch of the segment is not there."""
    return b"".join(bytes(each.view) for each in list(batches(memoryview(data)))[:-1])


def snapshot_lies(path: Path) -> None:
    """The producers of a snapshot have an open transaction."""
    producers = read_producers((path / LAST_SNAPSHOT).read_bytes())
    for each in producers:
        each.first_offset = 7
    (path / LAST_SNAPSHOT).write_bytes(write_producers(producers))


def new_disk(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def of_another_cluster(data: bytes) -> bytes:
    return re.sub(rb"cluster.id=.*\n", b"cluster.id=AnotherClusterAltogether\n", data)


def swapped(path: Path) -> None:
    """The directories of two nodes have the names of each other."""
    (path / "broker-1").rename(path / "broker")
    (path / "broker-2").rename(path / "broker-1")
    (path / "broker").rename(path / "broker-2")


def metas_swapped(path: Path) -> None:
    one, two = (path / f"broker-{node_id}" / META for node_id in (1, 2))
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)


OF_A_REPLICA: Mapping[str, Damage] = {
    "no folder of the partition": without(FOLDER),
    "no files in the folder": all_of(without(FOLDER), lambda path: (path / FOLDER).mkdir()),
    "no .log": without(*(file_of(base) for base in SEGMENTS)),
    "no .log of the first segment": without(file_of(0)),
    "no first segment": segments_gone(0),
    "no middle segment": segments_gone(3),
    "no .log of the last segment": without(file_of(LAST_SEGMENT)),
    "no last segment": segments_gone(LAST_SEGMENT),
    "a middle segment is cut in its middle": rewritten(file_of(3), half),
    "the last segment is cut in its middle": rewritten(file_of(LAST_SEGMENT), half),
    "the last segment lacks its last batch": rewritten(file_of(LAST_SEGMENT), one_less),
    "a bit has changed in a closed segment": rewritten(file_of(3), flipped),
    "a bit has changed in the last segment": rewritten(file_of(LAST_SEGMENT), flipped),
    "a replica is ahead": one_more(),
    "a replica is ahead in a later leader epoch": one_more(epoch=7),
    "a replica has another batch at its end": rewritten(file_of(LAST_SEGMENT), another),
    "leader epochs are missing": without(EPOCHS),
    "leader epochs are empty": rewritten(EPOCHS, nothing),
    "leader epochs are garbage": rewritten(EPOCHS, garbage),
    "leader epochs begin later": added(EPOCHS, b"0\n1\n0 5\n"),
    "leader epochs are of the future": added(EPOCHS, b"0\n2\n0 0\n9 4\n"),
    "a snapshot of producers is missing": without(LAST_SNAPSHOT),
    "a snapshot of producers is garbage": rewritten(LAST_SNAPSHOT, garbage),
    "a snapshot of producers lies": snapshot_lies,
    "no transaction index": without(file_of(3, ".txnindex")),
    "a transaction index has another transaction": added(file_of(3, ".txnindex"), ABORTED_LIE),
    "no partition.metadata": without(PARTITION),
}
"""Of the replica in one directory, with the rest of the partition in order."""
AFTER_A_KILL = (
    "no .log",
    "no last segment",
    "a middle segment is cut in its middle",
    "the last segment is cut in its middle",
    "a bit has changed in a closed segment",
    "a bit has changed in the last segment",
    "a replica is ahead",
    "leader epochs are missing",
    "leader epochs are of the future",
    "a snapshot of producers lies",
)
OF_A_DIRECTORY: Mapping[str, Damage] = {
    "the directory is empty": new_disk,
    "meta.properties is missing": without(META),
    "meta.properties is of another cluster": rewritten(META, of_another_cluster),
    "meta.properties is of a node that there is not": rewritten(
        META, lambda data: re.sub(rb"node.id=\d", b"node.id=7", data)
    ),
    "no mark of a clean stop": without(CLEAN),
    "recovery points are garbage": rewritten(RECOVERY, garbage),
    "high watermarks are missing": without(MARKS),
    "high watermarks are behind the end": checkpoint(MARKS, (ORDERS, 99), (OTHER, 2)),
    "high watermarks are early": checkpoint(MARKS, (ORDERS, 3), (OTHER, 0)),
    "a log start in the middle": checkpoint(STARTS_AT, (ORDERS, 4)),
    "no metadata log": without(METADATA_FOLDER),
    "the metadata log is empty": rewritten(METADATA_LOG, nothing),
    "the metadata log is cut off": rewritten(METADATA_LOG, lambda data: data[:-20]),
    "half of the metadata log": rewritten(METADATA_LOG, half),
    "a bit has changed in the metadata log": rewritten(METADATA_LOG, flipped),
    "quorum-state is missing": without(f"{METADATA_FOLDER}/quorum-state"),
    "quorum-state is garbage": rewritten(f"{METADATA_FOLDER}/quorum-state", garbage),
    "quorum-state is of a later epoch": quorum(leaderEpoch=1000, leaderId=-1),
}
"""Of the directory of one node."""


def rows() -> Iterator[tuple[str, Case]]:
    yield "nothing", Case(lambda _: None)
    yield "nothing, after a kill", Case(lambda _: None, is_killed=True)
    for who, node_id in (("the last leader", LAST), ("a follower", FIRST)):
        for name, damage in OF_A_REPLICA.items():
            yield f"{name}, at {who}", Case(at(node_id, damage), is_alone=name == "leader epochs are garbage")
        for name in AFTER_A_KILL:
            yield f"{name}, at {who}, after a kill", Case(at(node_id, OF_A_REPLICA[name]), is_killed=True)
        for name, damage in OF_A_DIRECTORY.items():
            yield f"{name}, at {who}", Case(at(node_id, damage), is_alone=True)
    yield "meta.properties are those of each other", Case(metas_swapped, is_alone=True)
    yield "directories have the names of each other", Case(swapped, is_alone=True)


CASES: Mapping[str, Case] = dict(rows())


def read(offsets: str = "0-10", *, end: int = END, aborted: str = "5", by_time: Sequence[int] = LOOKED_FOR) -> Replicas:
    """All nodes serve and are in sync, and this can be read."""
    nodes = list(NODES)
    return Replicas(STARTS, nodes, {FOLDER: Seen(0, end, offsets, aborted, list(by_time), {}, end)}, {FOLDER: nodes})


REFUSED = Replicas(REFUSES)
TOLD: Mapping[str, Sequence[str]] = {
    "no folder of the partition, at the last leader": [
        "folder_is_missing folder=orders-0",
    ],
    "no files in the folder, at the last leader": [
        "broker-3/orders-0/partition.metadata reason=it has no topic id; the folder's name decides",
        "broker-3/orders-0 reason=it ends at offset 0, and everything up to 11 was on the device",
    ],
    "no .log, at the last leader": [
        "broker-3/orders-0 reason=it ends at offset 0, and everything up to 11 was on the device",
        "replica_filled broker=3 folder=orders-0 offsets=0 to 10 reason=they had gone from its directory,",
    ],
    "no .log of the first segment, at the last leader": [
        "broker-3/orders-0 reason=it begins at offset 3, and its leader epochs at 0",
    ],
    "no first segment, at the last leader": [
        "broker-3/orders-0 reason=it begins at offset 3, and its leader epochs at 0",
    ],
    "no middle segment, at the last leader": [
        "broker-3/orders-0 reason=offsets 3 to 7 are in no segment",
    ],
    "no .log of the last segment, at the last leader": [
        "broker-3/orders-0 reason=it ends at offset 8, and everything up to 11 was on the device",
        "replica_filled broker=3 folder=orders-0 offsets=8 to 10 reason=they had gone from its directory,",
    ],
    "no last segment, at the last leader": [
        "broker-3/orders-0 reason=it ends at offset 8, and everything up to 11 was on the device",
        "replica_filled broker=3 folder=orders-0 offsets=8 to 10 reason=they had gone from its directory,",
    ],
    "a middle segment is cut in its middle, at the last leader": [
        "broker-3/orders-0/00000000000000000003.log reason=the batch is cut off, or none (position 300072);",
    ],
    "the last segment is cut in its middle, at the last leader": [
        "broker-3/orders-0 reason=it ends at offset 9, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=9 bytes=150036 reason=the batch is cut off, or none",
        "replica_filled broker=3 folder=orders-0 offsets=9 to 10 reason=they had gone from its directory,",
    ],
    "the last segment lacks its last batch, at the last leader": [
        "broker-3/orders-0 reason=it ends at offset 10, and everything up to 11 was on the device",
        "replica_filled broker=3 folder=orders-0 offsets=10 to 10 reason=they had gone from its directory,",
    ],
    "a replica is ahead in a later leader epoch, at the last leader": [
        "metadata_is_older partitions=orders-0 reason=their logs know later leader epochs, so that the",
    ],
    "leader epochs are garbage, at the last leader": [
        "broker-3/orders-0/leader-epoch-checkpoint reason=it is no text",
    ],
    "leader epochs are of the future, at the last leader": [
        "broker-3/orders-0/leader-epoch-checkpoint reason=epoch 9 begins at offset 4 there, and the batch at",
    ],
    "a snapshot of producers is garbage, at the last leader": [
        "broker-3/orders-0/00000000000000000011.snapshot reason=it is of version -23131, and version 1 is",
    ],
    "no partition.metadata, at the last leader": [
        "broker-3/orders-0/partition.metadata reason=it has no topic id; the folder's name decides",
    ],
    "no .log, at the last leader, after a kill": [
        "log_truncated node=3 topic=orders partition=0 end_offset=0 lost_offsets=11",
    ],
    "no last segment, at the last leader, after a kill": [
        "log_truncated node=3 topic=orders partition=0 end_offset=8 lost_offsets=3",
    ],
    "a middle segment is cut in its middle, at the last leader, after a kill": [
        "broker-3/orders-0/00000000000000000008.log reason=it follows offset 3, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=4 bytes=150112 reason=the batch is cut off, or none",
        "log_truncated node=3 topic=orders partition=0 end_offset=4 lost_offsets=7",
    ],
    "the last segment is cut in its middle, at the last leader, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=9 bytes=150036 reason=the batch is cut off, or none",
        "log_truncated node=3 topic=orders partition=0 end_offset=9 lost_offsets=2",
    ],
    "a bit has changed in a closed segment, at the last leader, after a kill": [
        "broker-3/orders-0/00000000000000000008.log reason=it follows offset 3, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=4 bytes=600296 reason=the checksum of the batch at offset 4",
        "log_truncated node=3 topic=orders partition=0 end_offset=4 lost_offsets=7",
    ],
    "a bit has changed in the last segment, at the last leader, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=9 bytes=600143 reason=the checksum of the batch at offset 9",
        "log_truncated node=3 topic=orders partition=0 end_offset=9 lost_offsets=2",
    ],
    "leader epochs are of the future, at the last leader, after a kill": [
        "broker-3/orders-0/leader-epoch-checkpoint reason=epoch 9 begins at offset 4 there, and the batch at",
    ],
    "meta.properties is missing, at the last leader": [
        "broker-3 has no meta.properties and is not empty: half a copy, or something else.",
    ],
    "meta.properties is of another cluster, at the last leader": [
        "broker-3 is of cluster AnotherClusterAltogether, not of ID.",
    ],
    "meta.properties is of a node that there is not, at the last leader": [
        "broker-3 is of broker 7, not of 3.",
    ],
    "recovery points are garbage, at the last leader": [
        "broker-3/recovery-point-offset-checkpoint reason=it is no text; it is written anew",
    ],
    "the metadata log is empty, at the last leader": [
        "broker-3/__cluster_metadata-0 reason=it ends at offset",
    ],
    "the metadata log is cut off, at the last leader": [
        "broker-3/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "half of the metadata log, at the last leader": [
        "broker-3/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "a bit has changed in the metadata log, at the last leader": [
        "broker-3/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "quorum-state is garbage, at the last leader": [
        "broker-3/__cluster_metadata-0/quorum-state reason=it is no state of a quorum (JSON is malformed:",
    ],
    "no folder of the partition, at a follower": [
        "folder_is_missing folder=orders-0",
    ],
    "no files in the folder, at a follower": [
        "broker-1/orders-0/partition.metadata reason=it has no topic id; the folder's name decides",
        "broker-1/orders-0 reason=it ends at offset 0, and everything up to 11 was on the device",
    ],
    "no .log, at a follower": [
        "broker-1/orders-0 reason=it ends at offset 0, and everything up to 11 was on the device",
        "replica_filled broker=1 folder=orders-0 offsets=0 to 10 reason=they had gone from its directory,",
    ],
    "no .log of the first segment, at a follower": [
        "broker-1/orders-0 reason=it begins at offset 3, and its leader epochs at 0",
    ],
    "no first segment, at a follower": [
        "broker-1/orders-0 reason=it begins at offset 3, and its leader epochs at 0",
    ],
    "no .log of the last segment, at a follower": [
        "broker-1/orders-0 reason=it ends at offset 8, and everything up to 11 was on the device",
        "replica_filled broker=1 folder=orders-0 offsets=8 to 10 reason=they had gone from its directory,",
    ],
    "no last segment, at a follower": [
        "broker-1/orders-0 reason=it ends at offset 8, and everything up to 11 was on the device",
        "replica_filled broker=1 folder=orders-0 offsets=8 to 10 reason=they had gone from its directory,",
    ],
    "the last segment is cut in its middle, at a follower": [
        "broker-1/orders-0 reason=it ends at offset 9, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=9 bytes=150036 reason=the batch is cut off, or none",
        "replica_filled broker=1 folder=orders-0 offsets=9 to 10 reason=they had gone from its directory,",
    ],
    "the last segment lacks its last batch, at a follower": [
        "broker-1/orders-0 reason=it ends at offset 10, and everything up to 11 was on the device",
        "replica_filled broker=1 folder=orders-0 offsets=10 to 10 reason=they had gone from its directory,",
    ],
    "a replica is ahead, at a follower": [
        "log_truncated node=3 topic=orders partition=0 end_offset=11 lost_offsets=1",
    ],
    "a replica is ahead in a later leader epoch, at a follower": [
        "metadata_is_older partitions=orders-0 reason=their logs know later leader epochs, so that the",
        "log_truncated node=3 topic=orders partition=0 end_offset=11 lost_offsets=1",
    ],
    "leader epochs are garbage, at a follower": [
        "broker-1/orders-0/leader-epoch-checkpoint reason=it is no text",
    ],
    "leader epochs are of the future, at a follower": [
        "broker-1/orders-0/leader-epoch-checkpoint reason=epoch 9 begins at offset 4 there, and the batch at",
    ],
    "a snapshot of producers is garbage, at a follower": [
        "broker-1/orders-0/00000000000000000011.snapshot reason=it is of version -23131, and version 1 is",
    ],
    "no partition.metadata, at a follower": [
        "broker-1/orders-0/partition.metadata reason=it has no topic id; the folder's name decides",
    ],
    "a middle segment is cut in its middle, at a follower, after a kill": [
        "broker-1/orders-0/00000000000000000008.log reason=it follows offset 3, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=4 bytes=150112 reason=the batch is cut off, or none",
    ],
    "the last segment is cut in its middle, at a follower, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=9 bytes=150036 reason=the batch is cut off, or none",
    ],
    "a bit has changed in a closed segment, at a follower, after a kill": [
        "broker-1/orders-0/00000000000000000008.log reason=it follows offset 3, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=4 bytes=600296 reason=the checksum of the batch at offset 4",
    ],
    "a bit has changed in the last segment, at a follower, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=9 bytes=600143 reason=the checksum of the batch at offset 9",
    ],
    "a replica is ahead, at a follower, after a kill": [
        "log_truncated node=3 topic=orders partition=0 end_offset=11 lost_offsets=1",
    ],
    "leader epochs are of the future, at a follower, after a kill": [
        "broker-1/orders-0/leader-epoch-checkpoint reason=epoch 9 begins at offset 4 there, and the batch at",
    ],
    "meta.properties is missing, at a follower": [
        "broker-1 has no meta.properties and is not empty: half a copy, or something else.",
    ],
    "meta.properties is of another cluster, at a follower": [
        "broker-2 is of cluster ID, not of AnotherClusterAltogether.",
    ],
    "meta.properties is of a node that there is not, at a follower": [
        "broker-1 is of broker 7, not of 1.",
    ],
    "recovery points are garbage, at a follower": [
        "broker-1/recovery-point-offset-checkpoint reason=it is no text; it is written anew",
    ],
    "the metadata log is empty, at a follower": [
        "broker-1/__cluster_metadata-0 reason=it ends at offset",
    ],
    "the metadata log is cut off, at a follower": [
        "broker-1/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "half of the metadata log, at a follower": [
        "broker-1/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "a bit has changed in the metadata log, at a follower": [
        "broker-1/__cluster_metadata-0 reason=it ends at offset",
        "log_tail_cut folder=__cluster_metadata-0 end_offset=",
    ],
    "quorum-state is garbage, at a follower": [
        "broker-1/__cluster_metadata-0/quorum-state reason=it is no state of a quorum (JSON is malformed:",
    ],
    "meta.properties are those of each other": [
        "broker-1 is of broker 2, not of 1.",
    ],
    "directories have the names of each other": [
        "broker-1 is of broker 2, not of 1.",
    ],
}
"""The warnings of Odradek, or the sentence of its refusal; beginnings are enough."""
LOSES = "the leader of Kafka has lost its records, and the others lose theirs"
GIVES_UP = "the node of Kafka gives up its directory"
OUT_OF_SYNC = "the follower of Kafka does not come into sync again"
INSTEAD: Mapping[str, tuple[Replicas, str]] = {
    **{
        f"{name}, at the last leader": (read(), LOSES)
        for name in (
            "no folder of the partition",
            "no files in the folder",
            "no .log",
            "no .log of the last segment",
            "no last segment",
            "no partition.metadata",
            "the directory is empty",
        )
    },
    **{
        f"{name}, at the last leader": (
            read(),
            "the leader of Kafka trusts an index that points behind its file, loses records, and takes none any more",
        )
        for name in ("the last segment is cut in its middle", "the last segment lacks its last batch")
    },
    "a middle segment is cut in its middle, at the last leader": (
        read("0-3 8-10", by_time=[8, 9]),
        "Kafka trusts the indexes",
    ),
    "a replica is ahead in a later leader epoch, at the last leader": (
        read("0-11", end=END + 1),
        "the followers of Kafka do not come into sync again",
    ),
    **{
        f"{name}, at {who}": (read(), GIVES_UP)
        for name in ("leader epochs are garbage", "recovery points are garbage", "quorum-state is garbage")
        for who in ("the last leader", "a follower")
    },
    **{
        f"meta.properties is missing, at {who}": (REFUSED, "Kafka has it formatted anew, with another directory id")
        for who in ("the last leader", "a follower")
    },
    **{
        f"{name}, at a follower": (REFUSED, "the other nodes of Kafka serve without it")
        for name in ("meta.properties is of another cluster", "meta.properties is of a node that there is not")
    },
    "quorum-state is missing, at a follower": (
        read(),
        "the node of Kafka, which has led the quorum, ends where it finds itself as the leader of the epoch",
    ),
    **{
        name: (read(), OUT_OF_SYNC)
        for name in (
            "the last segment is cut in its middle, at a follower",
            "the last segment lacks its last batch, at a follower",
            "leader epochs are of the future, at a follower",
            "leader epochs are of the future, at a follower, after a kill",
        )
    },
}
"""The outcome of Odradek where it is not Kafka's, and why."""


def prepared(base: Path, root: Path, case: Case) -> Path:
    """A damaged copy of the directories."""
    shutil.rmtree(root, ignore_errors=True)
    path = directory(root)
    shutil.copytree(base, path)
    if case.is_killed:
        killed(path)
    case.damage(path)
    return path


def killed(path: Path) -> None:
    for node_id in NODES:
        for name in (CLEAN, RECOVERY):
            (path / f"broker-{node_id}" / name).unlink()


def answers_of_kafka(names: Sequence[str], base: Path, root: Path) -> Iterator[tuple[str, Replicas]]:
    """The answers to damages of a partition: each has one of its own, so that one start of the nodes does."""
    is_killed = CASES[names[0]].is_killed
    path, one = directory(root), root.with_name("one")
    shutil.rmtree(root, ignore_errors=True)
    make_empty_brokers(path, len(names))
    for number, name in enumerate(names):
        damaged = prepared(base, one, CASES[name])
        for node_id in NODES:
            node = f"broker-{node_id}"
            here, there = ((each / node / PARTITION).read_bytes().split()[-1] for each in (base, path / "."))
            folder, source = path / node / f"{ORDERS}-{number}", damaged / node / FOLDER
            named = folder.with_name("named")
            shutil.rmtree(folder)
            if not source.exists():
                continue
            source.rename(named)
            if (named / "partition.metadata").exists():
                data = (named / "partition.metadata").read_bytes()
                (named / "partition.metadata").write_bytes(data.replace(here, there))
            named.rename(folder)
    for node_id in NODES:
        if is_killed:
            continue
        offsets = {(OTHER, 0): 2, **{(ORDERS, each): END for each in range(len(names))}}
        (path / f"broker-{node_id}" / RECOVERY).write_bytes(write_offsets(offsets))
        (path / f"broker-{node_id}" / MARKS).write_bytes(write_offsets(offsets))
    if is_killed:
        killed(path)
    found = answer_of_kafkas(root, times_of(base / f"broker-{LAST}"))
    for number, name in enumerate(names):
        key = f"{ORDERS}-{number}"
        logs = {FOLDER: found.logs[key]} if key in found.logs else {}
        isr = {FOLDER: found.isr[key]} if key in found.isr else {}
        said = [line for line in found.says if re.search(rf"\b{key}\b", line)]
        yield name, Replicas(found.how, found.runs, logs, isr, shortened(said, number))


def shortened(said: Sequence[str], number: int) -> list[str]:
    lines = (re.sub(rf"\b{ORDERS}-{number}\b", FOLDER, line)[:LINE] for line in said)
    return list(dict.fromkeys(lines))[:LINES]


def record(names: Sequence[str]) -> None:
    """Play the table against three nodes of a real Kafka, and keep the answers."""
    known = json.loads(RECORDED.read_bytes()) if RECORDED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        base, root = Path(folder) / "base", Path(folder) / "kafka"
        make_brokers(base)

        def keep(name: str, answer: Replicas) -> None:
            known[name] = msgspec.to_builtins(answer)
            print(name, json.dumps(known[name]), flush=True)
            kept = {name: known[name] for name in CASES if name in known}
            RECORDED.write_text(json.dumps(kept, indent=1) + "\n")

        wanted = list(names or CASES)
        for is_killed in (False, True):
            of_partitions = [name for name in wanted if not CASES[name].is_alone and CASES[name].is_killed == is_killed]
            for first in range(0, len(of_partitions), TOGETHER):
                for name, answer in answers_of_kafka(of_partitions[first : first + TOGETHER], base, root):
                    keep(name, answer)
        for name in wanted:
            if CASES[name].is_alone:
                prepared(base, root, CASES[name])
                answer = answer_of_kafkas(root, times_of(base / f"broker-{LAST}"))
                answer.says = shortened(answer.says, 0)
                keep(name, answer)


def show(names: Sequence[str]) -> None:
    """Print both answers."""
    known = json.loads(RECORDED.read_bytes()) if RECORDED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        make_brokers(base)
        times = times_of(base / f"broker-{LAST}")
        for name in names or CASES:
            path = prepared(base, Path(folder) / "odradek", CASES[name])
            try:
                found = msgspec.to_builtins(answer_of_odradeks(path, times))
            except BaseException as error:
                found = {"how": "TRACEBACK", "says": f"{error!r}"}
            theirs = known.get(name, {})
            print(f"== {name}\n   kafka   {json.dumps(theirs)}\n   odradek {json.dumps(found)}", flush=True)


if __name__ == "__main__":
    {"record": record, "look": show}[sys.argv[1]](sys.argv[2:])
