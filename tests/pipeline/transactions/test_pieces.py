"""One producer's batches, cut anywhere: the rules say what they say of all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.planting import drop, is_data, is_marker, repeat

from odradek_pipeline.jobs.audit_logs import ends_of, read_batches
from odradek_pipeline.logs.headers import CONTROL, TRANSACTIONAL
from odradek_pipeline.logs.layout import FileKind, Problem, Tree, find_files
from odradek_pipeline.logs.payload import transaction_log
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import ABORTED, read_sidecars
from odradek_pipeline.spark.producer_checks import OF_BATCHES, Checks, parts_of
from odradek_pipeline.transactions.allowed import Explained
from odradek_pipeline.transactions.checks import BATCH_COLUMNS, TXN_COLUMNS, sequence_breaks, sequences, transactions
from odradek_pipeline.transactions.coordinators import Coordinators
from odradek_pipeline.transactions.decisions import decision_frame
from odradek_pipeline.transactions.pieces import ProducerPieces
from odradek_pipeline.transactions.sidecar_checks import CLAIM_COLUMNS, Beside, claims_of, producer_states

STEPS = ("data", "data", "data", "plain", "commit", "abort", "bump", "back", "skip", "again", "empty", "other", "gap")


def written(steps: list[tuple[str, int]]) -> pd.DataFrame:
    """The batches of one producer that does these steps, many of which no producer should do."""
    rows: list[dict[str, Any]] = []
    epoch = sequence = offset = 0
    for number, (step, dice) in enumerate(steps):
        row: dict[str, Any] = dict.fromkeys(BATCH_COLUMNS, 0) | {
            "topic": "t",
            "partition": 0,
            "path": "t-0/0.log",
            "producer_id": 7,
        }
        row |= {"segment": number // 5 * 1000, "position": number * 100, "size": 80, "marker_type": -1}
        row |= {"base_timestamp": dice, "max_timestamp": dice + number, "base_offset": offset, "last_offset": offset}
        row |= {"producer_epoch": epoch, "coordinator_epoch": -1, "base_sequence": -1, "last_sequence": -1}
        match step:
            case "commit" | "abort":
                row |= {"attributes": CONTROL | TRANSACTIONAL, "marker_type": int(step == "commit"), "record_count": 1}
                row |= {"coordinator_epoch": dice % 4, "producer_epoch": epoch + dice % 2}
                epoch, sequence = epoch + dice % 2, 0 if dice % 2 else sequence
            case "bump" | "back" | "skip" | "other":
                epoch = max(0, epoch + (1 if step == "bump" else -1 if step == "back" else 0))
                sequence = 0 if step == "bump" else sequence + (5 if step == "skip" else 0)
                offset += 3 if step == "other" else 0
                continue
            case _:
                count = dice % 3 + 1
                sequence -= count if step == "again" else 0
                sequence += (1 << 29) if step == "gap" else 0
                row |= {"attributes": 0 if step == "plain" else TRANSACTIONAL, "last_offset": offset + count - 1}
                row |= {"base_sequence": sequence % (1 << 31), "last_sequence": (sequence + count - 1) % (1 << 31)}
                row |= {"record_count": 0 if step == "empty" else count}
                sequence += count
        offset = row["last_offset"] + 1
        rows.append(row)
    return pd.DataFrame(rows, columns=list(BATCH_COLUMNS)).astype(BATCH_COLUMNS)


def in_pieces(frame: pd.DataFrame, cuts: list[int], upto: list[int]) -> dict[str, pd.DataFrame]:
    pieces = ProducerPieces(upto)
    edges = [0, *sorted(cut % (len(frame) + 1) for cut in cuts), len(frame)]
    found = [pieces.add(frame.iloc[low:high]) for low, high in pairwise(edges)]
    last, runs = pieces.finish()
    return {
        "txns": pd.concat([*(txns for txns, _ in found), last], ignore_index=True).astype(TXN_COLUMNS),
        "breaks": pd.concat([breaks for _, breaks in found], ignore_index=True),
        "sequences": runs,
        "states": pieces.states(),
    }


def rows(frame: pd.DataFrame, *keys: str) -> list[dict[Any, Any]]:
    return frame.sort_values(list(keys), kind="stable").to_dict("records")


steps_strategy = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 50)), max_size=30)


@settings(max_examples=25, deadline=None)
@given(steps=steps_strategy, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_any_cut(steps: list[tuple[str, int]], cuts: list[int]) -> None:
    frame = written(steps)
    end = int(frame["last_offset"].max()) + 2 if len(frame) else 2
    upto = list(range(0, end, 3))
    cut = in_pieces(frame, cuts, upto)
    assert rows(transactions(frame), "marker_position", "position") == rows(cut["txns"], "marker_position", "position")
    assert rows(sequence_breaks(frame), "offset", "anomaly") == rows(cut["breaks"], "offset", "anomaly")
    assert rows(sequences(frame), "epoch") == rows(cut["sequences"], "epoch")
    if not len(frame):
        return
    asked = pd.DataFrame({"upto": upto})
    whole = pd.merge_asof(asked, producer_states(frame), left_on="upto", right_on="before").dropna(subset="before")
    pieced = pd.merge_asof(asked, cut["states"], left_on="upto", right_on="before").dropna(subset="before")
    names = ["upto", "state_epoch", "state_data", "state_sequence", "state_open"]
    assert whole[names].fillna(-1).to_dict("records") == pieced[names].fillna(-1).to_dict("records")


def test_what_is_carried_does_not_grow() -> None:
    """A transaction of many batches, and many transactions of one epoch."""
    one = written([("data", 0)] * 70)
    many = written([("data", 0), ("plain", 0), ("commit", 0)] * 25)
    for frame in (one, many):
        pieces = ProducerPieces([5, 100])
        for start in range(0, len(frame), 7):
            pieces.add(frame.iloc[start : start + 7])
            assert pieces.carried() <= 16


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 12), max_size=12), of=st.integers(1, 7), rows_max=st.integers(1, 9))
def test_producers_are_told_apart(sizes: list[int], of: int, rows_max: int) -> None:
    """However the rows come, each part has whole producers, or a piece of one."""
    ids = [number for number, size in enumerate(sizes) for _ in range(size)]
    table = pa.table({"topic": ["t"] * len(ids), "partition": [0] * len(ids), "producer_id": pa.array(ids, pa.int64())})
    seen: list[int] = []
    large: list[int] | None = None
    for part in parts_of(iter(table.to_batches(of)), rows_max):
        here = part.rows.column("producer_id").to_pylist() if part.rows.num_columns else []
        assert len(here) < rows_max + of + 12
        seen += here
        if part.begins and part.ends:
            assert large is None
            assert all(here.count(one) == sizes[one] for one in here)
            continue
        large = here if part.begins else (large or []) + here
        if part.ends:
            assert len(set(large)) == 1
            assert len(large) == sizes[large[0]]
            large = None
    assert ids == seen
    assert large is None


def claimed(directory: Path) -> tuple[Tree, pd.DataFrame, pd.DataFrame, list[Problem]]:
    """Batches, and what others claim of their producers."""
    tree, scan = find_files([directory]), Scan()
    batches = read_batches(tree.files, scan)
    problems: list[Problem] = []
    claims = claims_of(read_sidecars(tree.files), problems)
    coordinators = Coordinators.fold(transaction_log(tree.files, scan), known=True, now=0)
    decisions = decision_frame(coordinators.decisions, coordinators.complete)
    told = decisions.assign(source="decision", upto=decisions["completed"], first_offset=decisions["offset"])
    told = told.assign(last_offset=told["timestamp"], last_sequence=told["commit"].astype("i8"))
    begun = [
        (topic, partition, record.path, record.position, "level_2", 0, producer, epoch, 0, 0, 0, "")
        for (producer, epoch), record in coordinators.begun_at_level_2.items()
        for topic, partition in record.partitions
    ]
    of_level_2 = pd.DataFrame(begun, columns=list(CLAIM_COLUMNS))
    every = pd.concat([claims, told[list(CLAIM_COLUMNS)], of_level_2], ignore_index=True).astype(CLAIM_COLUMNS)
    return tree, batches, every, problems


@pytest.mark.parametrize("name", ["tv1", "hang"])
def test_large_producers_are_checked_as_small_ones(recorded: Callable[[str], Path], name: str) -> None:
    """With damage of every kind, in parts of 8 rows, as in one."""
    directory = recorded(name)
    drop(directory, "orders-1", is_marker, 1)
    repeat(directory, "orders-1", is_data, -1)
    drop(directory, "orders-2", is_data, 1)
    for index in (directory / "orders-0").glob("*.txnindex"):
        index.write_bytes(index.read_bytes()[ABORTED.itemsize :])
    tree, batches, claims, problems = claimed(directory)
    batches = batches[batches["producer_id"] >= 0]
    ours = batches[list(OF_BATCHES)].assign(is_batch=True)
    theirs = claims.rename(columns={column: f"claim_{column}" for column in CLAIM_COLUMNS if column not in OF_BATCHES})
    both = pd.concat([theirs.assign(is_batch=False), ours], ignore_index=True)
    both = both.sort_values(["topic", "partition", "producer_id", "is_batch", "segment", "position"], kind="stable")
    filled = both.fillna({column: "" if both[column].dtype == object else -1 for column in both.columns})
    table = pa.Table.from_pandas(filled.convert_dtypes(dtype_backend="pyarrow"), preserve_index=False)
    beside = Beside.of(tree, ends_of(batches), problems, {})
    directories = {(file.topic, file.partition): str(Path(file.path).parent) for file in tree.of(FileKind.SEGMENT)}
    found = []
    for rows_max in (8, 1_000_000):
        checks = Checks(beside, Explained({}, {}), directories, rows_max)
        told = pd.concat([batch.to_pandas() for batch in checks(iter(table.to_batches(5)))], ignore_index=True)
        found.append(sorted(told.to_dict("records"), key=repr))
    small, whole = ([row for row in rows if row["kind"] != "problem"] for rows in found)
    assert whole == small
    assert {"txn", "sequence", "break", "odd"} <= {row["kind"] for row in whole}
    disagreements = [{(row["path"], row["problem"]) for row in rows if row["kind"] == "problem"} for rows in found]
    assert disagreements[0] == disagreements[1]
