"""The rules of `log_checks` over one producer's batches in one partition, piece by piece: what a producer has written
may be more than memory holds.

Each rule carries a few batches from one piece to the next: those without which it would judge the next ones otherwise.
What it says of the carried ones it has said before. All pieces together give what one frame of all batches gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from odradek_pipeline.logs.headers import CONTROL, TRANSACTIONAL
from odradek_pipeline.transactions.checks import (
    BREAK_COLUMNS,
    SEQUENCE_COLUMNS,
    TXN_COLUMNS,
    epoch_breaks,
    mixed_breaks,
    mixed_rows,
    number_breaks,
    runs_of,
    sequenced,
    sequences,
    tabled,
    transaction_rows,
    typed,
)
from odradek_pipeline.transactions.sidecar_checks import producer_states

__all__ = ["ProducerPieces"]

_KNOWN = "known"
"""Whether a row was in an earlier piece."""


def _joined(carried: pd.DataFrame | None, rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.assign(**{_KNOWN: False})
    return rows if carried is None else pd.concat([carried.assign(**{_KNOWN: True}), rows], ignore_index=True)


@dataclass(slots=True)
class ProducerPieces:
    """One producer; `upto` are the offsets of the snapshots of its partition."""

    upto: Sequence[int] = ()
    _txns: _Transactions = field(default_factory=lambda: _Transactions())
    _numbers: pd.DataFrame | None = None
    """Of each epoch the batch with the highest sequence and the last one."""
    _plain: pd.DataFrame | None = None
    """Outside of transactions, the batch with the highest epoch and the last one."""
    _mixed: pd.DataFrame | None = None
    """The last batch of those that say whether they are of a transaction."""
    _sequences: pd.DataFrame | None = None
    _around: pd.DataFrame | None = None
    """The last data, the last marker, and the first batch of the open transaction."""
    _states: dict[int, pd.DataFrame] = field(default_factory=dict)

    def add(self, piece: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The next batches, in the order of the log: transactions that nothing can be added to, and breaks."""
        self._add_sequences(piece)
        self._add_states(piece)
        return self._txns.add(piece), self._breaks(piece)

    def finish(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The last transactions, and the sequences of all epochs."""
        found = self._sequences if self._sequences is not None else pd.DataFrame()
        return self._txns.finish(), typed(found, SEQUENCE_COLUMNS)

    def carried(self) -> int:
        """How many rows it holds."""
        held = (
            self._numbers,
            self._plain,
            self._mixed,
            self._sequences,
            self._around,
            self._txns.rows,
            *self._states.values(),
        )
        return sum(len(rows) for rows in held if rows is not None)

    def states(self) -> pd.DataFrame:
        """What a broker knew of the producer at each of the wanted offsets, as `producer_states` has it."""
        rows = [self._states[at] for at in sorted(self._states)]
        if not rows:
            return producer_states(pd.DataFrame(columns=list(_OF_STATES)).astype(_OF_STATES))
        return pd.concat(rows, ignore_index=True).sort_values("before", kind="stable", ignore_index=True)

    # ------------------------------------------------------------------ sequences

    def _add_sequences(self, piece: pd.DataFrame) -> None:
        here = sequences(piece)
        if here.empty:
            return
        if self._sequences is None:
            self._sequences = here
            return
        both = pd.concat([self._sequences, here], ignore_index=True)
        of = both.groupby(["topic", "partition", "producer_id", "epoch"], sort=False)
        firsts, lasts = ("first_sequence", "first_offset"), ("last_sequence", "last_offset")
        ways = dict.fromkeys(firsts, "first") | dict.fromkeys(lasts, "last") | {"batches": "sum", "records": "sum"}
        self._sequences = of.agg(ways).reset_index()

    def _breaks(self, piece: pd.DataFrame) -> pd.DataFrame:
        rows = sequenced(_joined(self._numbers, piece))
        if rows.empty:
            return typed(rows, BREAK_COLUMNS)
        found = [number_breaks(rows)]
        self._numbers = _ends_of_epochs(rows)
        plain = _joined(self._plain, piece)
        plain = sequenced(plain[(plain["attributes"] & TRANSACTIONAL) == 0])
        if len(plain):
            found.append(epoch_breaks(plain))
            ordered = plain.sort_values(["segment", "position"], kind="stable")
            kept = {int(ordered["producer_epoch"].idxmax()), int(ordered.index[-1])}
            self._plain = ordered.loc[ordered.index.isin(kept)]
        told = pd.concat(found, ignore_index=True)
        told = told[~told[_KNOWN].astype(bool)]
        return typed(pd.concat([told, self._mixed_breaks(piece)], ignore_index=True), BREAK_COLUMNS)

    def _mixed_breaks(self, piece: pd.DataFrame) -> pd.DataFrame:
        """The carried batch may be found by what follows it, if nothing was wrong with it by what came before."""
        rows = mixed_rows(_joined(self._mixed, piece))
        if rows.empty:
            return rows
        found = mixed_breaks(rows)
        told = self._mixed["told"].astype(bool).any() if self._mixed is not None else False
        self._mixed = rows.iloc[-1:].assign(told=rows.index[-1] in found.index or (len(rows) == 1 and told))
        return found[~(found[_KNOWN].astype(bool) & told)]

    # ------------------------------------------------------------------ states

    def _add_states(self, piece: pd.DataFrame) -> None:
        if not len(self.upto):
            return
        rows = _joined(self._around, piece)
        data = (rows["attributes"] & CONTROL) == 0
        rows = rows[data | (rows["marker_type"] >= 0)]
        if rows.empty:
            return
        states = producer_states(rows)
        new = int(rows.loc[~rows[_KNOWN], "last_offset"].min() if (~rows[_KNOWN]).any() else 1 << 62) + 1
        before = states["before"].to_numpy()
        for offset, at in zip(self.upto, np.searchsorted(before, self.upto, "right") - 1, strict=True):
            if at >= 0 and before[at] >= new:
                known = self._states.get(offset)
                if known is None or int(known["before"].iloc[0]) <= before[at]:
                    self._states[offset] = states.iloc[[at]]
        self._around = _around(rows.reset_index(drop=True))


_OF_STATES = {
    "topic": "object",
    "partition": "i4",
    "producer_id": "i8",
    "producer_epoch": "i2",
    "attributes": "i2",
    "marker_type": "i2",
    "base_offset": "i8",
    "last_offset": "i8",
    "last_sequence": "i4",
}


def _ends_of_epochs(rows: pd.DataFrame) -> pd.DataFrame:
    number, unwrapped, _ = runs_of(rows)
    last = pd.Series(unwrapped + (rows["last_offset"] - rows["base_offset"]).to_numpy())
    kept = set(last.groupby(number).idxmax().tolist())
    kept |= set(np.flatnonzero(np.concatenate((number[1:] != number[:-1], [True]))).tolist())
    return rows.iloc[sorted(kept)]


def _around(rows: pd.DataFrame) -> pd.DataFrame:
    data = (rows["attributes"] & CONTROL) == 0
    markers = rows.index[rows["marker_type"] >= 0]
    marker = int(markers[-1]) if len(markers) else -1
    in_txn = rows.index[data & ((rows["attributes"] & TRANSACTIONAL) != 0) & (rows.index > marker)]
    kept = {marker, int(in_txn[0]) if len(in_txn) else -1, int(rows.index[data][-1]) if data.any() else -1} - {-1}
    return rows.loc[sorted(kept)]


@dataclass(slots=True)
class _Transactions:
    """Carries the last transaction, which may go on, and the one before it, which says what came before."""

    rows: pd.DataFrame | None = None
    is_told: bool = False
    """Whether the first of them was handed out."""
    highest: int = -1
    """Coordinator epoch, of the markers that were handed out."""

    def add(self, piece: pd.DataFrame) -> pd.DataFrame:
        rows = self.joined(transaction_rows(piece))
        if rows.empty:
            return typed(rows, TXN_COLUMNS)
        table = tabled(rows)
        last = int(table["txn"].max())
        done = table[(table["txn"] < last) & ~(self.is_told & (table["txn"] == 1))]
        self.carry(rows[rows["txn"] >= last - 1], done)
        self.is_told = last > 1
        return typed(done, TXN_COLUMNS)

    def joined(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows if self.rows is None else pd.concat([self.rows, rows], ignore_index=True)

    def carry(self, rows: pd.DataFrame, done: pd.DataFrame) -> None:
        """The data of a transaction as one row; the marker before has the highest coordinator epoch so far."""
        if len(done):
            self.highest = max(self.highest, int(done["coordinator_epoch"].max()))
        of = rows[~rows["is_marker"]].groupby("txn", sort=False)
        data = rows[~rows["is_marker"]].drop_duplicates("txn").set_index("txn")
        sums = of.agg(
            last_offset=("last_offset", "last"),
            begins=("begins", "min"),
            max_timestamp=("max_timestamp", "max"),
            record_count=("record_count", "sum"),
            size=("size", "sum"),
            weight=("weight", "sum"),
        )
        data[sums.columns] = sums
        markers = rows[rows["is_marker"]].set_index("txn")
        both = pd.concat([data, markers]).sort_values(["segment", "position"], kind="stable").reset_index()
        if both["txn"].nunique() > 1:
            before = both["is_marker"] & (both["txn"] == both["txn"].min())
            both.loc[before, "coordinator_epoch"] = self.highest
        self.rows = both

    def finish(self) -> pd.DataFrame:
        if self.rows is None:
            return pd.DataFrame(columns=list(TXN_COLUMNS)).astype(TXN_COLUMNS)
        table = tabled(self.rows)
        return typed(table[~(self.is_told & (table["txn"] == 1))], TXN_COLUMNS)
