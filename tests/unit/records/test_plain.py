from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.core.machine import LogRecord
from odradek.records.batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    Batch,
    parse_batch,
    plain_batch,
)
from odradek.records.record import Record, build_batch

NOW = 1_760_000_000_000
fields = st.none() | st.binary(max_size=40) | st.sampled_from([63, 64, 1023, 1024, 1025, 9000]).map(bytes)
records = st.lists(st.builds(LogRecord, fields, fields), min_size=1, max_size=80)


@given(records, st.booleans(), st.booleans())
def test_the_bytes_are_those_of_any_batch(written: list[LogRecord], transactional: bool, control: bool) -> None:
    producer_id, producer_epoch = (7, 3) if transactional else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    expected = build_batch(
        [Record(timestamp=NOW, key=record.key, value=record.value) for record in written],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=control,
    )
    built = plain_batch(
        written,
        timestamp=NOW,
        attributes=(TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert expected == built.view
    assert parse_batch(memoryview(expected)) == built


def test_more_records_than_one_byte_counts() -> None:
    written = [LogRecord(b"k", None)] * 3000
    built: Batch = plain_batch(written, timestamp=NOW)
    assert build_batch([Record(timestamp=NOW, key=b"k") for _ in written]) == built.view
