"""Faults, planted into log directories of a real broker; each with the incident that tells of it, and no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.pipeline.corpus.edit import (
    ATTRIBUTES_AT,
    COORDINATOR_EPOCH_AT,
    COUNT_AT,
    EPOCH_AT,
    LENGTH_AT,
    MAGIC_AT,
    MARKER_TYPE_AT,
    PRODUCER_AT,
    PRODUCER_EPOCH_AT,
    SEQUENCE_AT,
    Log,
    is_abort,
    is_commit,
    is_data,
    is_marker,
    reseal,
)

from odradek.records.control import end_txn_marker
from odradek.records.message_set import message_set
from odradek.records.record import Record, build_batch

__all__ = ["FAULTS", "Fault"]

ONE, MANY, THREE, STOPPED = "restarts", "deleted_records", "three_brokers", "java_level_2_clean_stop"
KILLED, LEVEL_1, GROUPS, PLAIN = "java_level_1_killed", "level_0", "groups", "codecs"
HIGH, RECOVERY = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"
START, CLEANED = "log-start-offset-checkpoint", "cleaner-offset-checkpoint"
Plant = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    group: str
    name: str
    base: str
    """The recorded situation it is planted into."""
    plant: Plant
    expected: str
    """The incident; with a leading `~` a problem of severity info."""

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


FAULTS: list[Fault] = []


def fault(group: str, name: str, base: str, expected: str) -> Callable[[Plant], Plant]:
    """Declare one."""

    def declare(plant: Plant) -> Plant:
        FAULTS.append(Fault(group, name, base, plant, expected))
        return plant

    return declare


def each(group: str, base: str, expected: str, plants: dict[str, Plant]) -> None:
    """Declare several."""
    for name, plant in plants.items():
        fault(group, name, base, expected)(plant)


def orders(root: Path, number: int = 0, broker: int = 1) -> Log:
    return Log(root, f"orders-{number}", broker)


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
    with path.open("ab") as file:
        file.write(bytes(message_set([Record(value=b"old", timestamp=1, offset=900)], magic=1)))


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
fault(BYTES, "a message of the old format at the end", PLAIN, "~old-magic")(old_message)
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


# ---------------------------------------------------------------------- transactions


def turn(root: Path, wanted: Callable[..., bool], number: int, log: int = 0) -> None:
    """The opposite of what was decided."""
    kind = b"\0" if wanted is is_commit else b"\x01"
    orders(root, log).change(wanted, number, MARKER_TYPE_AT, kind)


def late(root: Path, *places: int, known: bool = True) -> None:
    """A transactional batch that no coordinator has under way."""
    for place in places:
        log = orders(root, place)
        last = log.read()[-1]
        producer = int.from_bytes(last[PRODUCER_AT : PRODUCER_AT + 8]) if known else 4711
        epoch = int.from_bytes(last[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]) if known else 0
        records = [Record(value=b"late", timestamp=int.from_bytes(last[35:43]))]
        data = log.read()[log.places(is_data)[-1]]
        same = (
            known and data[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2] == last[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]
        )
        due = int.from_bytes(data[SEQUENCE_AT : SEQUENCE_AT + 4]) + int.from_bytes(data[COUNT_AT : COUNT_AT + 4])
        sequence = due if same else 0
        log.append(
            build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        )


def stuck(root: Path, *, commit: bool) -> None:
    """The coordinator's log ends with the decision, hours ago; a marker never came."""
    log = coordinators(root)
    found = log.read()
    states = {True: 2, False: 3}
    wanted = states[commit]
    at = max(place for place, batch in enumerate(found) if _state(batch) == wanted)
    epoch = _field(found[at], 8 + 8 + 2)
    log.write(found[: at + 1])
    for name in (HIGH, RECOVERY):
        log.checkpoint(name, int.from_bytes(found[at][:8]) + 1)
    for number in range(3):
        partition = orders(root, number)
        batches = partition.read()
        kept = [one for one in batches if int.from_bytes(one[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]) < epoch]
        if len(kept) < len(batches):
            partition.write(kept)
            partition.acknowledge()
            for snapshot in partition.path.glob("*.snapshot"):
                snapshot.unlink()
            for aborted in partition.path.glob("*.txnindex"):
                aborted.unlink()
    # The clock of an audit is the newest timestamp that it sees.
    plain = build_batch([Record(value=b"now", timestamp=int.from_bytes(found[at][35:43]) + 3 * 3_600_000)])
    orders(root, 0).append(plain)


def _value(batch: bytearray) -> bytes:
    from odradek.records.batch import parse_batch
    from odradek.records.record import iterate_records

    return next(iterate_records(parse_batch(memoryview(bytes(batch))))).value or b""


def _state(batch: bytearray) -> int:
    from odradek.records.state import decode_value
    from odradek.wire.messages.transaction_log_value import TransactionLogValue

    value = decode_value(_value(batch), TransactionLogValue)
    return -1 if value is None else value.transaction_status


def _field(batch: bytearray, at: int) -> int:
    from odradek.records.state import decode_value
    from odradek.wire.messages.transaction_log_value import TransactionLogValue

    value = decode_value(_value(batch), TransactionLogValue)
    assert value is not None
    return value.producer_epoch


def overdue(root: Path) -> None:
    """A transaction that is under way hours after its timeout."""
    log = Log(root, "orders-0")
    last = log.read()[-1]
    plain = build_batch([Record(value=b"now", timestamp=int.from_bytes(last[35:43]) + 3 * 3_600_000)])
    log.append(plain)


def again(root: Path, *, commit: bool, step: int = 0, coordinator: int = 0) -> None:
    log = orders(root)
    last = log.read()[log.places(is_marker)[-1]]
    epoch = int.from_bytes(last[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]) + step
    marker = end_txn_marker(
        producer_id=int.from_bytes(last[PRODUCER_AT : PRODUCER_AT + 8]),
        producer_epoch=epoch,
        commit=commit,
        coordinator_epoch=coordinator,
        timestamp=int.from_bytes(last[35:43]),
    )
    log.append(bytes(marker.view))


def not_bumped(root: Path) -> None:
    log = orders(root)
    place = log.places(is_marker)[-1]
    found = log.read()
    found[place][PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2] = found[place - 1][
        PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2
    ]
    reseal(found[place])
    log.write(found)


def split_without_coordinators(root: Path) -> None:
    """No coordinator's log is there to say which outcome was right."""
    number = len(orders(root, 1).places(is_commit)) - 1
    turn(root, is_commit, number, log=1)
    for at in range(3):
        Log(root, f"__transaction_state-{at}").remove_all()


def state_record(root: Path, at: int, value: bytes) -> None:
    """Bytes of the value of a coordinator's record."""
    log = coordinators(root)
    found = log.read()
    content = _value(found[4])
    place = bytes(found[4]).rindex(content)
    found[4][place + at : place + at + len(value)] = value
    reseal(found[4])
    log.write(found)


TRANSACTIONS = "Transactions"
each(
    TRANSACTIONS,
    STOPPED,
    "wrong-outcome",
    {
        "an abort where commit was decided": partial(turn, wanted=is_commit, number=2),
        "a commit where abort was decided": partial(turn, wanted=is_abort, number=1),
        "the last of several partitions aborted": partial(turn, wanted=is_commit, number=1, log=1),
    },
)
fault(TRANSACTIONS, "an abort where commit was decided, at level 0", LEVEL_1, "wrong-outcome")(
    partial(turn, wanted=is_commit, number=2)
)
fault(TRANSACTIONS, "both outcomes, and no coordinators' log", STOPPED, "split-outcome")(split_without_coordinators)
fault(TRANSACTIONS, "a PrepareCommit of three hours ago", STOPPED, "stuck-prepare")(partial(stuck, commit=True))
fault(TRANSACTIONS, "a PrepareAbort of three hours ago", STOPPED, "stuck-prepare")(partial(stuck, commit=False))
fault(TRANSACTIONS, "a transaction hours beyond its timeout", KILLED, "txn-timeout-exceeded")(overdue)
each(
    TRANSACTIONS,
    STOPPED,
    "hanging-transaction",
    {
        "a late batch": lambda root: late(root, 0),
        "late batches in two partitions": lambda root: late(root, 0, 1),
        "a late batch of a producer nobody knows": lambda root: late(root, 2, known=False),
    },
)
fault(TRANSACTIONS, "a late batch at level 0", LEVEL_1, "hanging-transaction")(lambda root: late(root, 0))
fault(TRANSACTIONS, "a marker whose epoch was not bumped", STOPPED, "txn-epoch-not-bumped")(not_bumped)
fault(TRANSACTIONS, "a marker of an older epoch", STOPPED, "txn-marker-epoch-regression")(
    partial(again, commit=False, step=-4)
)
fault(TRANSACTIONS, "a marker that contradicts the one before", STOPPED, "txn-double-marker")(
    lambda root: again(root, commit=not is_commit_last(root))
)


def is_commit_last(root: Path) -> bool:
    log = orders(root)
    return log.places(is_marker)[-1] in log.places(is_commit)


fault(TRANSACTIONS, "a marker of a coordinator that had been replaced", STOPPED, "coordinator-epoch-regression")(
    lambda root: orders(root).change(is_marker, 1, COORDINATOR_EPOCH_AT, (5).to_bytes(4))
)
fault(TRANSACTIONS, "a marker of another type", STOPPED, "odd-marker")(
    lambda root: orders(root).change(is_marker, 2, MARKER_TYPE_AT, b"\x06")
)
fault(TRANSACTIONS, "a later version of a marker's key", STOPPED, "unknown-version")(
    lambda root: orders(root).change(is_marker, 2, 67, b"\x01")
)
fault(TRANSACTIONS, "a later version of a marker's value", STOPPED, "unknown-version")(
    lambda root: orders(root).change(is_marker, 2, 72, b"\x01")
)
fault(TRANSACTIONS, "a later version of a coordinator's record", STOPPED, "unknown-version")(
    partial(state_record, at=0, value=b"\0\x09")
)

PRODUCERS = "Producers"
fault(PRODUCERS, "a sequence number that jumps ahead", PLAIN, "seq-gap")(
    lambda root: Log(root, "plain-0").change(lambda batch: batch.base_sequence == 1, 0, SEQUENCE_AT, (40).to_bytes(4))
)
fault(PRODUCERS, "a sequence number twice", STOPPED, "seq-duplicate")(
    lambda root: orders(root).change(lambda batch: batch.base_sequence == 2, 1, SEQUENCE_AT, bytes(4))
)
fault(PRODUCERS, "an idempotent producer's epoch that goes back", PLAIN, "producer-epoch-regression")(
    lambda root: Log(root, "plain-0").change(
        lambda batch: batch.base_sequence == 0, 0, PRODUCER_EPOCH_AT, (3).to_bytes(2)
    )
)
fault(PRODUCERS, "a transactional epoch that goes back", STOPPED, "txn-marker-epoch-regression")(
    lambda root: orders(root).change(is_data, 2, PRODUCER_EPOCH_AT, (900).to_bytes(2))
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
