"""What must be there once, on Spark: one outcome of a transaction, one transactional id of a producer id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import IntegerType

from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.spark.growing import GrowingTable
from odradek_pipeline.transactions.checks import TXN_COLUMNS, split_outcomes
from odradek_pipeline.transactions.coordinators import shared
from odradek_pipeline.transactions.steps import Told

__all__ = ["Twice", "look_twice", "of_producers", "shared_of", "split_of"]


@dataclass(slots=True)
class Twice:
    """Transactions with both outcomes, by producer and epoch of the marker; producer ids of several ids."""

    outcomes: list[tuple[int, int]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)


def look_twice(txns: DataFrame, facts: DataFrame | None) -> Twice:
    """What is there twice and must not be: looked for at once, and nearly never found."""
    of_txns = _bumped(txns).groupBy("producer_id", "marker_epoch")
    names = [F.col("producer_id"), F.col("marker_epoch")]
    both = of_txns.agg(F.min("outcome").alias("one"), F.max("outcome").alias("other")).select(*names, "one", "other")
    if facts is not None:
        of_facts = facts.where(F.col("fact") == "last").groupBy(F.col("of_producer").alias("producer_id"))
        ids = of_facts.agg(F.min("transactional_id").alias("one"), F.max("transactional_id").alias("other"))
        both = both.unionByName(
            ids.select("producer_id", F.lit(None).cast(IntegerType()).alias("marker_epoch"), "one", "other")
        )
    found = Twice()
    for row in both.where(F.col("one") != F.col("other")).select(*names).collect():
        if row["marker_epoch"] is None:
            found.ids.append(row["producer_id"])
        else:
            found.outcomes.append((row["producer_id"], row["marker_epoch"]))
    return found


def split_of(txns: GrowingTable, twice: Twice) -> pd.DataFrame:
    """The transactions with both outcomes: see `split_outcomes`, which looks at what this leaves."""
    if not twice.outcomes:
        return pd.DataFrame(columns=list(TXN_COLUMNS)).astype(TXN_COLUMNS)
    return split_outcomes(of_producers(txns, twice.outcomes))


def of_producers(txns: GrowingTable, wanted: Iterable[tuple[int, int]]) -> pd.DataFrame:
    """The transactions of these producers whose markers have these epochs."""
    pairs = set(wanted)
    some = txns.frames(where=pc.field("producer_id").isin(sorted({producer_id for producer_id, _ in pairs})))
    frames = [frame.astype(TXN_COLUMNS) for frame in some]
    rows = (
        pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(TXN_COLUMNS)).astype(TXN_COLUMNS)
    )
    there = [pair in pairs for pair in zip(rows["producer_id"].tolist(), rows["marker_epoch"].tolist(), strict=True)]
    return rows[np.array(there, bool)].reset_index(drop=True)


def shared_of(records: Iterable[tuple[int, TransactionRecord]], twice: Twice) -> list[Told]:
    """Producer ids of several transactional ids, which were folded in different places: `records` are the last ones of
    producers."""
    held: dict[int, list[TransactionRecord]] = {}
    for producer_id, record in records:
        if producer_id in twice.ids:
            held.setdefault(producer_id, []).append(record)
    return [shared(producer_id, one, other) for producer_id, of in sorted(held.items()) for one, other in pairwise(of)]


def _bumped(txns: DataFrame) -> DataFrame:
    ended = (F.col("marker_offset") >= 0) & (F.col("batches") > 0)
    return txns.where(ended & (F.col("marker_epoch") == F.col("epoch") + 1))
