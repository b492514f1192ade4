"""The rules of sequences on frames in which producers write in turns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from odradek_pipeline.transactions.checks import BATCH_COLUMNS, sequence_breaks, sequenced, sequences


def in_turns(*, lost: bool = False) -> pd.DataFrame:
    """Two producers of one epoch, batch by batch in turns, in two partitions; one batch of a producer may be lost."""
    rows = [
        {"partition": partition, "producer_id": producer, "base_sequence": number, "offset": 2 * number + producer}
        for partition in (1, 0)
        for number in range(4)
        for producer in (0, 1)
        if not (lost and (partition, producer, number) == (0, 1, 2))
    ]
    frame = pd.DataFrame(rows).assign(topic="t", path="/t", segment=0, record_count=1, marker_type=-1)
    frame["base_offset"] = frame["last_offset"] = frame["position"] = frame.pop("offset")
    frame["last_sequence"] = frame["base_sequence"]
    empty = {name: np.zeros(len(frame), kind) for name, kind in BATCH_COLUMNS.items() if name not in frame}
    return frame.assign(**empty)[list(BATCH_COLUMNS)].astype(BATCH_COLUMNS)


def test_producers_that_write_in_turns_are_told_apart() -> None:
    frame = in_turns()
    assert sequence_breaks(frame).empty
    table = sequences(frame)
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == list(zip(table["partition"], table["producer_id"], strict=True))
    assert [(0, 3, 4)] * 4 == list(zip(table["first_sequence"], table["last_sequence"], table["batches"], strict=True))


def test_a_lost_batch_of_one_of_them() -> None:
    (found,) = sequence_breaks(in_turns(lost=True)).to_dict("records")
    assert ("seq-gap", 0, 1, 3, 2) == tuple(
        found[name] for name in ("anomaly", "partition", "producer_id", "found", "expected")
    )
    assert 3 == found["previous_offset"]  # the batch of the same producer before it


def test_rows_that_are_in_order_already_may_be_handed_on() -> None:
    frame = in_turns(lost=True)
    rows = sequenced(frame)
    pd.testing.assert_frame_equal(sequence_breaks(frame), sequence_breaks(frame, rows))
    pd.testing.assert_frame_equal(sequences(frame), sequences(frame, rows))
