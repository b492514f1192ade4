"""Faults beside segments: epochs, checkpoints, indexes, snapshots, metadata, replicas."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.pipeline.corpus.edit import (
    EPOCH_AT,
    Log,
    is_data,
    is_marker,
)
from tests.pipeline.corpus.fault import (
    CLEANED,
    HIGH,
    LEVEL_1,
    MANY,
    ONE,
    RECOVERY,
    START,
    STOPPED,
    THREE,
    each,
    fault,
    orders,
)

# ---------------------------------------------------------------------- leader epochs and checkpoints

EPOCHS = "Leader epochs"
fault(EPOCHS, "a batch of an older leader", ONE, "leader-epoch-regression")(
    lambda root: orders(root).change(is_data, -1, EPOCH_AT, bytes(4), seal=False)
)
fault(EPOCHS, "a checkpoint whose epochs go back", ONE, "bad-epoch-checkpoint")(
    lambda root: orders(root).epochs((0, 0), (4, 12), (2, 24))
)
fault(EPOCHS, "a checkpoint with an epoch too early", ONE, "bad-epoch-checkpoint")(
    lambda root: orders(root).epochs((0, 0), (2, 6), (4, 24), (6, 36))
)
fault(EPOCHS, "a checkpoint that lacks an epoch", ONE, "bad-epoch-checkpoint")(
    lambda root: orders(root).epochs((0, 0), (4, 24), (6, 36))
)
fault(EPOCHS, "a checkpoint of noise", ONE, "bad-checkpoint")(
    lambda root: (orders(root).path / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe\0noise")
)

CHECKPOINTS = "Checkpoints"
each(
    CHECKPOINTS,
    STOPPED,
    "lost-tail",
    {
        "a high watermark behind the end": lambda root: orders(root).checkpoint(HIGH, 9000),
        "a recovery point behind the end": lambda root: orders(root).checkpoint(RECOVERY, 9000),
    },
)
each(
    CHECKPOINTS,
    STOPPED,
    "bad-checkpoint",
    {
        "a high watermark too low, closed cleanly": lambda root: orders(root).checkpoint(HIGH, 3),
        "a log start behind the end": lambda root: orders(root).checkpoint(START, 9000),
        "compacted beyond the end": lambda root: orders(root).checkpoint(CLEANED, 9000),
        "a count that is wrong": lambda root: (orders(root).root / HIGH).write_text("0\n7\norders 0 1\n"),
        "a line that is none": lambda root: (orders(root).root / START).write_text("0\n1\norders zero 1 2\n"),
    },
)


# ---------------------------------------------------------------------- the files beside


def entry(root: Path, suffix: str, field: str, value: int, at: int = 0, base: str = "orders-0") -> None:
    """One field of an entry."""
    log = Log(root, base)
    path, entries = log.entries(suffix)
    entries[field][at] = value
    log.snapshot(path, entries) if suffix == ".snapshot" else path.write_bytes(entries.tobytes())


def entries_less(root: Path, suffix: str) -> None:
    log = orders(root)
    path, entries = log.entries(suffix)
    log.snapshot(path, entries[1:]) if suffix == ".snapshot" else path.write_bytes(entries[1:].tobytes())


def foreign_abort(root: Path) -> None:
    log = orders(root)
    path, entries = log.entries(".txnindex")
    path.write_bytes(entries.tobytes() + entries[-1:].tobytes().replace(entries[-1:].tobytes()[2:10], (77).to_bytes(8)))


BESIDE = "Files beside segments"
each(
    BESIDE,
    STOPPED,
    "bad-index",
    {
        "an index position in the middle of a batch": lambda root: entry(root, ".index", "position", 100),
        "an index offset that is too low": lambda root: entry(root, ".index", "offset", 0),
        "an index offset that is too high": lambda root: entry(root, ".index", "offset", 40000),
        "an index position behind the end": lambda root: entry(root, ".index", "position", 1 << 20, at=-1),
        "timestamps of the index that go back": lambda root: entry(root, ".timeindex", "timestamp", 1 << 50),
    },
)
fault(BESIDE, "an index without its segment", MANY, "missing-segment")(lambda root: orders(root).segments[2].unlink())
each(
    BESIDE,
    MANY,
    "bad-txn-index",
    {
        "an aborted transaction that begins elsewhere": lambda root: entry(root, ".txnindex", "first_offset", 1),
        "an aborted transaction of somebody else": foreign_abort,
    },
)
fault(BESIDE, "an aborted transaction that is not in its index", MANY, "bad-txn-index")(
    lambda root: [path.write_bytes(b"") for path in sorted(orders(root).path.glob("*.txnindex"))[:-1]]
)
each(
    BESIDE,
    STOPPED,
    "bad-snapshot",
    {
        "a snapshot with another epoch": lambda root: entry(root, ".snapshot", "producer_epoch", 99),
        "a snapshot with a transaction that is not open": lambda root: entry(
            root, ".snapshot", "current_txn_first_offset", 1
        ),
    },
)
fault(BESIDE, "a snapshot with another sequence", LEVEL_1, "bad-snapshot")(
    lambda root: entry(root, ".snapshot", "last_sequence", 99)
)
fault(BESIDE, "a snapshot with a wrong checksum", STOPPED, "bad-crc")(lambda root: overwrite_snapshot(root))


def overwrite_snapshot(root: Path) -> None:
    path, _ = orders(root).entries(".snapshot")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


# ---------------------------------------------------------------------- metadata and replicas


def topic_id(root: Path) -> None:
    path = orders(root).path / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEQ")


def of_follower(root: Path, plant: Callable[[Log], None]) -> None:
    plant(orders(root, 0, 3))


REPLICAS = "Metadata and replicas"
fault(REPLICAS, "a directory under another topic id", STOPPED, "wrong-topic-id")(topic_id)
each(
    REPLICAS,
    THREE,
    "replica-lacks",
    {
        "a replica without a batch": partial(of_follower, plant=lambda log: log.drop(is_data, 2)),
        "a replica without a marker": partial(of_follower, plant=lambda log: log.drop(is_marker, 1)),
    },
)
fault(REPLICAS, "a replica with another payload", THREE, "replica-differs")(
    partial(of_follower, plant=lambda log: log.change(is_data, 2, 70, b"\x7e"))
)
fault(REPLICAS, "a replica that lost its tail", THREE, "replica-lost-tail")(
    partial(of_follower, plant=lambda log: log.write(log.read()[:-3]))
)
fault(REPLICAS, "a replica that is not there", THREE, "missing-partition")(
    partial(of_follower, plant=lambda log: shutil.rmtree(log.path))
)

KINDS = (EPOCHS, CHECKPOINTS, BESIDE, REPLICAS)
