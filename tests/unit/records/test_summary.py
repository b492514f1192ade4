"""What is said of records that are not shown."""

from __future__ import annotations

import pytest
from tests.unit.host.helpers import batch

from odradek.records.control import end_txn_marker
from odradek.records.summary import BATCHES_MAX, summary_of


def test_a_batch_of_a_producer() -> None:
    records = batch(b"one", b"two", producer_id=7, producer_epoch=3, sequence=40)
    told = summary_of(memoryview(records))
    assert (len(records), 1, 2, 0) == (told.bytes, told.batches, told.records, told.base_offset)
    assert (7, 3, 40) == (told.producer_id, told.producer_epoch, told.base_sequence)
    assert (False, False, None) == (told.transactional, told.control, told.unread_bytes)


def test_batches_are_counted_and_one_that_is_special_shows() -> None:
    marker = end_txn_marker(producer_id=7, producer_epoch=3, commit=True, coordinator_epoch=0, timestamp=0)
    told = summary_of(batch(b"one", b"two") + bytes(marker.view))
    assert (2, 3, -1, True, True) == (told.batches, told.records, told.producer_id, told.transactional, told.control)


def test_of_very_many_batches_the_first_are_read() -> None:
    one = batch(b"one")
    told = summary_of(one * (BATCHES_MAX + 5))
    assert (BATCHES_MAX, BATCHES_MAX, 5 * len(one)) == (told.batches, told.records, told.unread_bytes)


@pytest.mark.parametrize("data", [b"", bytes(60), bytes(200), b"\xff" * 200])
def test_what_is_no_batch_has_a_size(data: bytes) -> None:
    told = summary_of(data)
    assert (len(data), None, None) == (told.bytes, told.batches, told.unread_bytes)


def test_a_batch_that_is_cut_off_is_counted() -> None:
    told = summary_of(batch(b"x" * 100)[:70])
    assert (70, 1, None) == (told.bytes, told.batches, told.unread_bytes)
