"""The rules of transactions and sequences, on frames of batch headers; runs in any process, Spark's included.

A frame holds whole producers: every batch that one producer id has in a partition, in the order of the log. All rules
are computed for all producers at once, by columns.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from odradek_pipeline.logs.scan import COLUMNS, CONTROL, DELETE_HORIZON, TRANSACTIONAL, Chunk

__all__ = [
    "BATCH_COLUMNS",
    "BREAK_COLUMNS",
    "SEQUENCE_COLUMNS",
    "TXN_COLUMNS",
    "batch_frame",
    "epoch_breaks",
    "mixed_breaks",
    "mixed_rows",
    "number_breaks",
    "runs_of",
    "sequence_breaks",
    "sequenced",
    "sequences",
    "split_outcomes",
    "tabled",
    "transaction_rows",
    "transactions",
    "typed",
]

BATCH_COLUMNS: dict[str, str] = {
    "topic": "object",
    "partition": "i4",
    "path": "object",
    "segment": "i8",
    "jump": "?",
    "previous_offset": "i8",
    **COLUMNS,
}
"""A row for each batch; `previous_offset` is the last offset of the batch before it, -1 at the start of a range;
`jump` marks where the two do not fit together, or cannot be compared."""

TXN_COLUMNS: dict[str, str] = {
    "topic": "object",
    "partition": "i4",
    "producer_id": "i8",
    "epoch": "i4",
    "first_offset": "i8",
    "last_offset": "i8",
    "first_timestamp": "i8",
    "last_timestamp": "i8",
    "batches": "i8",
    "records": "i8",
    "bytes": "i8",
    "outcome": "object",
    "marker_offset": "i8",
    "marker_epoch": "i4",
    "marker_timestamp": "i8",
    "coordinator_epoch": "i4",
    "previous_epoch": "i4",
    "previous_marker": "i4",
    "previous_marker_epoch": "i4",
    "coordinator_epoch_before": "i4",
    "previous_offset": "i8",
    "next_offset": "i8",
    "lowest_epoch_step": "i4",
    "undecided": "?",
    "surplus": "?",
    "wrong": "?",
    "path": "object",
    "position": "i8",
    "marker_path": "object",
    "marker_position": "i8",
}
"""A row for each transaction in each partition; outcome is commit, abort, open, or dropped: no marker came before the
producer went on in another epoch. `undecided`: no decision of a coordinator is there for its marker; `surplus`:
more markers of its partition, producer, epoch and outcome end data than were decided; `wrong`: the decision was the
opposite."""

BREAK_COLUMNS: dict[str, str] = {
    "anomaly": "object",
    "topic": "object",
    "partition": "i4",
    "producer_id": "i8",
    "epoch": "i4",
    "offset": "i8",
    "previous_offset": "i8",
    "found": "i8",
    "expected": "i8",
    "transactional": "?",
    "earlier_epoch": "?",
    "path": "object",
    "position": "i8",
}

SEQUENCE_COLUMNS: dict[str, str] = {
    "topic": "object",
    "partition": "i4",
    "producer_id": "i8",
    "epoch": "i4",
    "first_sequence": "i8",
    "last_sequence": "i8",
    "first_offset": "i8",
    "last_offset": "i8",
    "batches": "i8",
    "records": "i8",
}

_PRODUCER = ["topic", "partition", "producer_id"]
_ORDER = [*_PRODUCER, "segment", "position"]
_ABORT, _COMMIT = 0, 1
_ZERO_IF_EMPTY = frozenset(("records", "bytes", "lowest_epoch_step"))


def batch_frame(chunk: Chunk) -> pd.DataFrame:
    """The headers of a chunk as a frame."""
    columns = chunk.columns
    previous = np.full(len(chunk), -1, np.int64)
    previous[1:] = columns["last_offset"][:-1]
    frame = pd.DataFrame(columns)
    frame.insert(0, "topic", chunk.file.topic)
    frame.insert(1, "partition", np.int32(chunk.file.partition))
    frame.insert(2, "path", chunk.file.path)
    frame.insert(3, "segment", chunk.file.base_offset)
    frame.insert(4, "jump", columns["base_offset"] != previous + 1)
    frame.insert(5, "previous_offset", previous)
    frame.loc[0, "jump"] = True
    return frame


def typed(frame: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    """These columns, with their types."""
    return frame.reindex(columns=list(columns)).astype(columns)


def _ordered(frame: pd.DataFrame, kept: pd.Series[bool] | NDArray[np.bool_]) -> pd.DataFrame:
    """These rows, producer by producer, in the order of the log; `who` is the number of the producer."""
    rows = _sorted(frame[kept], _ORDER)
    rows["who"] = _numbered(rows, _PRODUCER)
    return rows


def _sorted(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """By these columns; rows that are in order already, as those of one log are, are only numbered anew."""
    keys = [
        pd.factorize(rows[name], sort=True)[0] if rows[name].dtype == object else rows[name].to_numpy()
        for name in names
    ]
    order = np.lexsort(keys[::-1])
    rows = rows if (order == np.arange(len(rows))).all() else rows.take(order)
    return rows.reset_index(drop=True)


def _numbered(rows: pd.DataFrame, names: list[str]) -> NDArray[np.int64]:
    """A number for each run of rows that are alike in these columns."""
    begins = np.zeros(len(rows), bool)
    for name in names:
        values = rows[name].to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    return np.cumsum(begins)


# ---------------------------------------------------------------------- sequences


def sequenced(frame: pd.DataFrame) -> pd.DataFrame:
    """The batches that have sequence numbers, epoch by epoch; `earlier_epoch` is false for a producer's first."""
    numbered = (frame["producer_id"] >= 0) & (frame["base_sequence"] >= 0) & ((frame["attributes"] & CONTROL) == 0)
    # A group coordinator writes offsets in a producer's name, always with sequence 0.
    rows = _ordered(frame, numbered & (frame["topic"] != "__consumer_offsets"))
    rows["earlier_epoch"] = rows.duplicated("who")
    return _sorted(rows, ["who", "producer_epoch", "segment", "position"])


def sequence_breaks(frame: pd.DataFrame, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """Where a producer's sequence numbers do not follow each other within an epoch (KIP-98); each begins at 0.
    `rows` are those of `sequenced`, where they are there already."""
    rows = sequenced(frame) if rows is None else rows
    if rows.empty:
        return typed(rows, BREAK_COLUMNS)
    found = [number_breaks(rows), epoch_breaks(rows), mixed_breaks(mixed_rows(frame))]
    return typed(pd.concat(found, ignore_index=True), BREAK_COLUMNS)


def runs_of(rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each row the number of its producer epoch, its sequence counted on from the first there, and the place of
    that first; 0 follows 2147483647, so steps are taken modulo 2^31, into -2^30 … 2^30, and added up again."""
    number = _numbered(rows, [*_PRODUCER, "producer_epoch"])
    first = np.concatenate(([True], number[1:] != number[:-1]))
    step = np.diff(rows["base_sequence"].to_numpy(np.int64), prepend=0)
    step = (step + (1 << 30)) % (1 << 31) - (1 << 30)
    step[first] = 0
    total = np.cumsum(step)
    begins = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    return number, total - total[begins], begins


def number_breaks(rows: pd.DataFrame) -> pd.DataFrame:
    """Gaps and repetitions among rows of `sequenced`."""
    number, unwrapped, begins = runs_of(rows)
    first = begins == np.arange(len(rows))
    base = rows["base_sequence"].to_numpy(np.int64)
    last = pd.Series(unwrapped + (rows["last_offset"] - rows["base_offset"]).to_numpy())
    highest = last.groupby(number).cummax().groupby(number).shift().to_numpy()
    with np.errstate(invalid="ignore"):
        kinds = np.select(
            [first & (base != 0), ~first & (unwrapped > highest + 1), ~first & (unwrapped < highest + 1)],
            ["seq-first-not-zero", "seq-gap", "seq-duplicate"],
            "",
        )
    expected = np.where(first, 0, (base[begins] + np.nan_to_num(highest) + 1) % (1 << 31)).astype(np.int64)
    before = rows["last_offset"].shift(fill_value=-1).where(~first, -1)
    found = rows.assign(
        anomaly=kinds,
        epoch=rows["producer_epoch"],
        offset=rows["base_offset"],
        found=base,
        expected=expected,
        transactional=(rows["attributes"] & TRANSACTIONAL) != 0,
        previous_offset=before,
    )
    return found[kinds != ""]


def epoch_breaks(rows: pd.DataFrame) -> pd.DataFrame:
    """Batches of an epoch below one that an idempotent producer had before; for transactions: `lowest_epoch_step`."""
    plain = rows[(rows["attributes"] & TRANSACTIONAL) == 0].sort_values(_ORDER, kind="stable", ignore_index=True)
    highest = plain.groupby(_PRODUCER, sort=False)["producer_epoch"].cummax()
    before = plain.groupby(_PRODUCER, sort=False)["producer_epoch"].shift()
    back = (plain["producer_epoch"] < highest) & (plain["producer_epoch"] != before)
    return plain.assign(
        anomaly="producer-epoch-regression",
        epoch=plain["producer_epoch"],
        offset=plain["base_offset"],
        found=plain["producer_epoch"],
        expected=highest,
        transactional=False,
        previous_offset=plain.groupby(_PRODUCER, sort=False)["last_offset"].shift(fill_value=-1),
    )[back]


def mixed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """What a producer's batches say of transactions, in the order of the log: those with sequences, and markers."""
    numbered = (frame["base_sequence"] >= 0) & ((frame["attributes"] & CONTROL) == 0)
    of_producer = (frame["producer_id"] >= 0) & (frame["topic"] != "__consumer_offsets")
    return _ordered(frame, of_producer & (numbered | (frame["marker_type"] >= 0)))


def mixed_breaks(rows: pd.DataFrame) -> pd.DataFrame:
    """Batches that say they are of no transaction, of a producer that has some: its id was given out to a
    transactional id, and whoever has one sends nothing else (KIP-98)."""
    inside = (rows["attributes"] & TRANSACTIONAL) != 0
    of = _numbered(rows, _PRODUCER)
    before = inside.groupby(of, sort=False).shift(fill_value=False)
    after = inside.groupby(of, sort=False).shift(-1, fill_value=False)
    mixed = ~inside & (before | after)
    return rows.assign(
        anomaly="txn-mixed",
        epoch=rows["producer_epoch"],
        offset=rows["base_offset"],
        found=0,
        expected=1,
        transactional=False,
        earlier_epoch=False,
        previous_offset=rows["base_offset"] - 1,
    )[mixed]


def sequences(frame: pd.DataFrame, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """The sequence numbers of each producer epoch in each partition; for `rows` see `sequence_breaks`."""
    rows = (sequenced(frame) if rows is None else rows).rename(columns={"producer_epoch": "epoch"})
    grouped = rows.groupby([*_PRODUCER, "epoch"], sort=False)
    table = grouped.agg(
        first_sequence=("base_sequence", "first"),
        last_sequence=("last_sequence", "last"),
        first_offset=("base_offset", "first"),
        last_offset=("last_offset", "last"),
        batches=("base_offset", "size"),
        records=("record_count", "sum"),
    )
    return typed(table.reset_index(), SEQUENCE_COLUMNS)


# ---------------------------------------------------------------------- transactions


def transactions(frame: pd.DataFrame) -> pd.DataFrame:
    """Every transaction of every producer in every partition: its data up to the marker that ends it."""
    rows = transaction_rows(frame)
    return typed(rows if rows.empty else tabled(rows), TXN_COLUMNS)


def transaction_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The batches that transactions are made of, in their order; `weight` says how many batches a row stands for."""
    marker = frame["marker_type"] >= 0
    # The cleaner keeps a producer's last batch without its records, longer than the marker behind it.
    data = (
        ((frame["attributes"] & TRANSACTIONAL) != 0)
        & ((frame["attributes"] & CONTROL) == 0)
        & (frame["record_count"] > 0)
    )
    rows = _ordered(frame, (frame["producer_id"] >= 0) & (marker | data))
    rows["is_marker"] = rows["marker_type"] >= 0
    rows["begins"] = rows["base_timestamp"].where((rows["attributes"] & DELETE_HORIZON) == 0, rows["max_timestamp"])
    rows["weight"] = 1
    return rows


def tabled(rows: pd.DataFrame) -> pd.DataFrame:
    """The transactions of these rows, with their numbers (`txn`), which the rows are given too."""
    _number(rows)
    keys = [*_PRODUCER, "txn"]
    table = _data_side(rows, keys).join(_marker_side(rows, keys), how="outer").reset_index()
    table = table.sort_values(keys, kind="stable", ignore_index=True)
    _fill(table)
    return table


def _number(rows: pd.DataFrame) -> None:
    """Number the transactions of each producer: one begins behind a marker, or where data goes on in another epoch."""
    who = _numbered(rows, _PRODUCER)
    producer = rows.groupby(who, sort=False)
    before = producer["is_marker"].shift(fill_value=True)
    earlier_epoch = producer["producer_epoch"].shift(fill_value=-1)
    rows["step"] = (rows["producer_epoch"] - earlier_epoch).where(earlier_epoch >= 0, 0)
    rows["row_before"] = producer["last_offset"].shift(fill_value=-1)
    switched = ~rows["is_marker"] & ~before & (rows["producer_epoch"] != earlier_epoch)
    rows["txn"] = (before | switched).groupby(who, sort=False).cumsum()


def _data_side(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return (
        rows[~rows["is_marker"]]
        .groupby(keys, sort=False)
        .agg(
            epoch=("producer_epoch", "last"),
            first_offset=("base_offset", "first"),
            last_offset=("last_offset", "last"),
            first_timestamp=("begins", "min"),
            last_timestamp=("max_timestamp", "max"),
            batches=("weight", "sum"),
            records=("record_count", "sum"),
            bytes=("size", "sum"),
            path=("path", "first"),
            position=("position", "first"),
            data_step=("step", "min"),
            before_data=("row_before", "first"),
        )
    )


def _marker_side(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    markers = rows[rows["is_marker"]].set_index(keys)
    names = {
        "base_offset": "marker_offset",
        "producer_epoch": "marker_epoch",
        "max_timestamp": "marker_timestamp",
        "coordinator_epoch": "coordinator_epoch",
        "marker_type": "marker_type",
        "path": "marker_path",
        "position": "marker_position",
        "step": "marker_step",
        "row_before": "before_marker",
    }
    return markers[list(names)].rename(columns=names)


def _fill(table: pd.DataFrame) -> None:
    producer = table.groupby(_PRODUCER, sort=False)
    table["batches"] = table["batches"].fillna(0)
    follows = producer["batches"].shift(-1).notna()
    table["outcome"] = np.select(
        [table["marker_type"] == _COMMIT, table["marker_type"] == _ABORT, follows],
        ["commit", "abort", "dropped"],
        "open",
    )
    table["previous_marker"] = producer["marker_type"].shift()
    table["previous_marker_epoch"] = producer["marker_epoch"].shift()
    # The highest so far, of markers before this one.
    highest = table["coordinator_epoch"].groupby([table[key] for key in _PRODUCER], sort=False).cummax()
    table["coordinator_epoch_before"] = highest.groupby([table[key] for key in _PRODUCER], sort=False).shift()
    table["previous_epoch"] = producer["epoch"].shift()
    table["previous_offset"] = table["before_data"].fillna(table["before_marker"])
    table["lowest_epoch_step"] = table[["data_step", "marker_step"]].min(axis=1)
    next_first = producer["first_offset"].shift(-1)
    table["next_offset"] = next_first.fillna(producer["marker_offset"].shift(-1))
    for column, kind in TXN_COLUMNS.items():
        if column not in table:
            table[column] = False
        empty = "" if kind == "object" else 0 if column in _ZERO_IF_EMPTY else -1
        table[column] = table[column].fillna(empty)


def split_outcomes(txns: pd.DataFrame) -> pd.DataFrame:
    """Transactions that were committed in one partition and aborted in another.

    At level 2 every transaction has an epoch of its own, and its markers the next one: the same producer and epoch of
    markers are the same transaction (KIP-890).
    """
    bumped = txns[(txns["marker_offset"] >= 0) & (txns["batches"] > 0) & (txns["marker_epoch"] == txns["epoch"] + 1)]
    both = bumped.groupby(["producer_id", "marker_epoch"])["outcome"].transform("nunique") > 1
    return bumped[both]
