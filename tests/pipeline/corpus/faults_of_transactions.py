"""Faults of transactions and of producers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.pipeline.corpus.edit import (
    COORDINATOR_EPOCH_AT,
    COUNT_AT,
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
from tests.pipeline.corpus.fault import (
    HIGH,
    KILLED,
    LEVEL_1,
    PLAIN,
    RECOVERY,
    STOPPED,
    each,
    fault,
    orders,
)
from tests.pipeline.corpus.faults_of_logs import coordinators

from odradek.core.internal_topics import partition_for
from odradek.records.batch import parse_batch
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue

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


def begun_by_nobody(root: Path, *, bumped: int, later: int = 0, producer: int | None = None) -> None:
    """Data and a commit marker that no coordinator's record speaks of, and checkpoints that know both.

    `later` is the epoch of the data behind that of the last marker, `bumped` that of their own marker behind it: 1 at
    level 2. `producer` None is the one that has written here last.
    """
    log = orders(root)
    marker, last = log.read()[log.places(is_marker)[-1]], log.read()[log.places(is_data)[-1]]
    epoch = int.from_bytes(marker[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]) + later if producer is None else 0
    goes_on = producer is None and not bumped and not later
    sequence = int.from_bytes(last[SEQUENCE_AT : SEQUENCE_AT + 4]) + int.from_bytes(last[COUNT_AT : COUNT_AT + 4])
    producer = int.from_bytes(marker[PRODUCER_AT : PRODUCER_AT + 8]) if producer is None else producer
    time = int.from_bytes(marker[35:43])
    data = build_batch(
        [Record(value=b"of nobody", timestamp=time)],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence if goes_on else 0,
        transactional=True,
    )
    end = end_txn_marker(
        producer_id=producer, producer_epoch=epoch + bumped, commit=True, coordinator_epoch=0, timestamp=time
    )
    log.append(data, bytes(end.view))


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
    for beside in (*log.path.glob("*.snapshot"), *log.path.glob("*.timeindex")):  # they would say it was longer
        beside.unlink()
    for number in range(3):
        partition = orders(root, number)
        batches = partition.read()
        kept = [one for one in batches if int.from_bytes(one[PRODUCER_EPOCH_AT : PRODUCER_EPOCH_AT + 2]) < epoch]
        if len(kept) < len(batches):
            partition.write(kept)
            partition.acknowledge()
            for suffix in (".snapshot", ".timeindex", ".txnindex"):
                for beside in partition.path.glob(f"*{suffix}"):
                    beside.unlink()
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
    """A transaction that is under way hours after its timeout, by the clock of its own coordinator."""
    log = coordinators(root)
    last = parse_batch(memoryview(bytes(log.read()[-1])))
    (record,) = iterate_records(last)
    hours = 3 * 3_600_000
    count = len(list(log.root.glob("__transaction_state-*")))
    partition = int(log.name.rpartition("-")[2])
    name = next(f"other-{n}" for n in range(99) if partition_for(f"other-{n}", count) == partition)
    value = TransactionLogValue(
        producer_id=5,
        transaction_timeout_ms=60_000,
        transaction_last_update_timestamp_ms=record.timestamp + hours,
        transaction_start_timestamp_ms=-1,
    )
    key = encode_key(TransactionLogKey(transactional_id=name))
    log.append(build_batch([Record(key=key, value=encode_value(value, 1), timestamp=record.timestamp + hours)]))


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
each(
    TRANSACTIONS,
    STOPPED,
    "undecided-marker",
    {
        "a whole transaction that no coordinator began": partial(begun_by_nobody, bumped=1),
        "a whole transaction of a producer that no coordinator knows": partial(begun_by_nobody, bumped=1, producer=900),
        "the same below level 2": partial(begun_by_nobody, bumped=0, producer=900),
    },
)
each(
    TRANSACTIONS,
    LEVEL_1,
    "undecided-marker",
    {
        "a whole transaction of an epoch that no coordinator began, at level 0": partial(
            begun_by_nobody, bumped=0, later=1
        ),
        "a whole transaction too many of an epoch, at level 0": partial(begun_by_nobody, bumped=0),
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

KINDS = (TRANSACTIONS, PRODUCERS)
