"""Faults in what segments hold and in what order: bytes, batches, tails."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.pipeline.corpus.edit import (
    ATTRIBUTES_AT,
    COUNT_AT,
    LENGTH_AT,
    MAGIC_AT,
    Log,
    is_abort,
    is_commit,
    is_data,
    is_marker,
)
from tests.pipeline.corpus.fault import (
    GROUPS,
    HIGH,
    KILLED,
    LEVEL_1,
    MANY,
    PLAIN,
    RECOVERY,
    STOPPED,
    each,
    fault,
    orders,
)

from odradek.records.batch import batches
from odradek.records.message_set import message_set
from odradek.records.record import Record

# ---------------------------------------------------------------------- bytes


def overwrite(root: Path, at: float, content: bytes, log: str = "orders-0", number: int = -1) -> None:
    path = Log(root, log).segment_of(number)
    whole = bytearray(path.read_bytes())
    place = int(len(whole) * at)
    whole[place : place + len(content)] = content
    path.write_bytes(whole)


def torn(root: Path, number: int, *, clean: bool) -> None:
    """Half a batch at the end of a segment."""
    log = orders(root)
    path = log.segment_of(number)
    with path.open("ab") as file:
        batch = log.read(path)[-1]
        batch[:8] = (int.from_bytes(batch[:8]) + 1).to_bytes(8)
        file.write(batch[:40])
    if not clean:
        log.unseal()


def flip(root: Path, *, base_closed: bool = False) -> None:
    """One bit of a payload."""
    log = orders(root)
    log.change(is_data, 0, 70, bytes([0x7E]), seal=False)
    if not base_closed:
        log.unseal()


def old_message(root: Path) -> None:
    log = Log(root, "plain-0")
    path = log.segment_of()
    *_, last = batches(memoryview(path.read_bytes()))
    with path.open("ab") as file:
        file.write(message_set([Record(last.next_offset, last.max_timestamp, value=b"old")], magic=1))


BYTES = "Bytes"
each(
    BYTES,
    STOPPED,
    "damaged-segment",
    {
        "zeros in the middle": partial(overwrite, at=0.4, content=bytes(150)),
        "noise in the middle": partial(overwrite, at=0.4, content=b"\xa5" * 150),
        "noise over the whole second half": partial(overwrite, at=0.5, content=b"\x5a" * 4000),
        "a length that is too large": lambda root: orders(root).change(
            is_data, 2, LENGTH_AT, b"\x7f\0\0\0", seal=False
        ),
        "a negative length": lambda root: orders(root).change(is_data, 2, LENGTH_AT, b"\xff" * 4, seal=False),
        "a length of zero": lambda root: orders(root).change(is_data, 2, LENGTH_AT, bytes(4), seal=False),
        "an unknown magic": lambda root: orders(root).change(is_data, 2, MAGIC_AT, b"\x09", seal=False),
        "a count that is too large": lambda root: orders(root).change(is_data, 2, COUNT_AT, (9).to_bytes(4)),
        "a count of zero": lambda root: orders(root).change(is_data, 2, COUNT_AT, bytes(4)),
        "a count below zero": lambda root: orders(root).change(is_data, 2, COUNT_AT, b"\xff" * 4),
        "noise behind the end, closed cleanly": lambda root: overwrite(root, 1.0, b"\xa5" * 90),
        "half a batch at the end, closed cleanly": partial(torn, number=-1, clean=True),
    },
)
fault(BYTES, "a flipped bit where the broker crashed", STOPPED, "damaged-segment")(flip)
fault(BYTES, "half a batch at the end of a closed segment", MANY, "damaged-segment")(
    partial(torn, number=1, clean=False)
)
fault(BYTES, "half a batch at the end, after a crash", KILLED, "~half-written")(partial(torn, number=-1, clean=False))
fault(BYTES, "a message of the old format behind the end", PLAIN, "bad-checkpoint")(old_message)
fault(BYTES, "a batch of the coordinators' log with another codec", STOPPED, "damaged-segment")(
    lambda root: coordinators(root).change(is_data, 3, ATTRIBUTES_AT, b"\0\x03")
)


# ---------------------------------------------------------------------- batches


def coordinators(root: Path, broker: int = 1) -> Log:
    """The partition of the coordinators' log that has records."""
    logs = [Log(root, f"__transaction_state-{number}", broker) for number in range(3)]
    return max(logs, key=lambda log: sum(path.stat().st_size for path in log.segments))


def whole_transaction(root: Path, *, with_marker: bool) -> None:
    log = orders(root)
    first = log.places(is_marker)[2] + 1
    end = log.places(is_marker)[3] + int(with_marker)
    found = log.read()
    del found[first:end]
    log.write(found)


MISSING = "Batches that are missing"
each(
    MISSING,
    STOPPED,
    "lost-batches",
    {
        "the first of a transaction": lambda root: orders(root).drop(is_data, 2),
        "the last of a transaction": lambda root: orders(root).drop(lambda batch: batch.base_sequence == 2, 1),
        "two in a row": lambda root: orders(root).drop(is_data, 4, 2),
        "a commit marker": lambda root: orders(root).drop(is_commit, 1),
        "an abort marker": lambda root: orders(root).drop(is_abort, 1),
        "a whole transaction": partial(whole_transaction, with_marker=True),
        "all data of a transaction": partial(whole_transaction, with_marker=False),
        "five in a row": lambda root: orders(root).drop(is_data, 2, 5),
        "one of the coordinators' log": lambda root: coordinators(root).drop(is_data, 9),
    },
)
fault(MISSING, "one of an idempotent producer", PLAIN, "lost-batches")(
    lambda root: Log(root, "plain-0").drop(is_data, 4)
)
fault(MISSING, "one without a producer", PLAIN, "lost-batches")(
    lambda root: Log(root, "plain-0").drop(lambda batch: batch.producer_id < 0, 1)
)
fault(MISSING, "one of the group coordinator's log", GROUPS, "lost-batches")(
    lambda root: max(
        (Log(root, f"__consumer_offsets-{at}") for at in range(3)),
        key=lambda log: log.segment_of().stat().st_size if any(path.stat().st_size for path in log.segments) else 0,
    ).drop(is_data, 2)
)
fault(MISSING, "a marker at level 0", LEVEL_1, "lost-batches")(lambda root: orders(root).drop(is_marker, 3))
fault(MISSING, "the first batch of the log", STOPPED, "missing-segment")(lambda root: orders(root).drop(is_data, 0))


# ---------------------------------------------------------------------- segments and tails


def cut(root: Path, batches: int, log: Log, *, crashed: bool = False) -> None:
    found = log.read()
    log.write(found[:-batches])
    if crashed:
        log.unseal()
        for name in (HIGH, RECOVERY):
            log.checkpoint(name, int.from_bytes(found[-1][:8]))
        log.segment_of().touch()  # the file system cuts it when it is mounted again


def several_segments(root: Path) -> None:
    log = orders(root)
    for path in log.segments[2:4]:
        log.remove(path)


def emptied(log: Log) -> None:
    log.remove_all()
    log.path.mkdir()


SEGMENTS = "Segments and tails"
each(
    SEGMENTS,
    MANY,
    "missing-segment",
    {
        "the first segment": lambda root: orders(root, 2).remove(orders(root, 2).segments[0]),
        "a segment in the middle": lambda root: orders(root, 2).remove(orders(root, 2).segments[1]),
        "two segments in the middle": lambda root: several_segments(root),
    },
)
each(
    SEGMENTS,
    STOPPED,
    "lost-tail",
    {
        "the last marker": lambda root: cut(root, 1, orders(root)),
        "the last transaction": lambda root: cut(root, 3, orders(root)),
        "half of the log": lambda root: cut(root, 12, orders(root)),
        "the end of the coordinators' log": lambda root: cut(root, 2, coordinators(root)),
        "an empty segment where there was one": lambda root: orders(root).segment_of().write_bytes(b""),
        "a torn batch below the high watermark": lambda root: torn_below(root),
    },
)
fault(SEGMENTS, "the end, after a crash", STOPPED, "lost-tail")(lambda root: cut(root, 4, orders(root), crashed=True))
fault(SEGMENTS, "the last segment", MANY, "lost-tail")(lambda root: orders(root).remove(orders(root).segments[-1]))
fault(SEGMENTS, "a whole partition", STOPPED, "missing-partition")(lambda root: orders(root, 1).remove_all())
fault(SEGMENTS, "all segments of a partition", STOPPED, "missing-partition")(lambda root: emptied(orders(root, 1)))


def torn_below(root: Path) -> None:
    path = orders(root).segment_of()
    path.write_bytes(path.read_bytes()[:-100])
    orders(root).unseal()


# ---------------------------------------------------------------------- order


def swap(root: Path, first: int, second: int, log: str = "orders-0") -> None:
    one = Log(root, log)
    found = one.read()
    found[first], found[second] = found[second], found[first]
    one.write(found)


def repeat(root: Path, first: int, count: int, log: str = "orders-0") -> None:
    one = Log(root, log)
    found = one.read()
    one.write([*found[: first + count], *found[first : first + count], *found[first + count :]])


ORDER = "Order"
each(
    ORDER,
    STOPPED,
    "swapped-batches",
    {
        "two batches of a transaction": partial(swap, first=3, second=4),
        "data and its marker": partial(swap, first=7, second=8),
        "two transactions' batches": partial(swap, first=4, second=9),
    },
)
fault(ORDER, "two batches without a producer", PLAIN, "swapped-batches")(
    partial(swap, first=3, second=4, log="plain-0")
)
each(
    ORDER,
    STOPPED,
    "repeated-batches",
    {
        "a batch twice": partial(repeat, first=3, count=1),
        "a marker twice": partial(repeat, first=5, count=1),
        "three batches twice": partial(repeat, first=3, count=3),
    },
)
fault(ORDER, "a batch without a producer twice", PLAIN, "repeated-batches")(
    partial(repeat, first=3, count=1, log="plain-0")
)

KINDS = (BYTES, MISSING, SEGMENTS, ORDER)
