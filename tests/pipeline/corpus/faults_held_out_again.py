"""More kinds of damage that were written down before they were played: what disks and operators do to files, and what
stands in batches under right checksums; see docs/pipeline.md."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from tests.pipeline.corpus.edit import (
    ATTRIBUTES_AT,
    DELTA_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_AT,
    PRODUCER_EPOCH_AT,
    SEQUENCE_AT,
    Log,
    is_data,
    is_marker,
    reseal,
)
from tests.pipeline.corpus.fault import HIGH, MANY, ONE, PLAIN, RECOVERY, STOPPED, THREE, fault, orders

from odradek.records.record import Record, build_batch

AGAIN = "Held out again: files and batches"
FIRST_TIMESTAMP_AT = 27
YEAR_MS = 365 * 86_400_000
OF_A_BATCH = "damaged-segment"

# ---------------------------------------------------------------------- whole files


def in_each_others_place(root: Path) -> None:
    """Two partitions of a topic, with all that the broker's checkpoints say of them."""
    first, second = orders(root, 0), orders(root, 1)
    beside = first.root / "beside"
    known = {name: (first.checkpointed(name), second.checkpointed(name)) for name in (HIGH, RECOVERY)}
    first.path.rename(beside)
    second.path.rename(first.path)
    beside.rename(second.path)
    for name, (one, two) in known.items():
        if one is not None and two is not None:
            first.checkpoint(name, two)
            second.checkpoint(name, one)


fault(AGAIN, "two partitions in each other's place", STOPPED, "wrong-partition")(in_each_others_place)


def other_id(root: Path) -> None:
    """A directory of an older topic of the same name, and no metadata log to ask."""
    Log(root, "__cluster_metadata-0").remove_all()
    (orders(root, 1).path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEQ")


fault(
    AGAIN,
    "one partition of a topic under another id, without the metadata log",
    STOPPED,
    "wrong-topic-id|~wrong-topic-id",
)(other_id)


def other_id_of_a_replica(root: Path) -> None:
    for number in (1, 2, 3):
        Log(root, "__cluster_metadata-0", number).remove_all()
    (orders(root, 0, 3).path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEQ")


fault(AGAIN, "one replica under another id, without the metadata log", THREE, "wrong-topic-id|~wrong-topic-id")(
    other_id_of_a_replica
)

fault(AGAIN, "partition.metadata of a later version", STOPPED, "bad-partition-metadata")(
    lambda root: (orders(root).path / "partition.metadata").write_text("version: 7\nid: AAAAAAAAAAAAAAAAAAAAEQ\n")
)


def copied_under_another_name(root: Path) -> None:
    """A segment is there twice, once under an offset that lies within it."""
    path = orders(root).segments[2]
    shutil.copy(path, path.with_name(f"{int(path.stem) + 2:020}.log"))


fault(AGAIN, "a copy of a segment under another name", MANY, "repeated-batches|misnamed-segment")(
    copied_under_another_name
)


def overlapping(root: Path) -> None:
    """The first batch of a segment stands at the end of the one before, too."""
    log = orders(root)
    one, two = log.segments[2:4]
    log.write([*log.read(one), log.read(two)[0]], one)


fault(AGAIN, "two segments that overlap", MANY, "repeated-batches")(overlapping)


def of_another_partition(root: Path) -> None:
    """A segment of another partition, with right checksums, under the name of one of this."""
    log, other = orders(root, 0), orders(root, 1)
    log.write(other.read(other.segments[3]), log.segments[3])


fault(
    AGAIN,
    "a segment of another partition in place of one",
    MANY,
    "misnamed-segment|missing-segment|swapped-batches",
    is_missed=True,
)(of_another_partition)


def misdirected(root: Path) -> None:
    """The disk wrote a batch of another partition to this place; a batch's offset is outside of its checksum."""
    log, other = orders(root, 0), orders(root, 1)
    found = log.read()
    place = log.places(is_data)[4]
    taken = next(
        bytearray(batch)
        for batch in other.read()[::-1]
        if len(batch) == len(found[place]) and batch[17:] != found[place][17:]
    )
    taken[:8] = found[place][:8]
    found[place] = taken
    log.write(found)


fault(
    AGAIN,
    "a batch of another partition in place of one",
    STOPPED,
    "foreign-batch|seq-gap|seq-duplicate|lost-batches",
    is_missed=True,
)(misdirected)


def zeros(root: Path, number: int, count: int) -> None:
    path = orders(root).segments[number]
    content = path.read_bytes()
    path.write_bytes(content[:-count] + bytes(count))


fault(AGAIN, "zeros over the end of a closed segment", MANY, "missing-segment|lost-batches|damaged-segment")(
    partial(zeros, number=2, count=120)
)
fault(AGAIN, "zeros over the end of the last segment, closed cleanly", STOPPED, "lost-tail")(
    partial(zeros, number=-1, count=300)
)


def flipped_offset(root: Path) -> None:
    """One bit of the eight bytes of a batch that no checksum covers."""
    log = orders(root)
    found = log.read()
    found[log.places(is_data)[5]][2] ^= 0x10
    log.write(found)


fault(AGAIN, "a flipped bit in an offset", STOPPED, OF_A_BATCH)(flipped_offset)


def a_directory(root: Path) -> None:
    path = orders(root).segments[2]
    path.unlink()
    path.mkdir()


fault(AGAIN, "a directory in place of a segment", MANY, "unreadable|missing-segment|damaged-segment")(a_directory)


def dangling(root: Path) -> None:
    path = orders(root).segments[2]
    path.unlink()
    path.symlink_to("/nowhere/at/all")


fault(AGAIN, "a segment that is a link to nothing", MANY, "unreadable|leads-nowhere|missing-segment|damaged-segment")(
    dangling
)


def dangling_directory(root: Path) -> None:
    path = orders(root, 2).path
    shutil.rmtree(path)
    path.symlink_to("/nowhere/at/all")


fault(AGAIN, "a partition that is a link to nothing", STOPPED, "missing-partition|leads-nowhere")(dangling_directory)


def cut_time_index(root: Path) -> None:
    path, entries = orders(root).entries(".timeindex")
    path.write_bytes(entries.tobytes()[:-5])


fault(AGAIN, "half an entry at the end of a .timeindex", STOPPED, "bad-index|half-written")(cut_time_index)


def later_time_index(root: Path) -> None:
    path, entries = orders(root).entries(".timeindex")
    entries["offset"][-1] = 70_000
    path.write_bytes(entries.tobytes())


fault(AGAIN, "a .timeindex that names an offset behind the end", STOPPED, "bad-index")(later_time_index)

fault(AGAIN, "an empty leader-epoch-checkpoint, closed cleanly", STOPPED, "bad-epoch-checkpoint")(
    lambda root: orders(root).epochs()
)
fault(AGAIN, "no leader-epoch-checkpoint, closed cleanly", ONE, "bad-epoch-checkpoint")(
    lambda root: (orders(root).path / "leader-epoch-checkpoint").unlink()
)


def nobody(root: Path) -> None:
    (root / "broker-1" / "meta.properties").write_bytes(b"\xff\xfe\0noise" * 9)


fault(AGAIN, "meta.properties of noise", STOPPED, "bad-checkpoint|bad-meta-properties")(nobody)


def same_directory(root: Path) -> None:
    """A disk was cloned to make another broker's."""
    texts = [(root / f"broker-{number}" / "meta.properties").read_text().splitlines() for number in (1, 2)]
    (one,) = [line for line in texts[0] if line.startswith("directory.id")]
    lines = [one if line.startswith("directory.id") else line for line in texts[1]]
    (root / "broker-2" / "meta.properties").write_text("\n".join(lines))


fault(AGAIN, "one directory id in two directories", THREE, "repeated-directory|repeated-broker")(same_directory)


def on_two_disks(root: Path) -> None:
    """A partition in two log directories of one broker, which then does not start."""
    other = root / "broker-1-b"
    other.mkdir()
    lines = (root / "broker-1" / "meta.properties").read_text().splitlines()
    other_id = "directory.id=BBBBBBBBBBBBBBBBBBBBEQ"
    (other / "meta.properties").write_text(
        "\n".join(other_id if line.startswith("directory.id") else line for line in lines)
    )
    shutil.copytree(orders(root).path, other / "orders-0")


fault(AGAIN, "a partition in two log directories of a broker", STOPPED, "repeated-broker|repeated-partition")(
    on_two_disks
)

fault(AGAIN, "a high watermark below zero", STOPPED, "bad-checkpoint")(lambda root: orders(root).checkpoint(HIGH, -7))


def named_twice(root: Path) -> None:
    path = orders(root).root / HIGH
    lines = path.read_text().splitlines()[2:]
    path.write_text("\n".join(["0", str(len(lines) + 1), *lines, "orders 0 3"]) + "\n")


fault(AGAIN, "a checkpoint that names a partition twice", STOPPED, "bad-checkpoint")(named_twice)


def noisy_snapshot(root: Path) -> None:
    path = next(Log(root, "__cluster_metadata-0").path.glob("*.checkpoint"))
    content = path.read_bytes()
    path.write_bytes(content[:80] + b"\xa5" * (len(content) - 80))


fault(AGAIN, "a metadata snapshot of noise", STOPPED, "bad-records|bad-snapshot|damaged-segment")(noisy_snapshot)


def empty_snapshot(root: Path) -> None:
    path, _ = orders(root).entries(".snapshot")
    path.write_bytes(b"")


fault(AGAIN, "a snapshot of no bytes, closed cleanly", STOPPED, "bad-snapshot|half-written")(empty_snapshot)


def behind_the_end(root: Path) -> None:
    """Somebody appended to a closed log; the checkpoints know nothing of it."""
    log = Log(root, "plain-0")
    found = log.read()
    end = int.from_bytes(found[-1][:8]) + 1
    added = build_batch([Record(value=b"more", timestamp=int.from_bytes(found[-1][35:43]))], base_offset=end)
    log.write([*found, bytearray(added)])


fault(AGAIN, "batches behind the end of a closed log", PLAIN, "bad-checkpoint")(behind_the_end)

# ---------------------------------------------------------------------- batches under right checksums


def attributes(root: Path, *, clear: int = 0, put: int = 0, wanted: str = "data", name: str = "orders-0") -> None:
    log = Log(root, name)
    found = log.read()
    batch = found[log.places(is_data if wanted == "data" else is_marker)[2]]
    value = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2])
    batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = (value & ~clear | put).to_bytes(2)
    reseal(batch)
    log.write(found)


def times(root: Path, *, first: int | None = None, newest: int | None = None, later: int = 0) -> None:
    """Other times of one batch of one record."""
    log = Log(root, "plain-0")
    found = log.read()
    batch = found[log.places(is_data)[3]]
    was = int.from_bytes(batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8])
    if first is not None:
        batch[FIRST_TIMESTAMP_AT : FIRST_TIMESTAMP_AT + 8] = first.to_bytes(8, signed=True)
    value = was + later if newest is None else newest
    batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = value.to_bytes(8, signed=True)
    reseal(batch)
    log.write(found)


FAR_FUTURE_MS = 7_258_118_400_000  # the year 2200

fault(AGAIN, "a codec that there is not", STOPPED, OF_A_BATCH)(partial(attributes, put=0x07))
fault(AGAIN, "a negative offset delta", STOPPED, OF_A_BATCH)(
    lambda root: orders(root).change(is_data, 2, DELTA_AT, b"\xff\xff\xff\xfe")
)
fault(AGAIN, "a time before all times", PLAIN, OF_A_BATCH)(partial(times, first=-5000, newest=-5000))
fault(AGAIN, "a newest time that no record has", PLAIN, OF_A_BATCH)(partial(times, later=YEAR_MS))
fault(AGAIN, "a record of the year 2200", PLAIN, "~future-timestamp|damaged-segment")(
    partial(times, first=FAR_FUTURE_MS, newest=FAR_FUTURE_MS)
)
fault(AGAIN, "a producer's batch without a sequence", STOPPED, OF_A_BATCH)(
    lambda root: orders(root).change(is_data, 2, SEQUENCE_AT, b"\xff" * 4)
)
fault(AGAIN, "a transaction of no producer", STOPPED, OF_A_BATCH)(
    lambda root: orders(root).change(is_data, 2, PRODUCER_AT, b"\xff" * 8)
)
fault(AGAIN, "a producer's batch of an epoch below zero", STOPPED, OF_A_BATCH)(
    lambda root: orders(root).change(is_data, 2, PRODUCER_EPOCH_AT, b"\xff\xfe")
)
fault(AGAIN, "a marker outside of transactions", STOPPED, "odd-marker|damaged-segment")(
    partial(attributes, clear=0x10, wanted="marker")
)


def unknown_producer(root: Path) -> None:
    """Batches of an idempotent producer whose id the cluster has never given out."""
    log = Log(root, "plain-0")
    last = log.read()[-1]
    records = [Record(value=b"whose", timestamp=int.from_bytes(last[35:43]))]
    log.append(build_batch(records, producer_id=7_000_000, producer_epoch=0, base_sequence=0))


fault(AGAIN, "a producer id that was never given out", PLAIN, "unknown-producer")(unknown_producer)


def null_key(root: Path) -> None:
    """A record without a key in a topic that is compacted: the cleaner stops at it."""
    log = Log(root, "orders-0")
    last = log.read()[-1]
    log.append(build_batch([Record(value=b"whose", timestamp=int.from_bytes(last[35:43]))]))


fault(AGAIN, "a record without a key in a compacted topic", "compacted_and_deleted", "null-key", is_missed=True)(
    null_key
)


def text_copy(root: Path) -> None:
    """Somebody copied it as text: a carriage return before each line feed, among which are lengths and offsets."""
    path = orders(root).segments[0]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


fault(AGAIN, "a segment that was copied as text", STOPPED, "damaged-segment")(text_copy)


def later_copy(root: Path) -> None:
    path = orders(root).segments[-1]
    shutil.copy(path, path.with_name(f"{10_000:020}.log"))


fault(AGAIN, "a copy of the last segment under a later name", MANY, "misnamed-segment")(later_copy)


def under_two_names(root: Path) -> None:
    """To a broker the number of this directory is 0, too: it does not start."""
    directory = orders(root).segments[0].parent
    shutil.copytree(directory, directory.with_name("orders-00"))


fault(AGAIN, "a partition under two names", STOPPED, "repeated-partition")(under_two_names)

KINDS = (AGAIN,)
