"""The checks of producers on Spark, in a worker that reads their batches in order and never holds all of them.

Rows come sorted: producer by producer, of each what others claim of it, then its batches in the order of the log. Small
producers are checked many at a time, by columns; the batches of a large one piece by piece.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from odradek_pipeline.spark.frames import CHECKED, CHECKED_TABLES, decisions_of, pairs, widened, with_paths
from odradek_pipeline.spark.growing import GrowingTable
from odradek_pipeline.spark.growing import Part as Written
from odradek_pipeline.spark.log_tables import arrow_schema
from odradek_pipeline.transactions.allowed import Explained
from odradek_pipeline.transactions.checks import (
    BATCH_COLUMNS,
    TXN_COLUMNS,
    sequence_breaks,
    sequenced,
    sequences,
    transactions,
)
from odradek_pipeline.transactions.coordinators import NEVER_WHOLE
from odradek_pipeline.transactions.decisions import lacking_markers, surplus, undecided, wrong_outcomes
from odradek_pipeline.transactions.pieces import ProducerPieces
from odradek_pipeline.transactions.sidecar_checks import CLAIM_COLUMNS, Beside, check_claims, producer_states
from odradek_pipeline.transactions.verdicts import suspicious

__all__ = ["OF_BATCHES", "ROWS_PER_PIECE", "Checks", "Part", "parts_of"]

ROWS_PER_PIECE = 100_000
_STAY = frozenset(("path", "jump", "previous_offset", "leader_epoch", "crc"))
"""Columns of batches that are not sent to where they are checked; paths follow from the segments."""
OF_BATCHES = {name: kind for name, kind in BATCH_COLUMNS.items() if name not in _STAY}
_PRODUCER = ("topic", "partition", "producer_id")
_OF_CLAIMS = [
    *("topic", "partition", "producer_id", "epoch", "outcome", "first_offset", "last_offset", "batches"),
    *("marker_offset", "marker_epoch", "marker_timestamp", "marker_path"),
]
"""What is remembered of each transaction of a large producer until all of them are known."""


class Part(NamedTuple):
    """Rows of whole producers (`begins` and `ends`), or a piece of one."""

    rows: pa.Table
    begins: bool = True
    ends: bool = True


def parts_of(stream: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[Part]:
    """A sorted stream in parts of about `rows_max` rows."""
    rest: pa.Table | None = None
    last: pa.Table | None = None
    inside = False
    for table in _tables(stream, rows_max):
        rows = table if rest is None else pa.concat_tables([rest, table])
        rest = None
        changes = _changes(rows, last)
        last = rows[-1:]
        if inside:
            if not len(changes):
                yield Part(rows, begins=False, ends=False)
                continue
            yield Part(rows[: changes[0]], begins=False)
            inside = False
            rows = rows[changes[0] :]
            changes = changes[1:] - changes[0]
        changes = changes[changes > 0]
        if len(changes):
            yield Part(rows[: changes[-1]])
            rows = rows[changes[-1] :]
        if len(rows) >= rows_max:
            yield Part(rows, ends=False)
            inside = True
        else:
            rest = rows
    if inside:
        yield Part(pa.table({}), begins=False)
    elif rest is not None:
        yield Part(rest)


def _tables(stream: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in stream:
        held.append(batch)
        count += len(batch)
        if count >= rows_max:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def _changes(rows: pa.Table, before: pa.Table | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where another producer begins than the row before is of."""
    keys = rows.select(_PRODUCER)
    keys = pa.concat_tables([keys[:1] if before is None else before.select(_PRODUCER), keys])
    changed = np.zeros(len(rows), bool)
    for column in keys.columns:
        changed |= pc.not_equal(column[1:], column[:-1]).to_numpy()
    return np.flatnonzero(changed)


@dataclass(slots=True)
class Checks:
    """What a worker needs to know beside the rows; it is sent to each of them."""

    beside: Beside
    explained: Explained
    directories: Mapping[tuple[str, int], str]
    rows_max: int = ROWS_PER_PIECE
    whole_since: int = NEVER_WHOLE
    """See `Coordinators`."""
    tables: Mapping[str, GrowingTable] = field(default_factory=dict)
    """Where rows of a kind go that are not handed on."""
    parts: dict[str, Written] = field(default_factory=dict)
    """What the task has of these."""

    def __call__(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with contextlib.ExitStack() as stack:
            self.parts = {kind: stack.enter_context(table.part()) for kind, table in self.tables.items()}
            yield from self.checked(stream)

    def checked(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is found in a sorted stream."""
        large: _Large | None = None
        for part in parts_of(stream, self.rows_max):
            if part.begins and part.ends:
                yield from self.check(*self.split(part.rows))
                continue
            if large is None:
                large = _Large(self)
            yield from large.add(part.rows)
            if part.ends:
                yield from large.finish()
                large = None

    def split(self, rows: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Batches and claims."""
        is_batch = rows.column("is_batch")
        batches = rows.filter(is_batch).select(list(OF_BATCHES)).to_pandas().astype(OF_BATCHES)
        claims = rows.filter(pc.invert(is_batch)).rename_columns(
            [name.removeprefix("claim_") for name in rows.column_names]
        )
        return with_paths(batches, self.directories), claims.select(list(CLAIM_COLUMNS)).to_pandas().astype(
            CLAIM_COLUMNS
        )

    def check(self, batches: pd.DataFrame, claims: pd.DataFrame) -> Iterator[pa.RecordBatch]:
        """Whole producers."""
        txns = transactions(batches)
        decisions = decisions_of(claims)
        txns["undecided"] = undecided(decisions, txns)
        txns["surplus"] = surplus(decisions, txns)
        txns["wrong"] = self.wrong(decisions, txns, txns["undecided"])
        level_2 = pairs(claims[claims["source"] == "level_2"])
        numbers = sequenced(batches)
        yield from self.told("sequence", sequences(batches, numbers))
        yield from self.broken(sequence_breaks(batches, numbers))
        yield from self.told("problem", check_claims(lambda: producer_states(batches), txns, claims, self.beside))
        yield from self.told("lacking", self.lacking(decisions, txns))
        yield from self.judged(txns, level_2)

    def lacking(self, decisions: pd.DataFrame, txns: pd.DataFrame) -> pd.DataFrame:
        of = self.beside
        return lacking_markers(decisions, txns, of.starts, of.cleaned, of.created, of.cut)

    def wrong(self, decisions: pd.DataFrame, txns: pd.DataFrame, unanswered: pd.Series[bool]) -> pd.Series[bool]:
        return wrong_outcomes(decisions, txns, unanswered, self.beside.starts, self.beside.cleaned)

    def broken(self, breaks: pd.DataFrame) -> Iterator[pa.RecordBatch]:
        """What is wrong with sequences, and of what compaction explains how much there is."""
        rest, allowed = self.explained.breaks(breaks)
        yield from self.told("break", rest)
        yield from self.told("allowed", allowed)

    def judged(self, txns: pd.DataFrame, level_2: set[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        odd, allowed = self.explained.markers(txns[suspicious(txns, level_2, self.whole_since)])
        yield from self.told("txn", txns)
        yield from self.told("allowed", allowed)
        yield from self.told("odd", odd)
        known = pd.DataFrame(sorted(level_2 & pairs(odd)), columns=["producer_id", "epoch"])
        yield from self.told("level_2", known)

    def told(self, kind: str, table: pd.DataFrame) -> Iterator[pa.RecordBatch]:
        if kind in self.parts and len(table):
            columns, schema = list(CHECKED_TABLES[kind]), self.tables[kind].schema
            self.parts[kind].add(pa.RecordBatch.from_pandas(table[columns], schema=schema, preserve_index=False))
        elif len(table):
            wide = widened(kind, table[list(CHECKED_TABLES[kind])])
            yield pa.RecordBatch.from_pandas(wide, schema=arrow_schema(CHECKED), preserve_index=False)


@dataclass(slots=True)
class _Large:
    """One producer with more rows than a part: its transactions wait on the disk for what is known at its end."""

    checks: Checks
    claims: list[pd.DataFrame] = field(default_factory=list)
    pieces: ProducerPieces = field(default_factory=ProducerPieces)
    narrow: list[pd.DataFrame] = field(default_factory=list)
    file: Any = field(default_factory=lambda: tempfile.TemporaryFile(prefix="odradek-txns-"))  # noqa: SIM115
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    counts: list[int] = field(default_factory=list)

    def add(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        batches, claims = self.checks.split(rows)
        if len(claims):
            self.claims.append(claims)
        if len(batches):
            key = str(batches["topic"].iloc[0]), int(batches["partition"].iloc[0])
            self.pieces.upto = [offset for offset, _ in self.checks.beside.snapshots.get(key, [])]
            txns, breaks = self.pieces.add(batches)
            self.keep(txns)
            yield from self.checks.broken(breaks)

    def keep(self, txns: pd.DataFrame) -> None:
        if not len(txns):
            return
        self.narrow.append(txns[_OF_CLAIMS])
        batch = pa.RecordBatch.from_pandas(txns, preserve_index=False)
        if self.writer is None:
            self.writer = pa.ipc.new_stream(self.file, batch.schema)
        self.writer.write_batch(batch)
        self.counts.append(len(txns))

    def finish(self) -> Iterator[pa.RecordBatch]:
        last, runs = self.pieces.finish()
        self.keep(last)
        checks = self.checks
        claims = pd.concat(self.claims, ignore_index=True) if self.claims else _none(CLAIM_COLUMNS)
        narrow = pd.concat(self.narrow, ignore_index=True) if self.narrow else _none(TXN_COLUMNS)
        decisions = decisions_of(claims)
        unanswered = undecided(decisions, narrow)
        too_many = surplus(decisions, narrow)
        wrong = checks.wrong(decisions, narrow, unanswered)
        level_2 = pairs(claims[claims["source"] == "level_2"])
        yield from checks.told("sequence", runs)
        yield from checks.told("problem", check_claims(self.pieces.states, narrow, claims, checks.beside))
        yield from checks.told("lacking", checks.lacking(decisions, narrow))
        if self.writer is not None:
            self.writer.close()
            self.file.seek(0)
            start = 0
            for batch in pa.ipc.open_stream(self.file):
                txns = batch.to_pandas().astype(TXN_COLUMNS)
                end = start + len(txns)
                txns["undecided"] = unanswered.iloc[start:end].to_numpy()
                txns["surplus"] = too_many.iloc[start:end].to_numpy()
                txns["wrong"] = wrong.iloc[start:end].to_numpy()
                yield from checks.judged(txns, level_2)
                start = end
        self.file.close()


def _none(columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns)).astype(columns)
