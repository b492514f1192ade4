"""Kinds of fault that were written down before anybody looked whether the audit finds them; see docs/pipeline.md."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.pipeline.corpus.edit import (
    ATTRIBUTES_AT,
    DELTA_AT,
    EPOCH_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_AT,
    PRODUCER_EPOCH_AT,
    Log,
    is_data,
    is_marker,
    reseal,
)
from tests.pipeline.corpus.fault import HIGH, MANY, ONE, RECOVERY, STOPPED, THREE, fault, orders

HELD_OUT = "Held out"
FIRST_TIMESTAMP_AT = 27


def mixed_up(root: Path) -> None:
    """Somebody put the segments of one partition into the directory of another."""
    for path in orders(root, 1).path.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in orders(root, 0).path.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, orders(root, 1).path / path.name)
    for name in (HIGH, RECOVERY):
        known = orders(root, 0).checkpointed(name)
        if known is not None:
            orders(root, 1).checkpoint(name, known)


fault(
    HELD_OUT,
    "a partition's segments in another one's directory",
    STOPPED,
    "~same-batches",
)(mixed_up)


def restored(root: Path) -> None:
    """An older backup of one partition, with the checkpoints that went with it."""
    log = orders(root)
    markers = log.places(is_marker)
    log.write(log.read()[: markers[len(markers) // 2] + 1])
    log.acknowledge()
    for snapshot in log.path.glob("*.snapshot"):
        snapshot.unlink()
    path, entries = log.entries(".txnindex")
    end = int.from_bytes(log.read()[-1][:8])
    path.write_bytes(entries[entries["last_offset"] <= end].tobytes())
    time_path, times = log.entries(".timeindex")
    time_path.write_bytes(times[:0].tobytes())


fault(
    HELD_OUT,
    "an older backup of one partition, with its checkpoints",
    STOPPED,
    "lost-tail|lost-transactions",
)(restored)


def other_leader(root: Path) -> None:
    """The only field of a batch that its checksum does not cover."""
    log = orders(root, 0, 3)
    log.change(is_data, 2, EPOCH_AT, (7).to_bytes(4), seal=False)


fault(HELD_OUT, "one replica with another leader epoch", THREE, "replica-differs|leader-epoch-regression")(other_leader)


def early(root: Path) -> None:
    """A batch whose newest record is older than its first."""
    log = orders(root)
    first = int.from_bytes(log.read()[log.places(is_data)[2]][FIRST_TIMESTAMP_AT : FIRST_TIMESTAMP_AT + 8])
    log.change(is_data, 2, MAX_TIMESTAMP_AT, (first - 86_400_000).to_bytes(8))


fault(HELD_OUT, "a batch whose timestamps go back", STOPPED, "damaged-segment|bad-timestamp")(early)

fault(HELD_OUT, "a last batch with more offsets than records", ONE, "damaged-segment|lost-tail")(
    lambda root: orders(root).change(is_data, -1, DELTA_AT, (40).to_bytes(4))
)


def undecodable(root: Path) -> None:
    """Records that cannot be read, under a checksum that was made behind the damage."""
    log = orders(root)
    found = log.read()
    batch = found[log.places(is_data)[2]]
    batch[61:] = b"\xff" * (len(batch) - 61)
    reseal(batch)
    log.write(found)


fault(HELD_OUT, "records of noise under a right checksum", STOPPED, "damaged-segment|bad-records")(undecodable)


def bits(root: Path, *, clear: int = 0, put: int = 0, number: int = 2) -> None:
    log = orders(root)
    found = log.read()
    batch = found[log.places(is_data)[number]]
    value = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2])
    batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = (value & ~clear | put).to_bytes(2)
    reseal(batch)
    log.write(found)


fault(
    HELD_OUT,
    "a batch of a transaction that says it is of none",
    STOPPED,
    "damaged-segment|mixed-transaction|txn-mixed",
)(lambda root: bits(root, clear=0x10))
fault(HELD_OUT, "data that says it is a marker", STOPPED, "odd-marker|damaged-segment")(
    lambda root: bits(root, put=0x20)
)


def other_producer(root: Path) -> None:
    """The marker went to the wrong producer."""
    orders(root).change(is_marker, 2, PRODUCER_AT, (4711).to_bytes(8))


fault(HELD_OUT, "a marker of another producer", STOPPED, "hanging-transaction|lost-marker|wrong-outcome")(
    other_producer
)


def coordinators_swapped(root: Path) -> None:
    """Two partitions of the coordinators' log in each other's place: no broker finds its transactional ids."""
    first, second = (Log(root, f"__transaction_state-{number}").path for number in (1, 2))
    beside = first.with_name("beside")
    kept = [(path / "partition.metadata").read_bytes() for path in (first, second)]
    first.rename(beside)
    second.rename(first)
    beside.rename(second)
    for path, content in zip((first, second), kept, strict=True):
        (path / "partition.metadata").write_bytes(content)
    one, two = Log(root, "__transaction_state-1"), Log(root, "__transaction_state-2")
    for name in (HIGH, RECOVERY):
        offsets = one.checkpointed(name), two.checkpointed(name)
        if offsets[0] is not None and offsets[1] is not None:
            one.checkpoint(name, offsets[1])
            two.checkpoint(name, offsets[0])


fault(
    HELD_OUT, "partitions of the coordinators' log in each other's place", STOPPED, "wrong-coordinator|wrong-partition"
)(coordinators_swapped)


def foreign(root: Path) -> None:
    """The disk of a broker of another cluster among those of this one."""
    path = root / "broker-2" / "meta.properties"
    lines = path.read_text().splitlines()
    path.write_text("\n".join("cluster.id=AAAAAAAAAAAAAAAAAAAAEQ" if "cluster.id" in line else line for line in lines))


fault(HELD_OUT, "a broker of another cluster", THREE, "wrong-cluster|foreign-cluster")(foreign)


def twice(root: Path) -> None:
    """Two disks that both say they are broker 1."""
    for line in ("node.id=1",):
        path = root / "broker-2" / "meta.properties"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line if one.startswith("node.id") else one for one in lines))


fault(HELD_OUT, "two brokers of one id that hold the same partitions", THREE, "repeated-broker|wrong-broker")(twice)


def renamed(root: Path) -> None:
    """A segment under the name of an offset that is not its first."""
    log = orders(root)
    for path in list(log.path.glob(f"{0:020}.*")):
        path.rename(path.with_name(f"{5:020}{path.suffix}"))


fault(HELD_OUT, "a segment under another offset's name", STOPPED, "damaged-segment|misnamed-segment|missing-segment")(
    renamed
)


def later_snapshot(root: Path) -> None:
    """A snapshot of producers from beyond the end: a follower that was cut back has it from before."""
    path, _ = orders(root).entries(".snapshot")
    path.rename(path.with_name(f"{9000:020}.snapshot"))


fault(HELD_OUT, "a snapshot from behind the end", STOPPED, "lost-tail|bad-snapshot")(later_snapshot)

fault(HELD_OUT, "a leader epoch that nobody had, at the end", STOPPED, "bad-epoch-checkpoint")(
    lambda root: orders(root).epochs((0, 0), (900, int(orders(root).checkpointed(HIGH) or 0)))
)

fault(HELD_OUT, "a topic's name of noise", STOPPED, "wrong-topic-id|bad-checkpoint|bad-partition-metadata")(
    lambda root: (orders(root).path / "partition.metadata").write_bytes(b"\xff\xfe\0noise")
)


def metadata_hole(root: Path) -> None:
    """A record of the cluster's own log is gone."""
    log = Log(root, "__cluster_metadata-0")
    log.drop(is_data, len(log.places(is_data)) // 2)


fault(HELD_OUT, "a batch of the metadata log is gone", STOPPED, "lost-batches")(metadata_hole)


def higher_epoch(root: Path) -> None:
    """Data of an epoch that no coordinator has given out, between a producer's own, with its marker."""
    log = orders(root)
    found = log.read()
    place = log.places(is_marker)[-1]
    for batch in found[place - 1 : place + 1]:
        batch[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2] = (30_000).to_bytes(2)
        reseal(batch)
    log.write(found)


fault(
    HELD_OUT,
    "a transaction of an epoch that no coordinator gave out",
    STOPPED,
    "unknown-epoch|txn-unknown-epoch|hanging-transaction",
)(higher_epoch)


def cut_in_the_middle(root: Path) -> None:
    """The copy of a log directory broke off: one segment of several is there only in part."""
    path = orders(root).segments[1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


fault(HELD_OUT, "a segment in the middle that was copied in half", MANY, "damaged-segment|missing-segment")(
    cut_in_the_middle
)


def emptied(root: Path) -> None:
    """A segment in the middle of no bytes."""
    orders(root).segments[1].write_bytes(b"")


fault(HELD_OUT, "a segment in the middle of no bytes", MANY, "damaged-segment|missing-segment")(emptied)

KINDS = (HELD_OUT,)
