"""A partition's log, folded to its records and what became of them."""

from __future__ import annotations

from tests.demo.samples import posting, written

from odradek.demo.log import Outcome, fold
from odradek.demo.transfers import Posting, encode_posting
from odradek.records.batch import Batch, parse_batch
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch


def batch(offset: int, producer_id: int, *postings: Posting, transactional: bool = True) -> Batch:
    records = [Record(value=encode_posting(each)) for each in postings]
    data = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional)
    return at(offset, data)


def marker(offset: int, producer_id: int, *, commit: bool) -> Batch:
    ended = end_txn_marker(producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, timestamp=0)
    return at(offset, bytes(ended.view))


def at(offset: int, data: bytes) -> Batch:
    return parse_batch(memoryview(offset.to_bytes(8) + data[8:]))


def test_markers_decide() -> None:
    log = [
        batch(0, 7, posting("a", 0), posting("a", 1)),
        batch(2, 8, posting("b", 0)),
        batch(3, 7, posting("a", 2, parts=3)),
        marker(4, 8, commit=False),
        marker(5, 7, commit=True),
        batch(6, 8, posting("c", 0)),
    ]
    assert [
        written(2, posting("b", 0), Outcome.ABORTED, partition=3),
        written(0, posting("a", 0), partition=3),
        written(1, posting("a", 1), partition=3),
        written(3, posting("a", 2, parts=3), partition=3),
        written(6, posting("c", 0), Outcome.OPEN, partition=3),
    ] == list(fold(3, log))


def test_without_a_transaction_it_is_committed_at_once() -> None:
    assert [written(0, posting("a"))] == list(fold(0, [batch(0, 7, posting("a"), transactional=False)]))


def test_a_marker_without_records_says_nothing() -> None:
    assert [] == list(fold(0, [marker(0, 7, commit=True)]))
