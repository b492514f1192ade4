"""More kinds of damage that were written down before they were played: what stands in the coordinators' own logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.pipeline.corpus.edit import MARKER_TYPE_AT, Log, is_commit
from tests.pipeline.corpus.fault import GROUPS, KILLED, STOPPED, fault
from tests.pipeline.corpus.faults_of_logs import coordinators

from odradek.records.batch import parse_batch
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import decode_key, decode_value, encode_value, kind_of
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

OF_COORDINATORS = "Held out again: coordinators"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
BOMB_BYTES = 160 << 20


@dataclass(slots=True)
class Step:
    """One record of the coordinators' log; None for a tombstone."""

    at: int
    record: Record
    value: TransactionLogValue | None


def record_of(batch: bytearray) -> Record:
    return next(iterate_records(parse_batch(memoryview(bytes(batch)))))


def rebuilt(batch: bytearray, value: bytes | None, *, key: bytes | None = None) -> bytearray:
    """The same batch with another value, and the offset and leader epoch that it had."""
    old = record_of(batch)
    record = Record(key=old.key if key is None else key, value=value, timestamp=old.timestamp)
    made = bytearray(build_batch([record], base_offset=int.from_bytes(batch[:8])))
    made[12:16] = batch[12:16]
    return made


def steps(log: Log) -> list[Step]:
    found = []
    for at, batch in enumerate(log.read()):
        record = record_of(batch)
        found.append(Step(at, record, decode_value(record.value, TransactionLogValue) if record.value else None))
    return found


def restate(root: Path, wanted: Callable[[TransactionLogValue], bool], number: int, **fields: object) -> None:
    """Other fields of one record."""
    log = coordinators(root)
    chosen = [one for one in steps(log) if one.value is not None and wanted(one.value)][number]
    assert chosen.value is not None
    assert chosen.record.value is not None
    version = int.from_bytes(chosen.record.value[:2])
    changed = msgspec.structs.replace(chosen.value, **fields)
    found = log.read()
    found[chosen.at] = rebuilt(found[chosen.at], encode_value(changed, version))
    log.write(found)


def in_state(state: int) -> Callable[[TransactionLogValue], bool]:
    return lambda value: value.transaction_status == state


def state_fault(name: str, expected: str, state: int, number: int, **fields: object) -> None:
    fault(OF_COORDINATORS, name, STOPPED, expected)(lambda root: restate(root, in_state(state), number, **fields))


BAD_STEP = "txn-bad-transition"
state_fault("complete without a decision", BAD_STEP, PREPARE_ABORT, 1, transaction_status=COMPLETE_ABORT)
state_fault("a commit that ends as an abort", BAD_STEP, COMPLETE_COMMIT, 2, transaction_status=COMPLETE_ABORT)
state_fault("complete before it began", BAD_STEP, EMPTY, 0, transaction_status=COMPLETE_COMMIT)
state_fault("an epoch of a coordinator's record that goes back", "txn-epoch-regression", ONGOING, 3, producer_epoch=0)
state_fault("a timeout below zero", "txn-bad-timeout", ONGOING, 3, transaction_timeout_ms=-5)
state_fault("a transaction under way of no producer", "txn-bad-producer", ONGOING, 3, producer_id=-1)
state_fault("a state that there is not", "unknown-record", ONGOING, 3, transaction_status=11)
state_fault(
    "a transaction that ended before it began",
    "txn-bad-times",
    PREPARE_COMMIT,
    2,
    transaction_start_timestamp_ms=4_000_000_000_000,
)


def bumped(root: Path) -> None:
    """A decision of level 2 under the epoch in which the transaction was begun."""
    log = coordinators(root)
    began = next(one.value for one in steps(log) if one.value and one.value.transaction_status == ONGOING)
    restate(root, in_state(PREPARE_COMMIT), 0, producer_epoch=began.producer_epoch)


fault(OF_COORDINATORS, "a decision whose epoch was not bumped", STOPPED, "txn-epoch-not-bumped")(bumped)


def nowhere(root: Path) -> None:
    """A decision names a partition that its topic never had."""
    log = coordinators(root)
    chosen = [one.value for one in steps(log) if one.value and one.value.transaction_status == PREPARE_COMMIT][1]
    topics = [*(chosen.transaction_partitions or []), PartitionsSchema(topic="orders", partition_ids=[9])]
    restate(root, in_state(PREPARE_COMMIT), 1, transaction_partitions=topics)


fault(OF_COORDINATORS, "a decision for a partition that there is not", STOPPED, "txn-unknown-partition")(nowhere)


def appended(root: Path, key: bytes | None, value: bytes | None, log: Log | None = None) -> None:
    log = log or coordinators(root)
    last = record_of(log.read()[-1])
    log.append(build_batch([Record(key=key or last.key, value=value, timestamp=last.timestamp)]))


fault(OF_COORDINATORS, "a tombstone for a transaction under way", KILLED, BAD_STEP)(
    lambda root: appended(root, None, None)
)


def shared(root: Path) -> None:
    """Two transactional ids with one producer id."""
    log = coordinators(root)
    last = steps(log)[-1]
    assert last.record.key is not None
    assert last.record.value is not None
    appended(root, last.record.key.replace(b"shop", same_partition(root)), last.record.value)


def same_partition(root: Path) -> bytes:
    """Another id of four letters that belongs into the same partition."""
    from odradek.core.internal_topics import partition_for

    number = int(coordinators(root).name.rpartition("-")[2])
    return next(name.encode() for name in (f"x{at:03}" for at in range(99)) if partition_for(name, 3) == number)


fault(OF_COORDINATORS, "one producer id of two transactional ids", STOPPED, "txn-shared-producer")(shared)


def astray(root: Path) -> None:
    """One id's records stand in a partition that is not its own."""
    log = coordinators(root)
    last = log.read()[-1]
    other = next(Log(root, f"__transaction_state-{at}") for at in range(3) if f"-{at}" not in log.name)
    path = other.segments[-1]
    moved = rebuilt(last, record_of(last).value)
    moved[:8] = bytes(8)
    path.write_bytes(bytes(moved))
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        other.checkpoint(name, 1)


fault(OF_COORDINATORS, "a transactional id in a partition that is not its own", STOPPED, "wrong-coordinator")(astray)


def bomb(root: Path) -> None:
    """A batch of the coordinators' log that expands to 160 MiB."""
    log = coordinators(root)
    found = log.read()
    old = record_of(found[4])
    record = Record(key=old.key, value=bytes(BOMB_BYTES), timestamp=old.timestamp)
    made = bytearray(build_batch([record], base_offset=int.from_bytes(found[4][:8]), compression=Compression.ZSTD))
    made[12:16] = found[4][12:16]
    found[4] = made
    log.write(found)


fault(OF_COORDINATORS, "a batch of the coordinators' log that expands without end", STOPPED, "damaged-segment")(bomb)

# ---------------------------------------------------------------------- groups


def offsets(root: Path) -> tuple[Log, int, Record]:
    """A partition of the groups' log with a committed offset, and where."""
    for number in range(3):
        log = Log(root, f"__consumer_offsets-{number}")
        if not any(path.stat().st_size for path in log.segments):
            continue
        for at, batch in enumerate(log.read()):
            if batch[22] & 0x20:
                continue
            record = record_of(batch)
            if record.key and record.value and kind_of(record.key) == 1 and batch[22] & 0x10 == 0:
                return log, at, record
    raise AssertionError("nobody has committed an offset")


def beyond(root: Path) -> None:
    """A group was further than the log is now: the log has lost its end, and its checkpoints do not say so."""
    log, _, record = offsets(root)
    assert record.key is not None
    assert record.value is not None
    key, value = decode_key(record.key, OffsetCommitKey), decode_value(record.value, OffsetCommitValue)
    assert key is not None
    assert value is not None
    changed = msgspec.structs.replace(value, offset=90_000)
    appended(root, record.key, encode_value(changed, int.from_bytes(record.value[:2])), log)


fault(OF_COORDINATORS, "a committed offset behind the end", GROUPS, "~offset-behind-end")(beyond)


def later_group(root: Path) -> None:
    log, _, record = offsets(root)
    assert record.value is not None
    appended(root, record.key, b"\0\x63" + record.value[2:], log)


fault(
    OF_COORDINATORS,
    "a later version of a group's record",
    GROUPS,
    "unknown-version|~unknown-version",
)(later_group)


def open_offsets(root: Path) -> None:
    """A late batch of offsets of a transaction, whose marker never comes."""
    log, _, record = offsets(root)
    records = [Record(key=record.key, value=record.value, timestamp=record.timestamp)]
    log.append(build_batch(records, producer_id=4711, producer_epoch=0, base_sequence=0, transactional=True))


fault(OF_COORDINATORS, "offsets of a transaction without its marker", GROUPS, "hanging-transaction")(open_offsets)


def turned_offsets(root: Path) -> None:
    """A commit of offsets that became an abort."""
    for number in range(3):
        log = Log(root, f"__consumer_offsets-{number}")
        if any(path.stat().st_size for path in log.segments) and log.places(is_commit):
            log.change(is_commit, 0, MARKER_TYPE_AT, b"\0")
            return


fault(OF_COORDINATORS, "a commit of offsets that became an abort", GROUPS, "wrong-outcome")(turned_offsets)

KINDS = (OF_COORDINATORS,)
