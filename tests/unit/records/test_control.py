from __future__ import annotations

import pytest
from tests.unit.records.helpers import NOW, framed, parsed, plain

from odradek.records.batch import parse_batch
from odradek.records.control import ControlType, Marker, control_type, end_txn_marker, read_marker
from odradek.records.record import Record, build_batch, iterate_records


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_comes_back(commit: bool) -> None:
    built = end_txn_marker(producer_id=7, producer_epoch=3, commit=commit, coordinator_epoch=21, timestamp=NOW)
    batch = parsed(bytes(built.view))
    assert batch == built
    assert Marker(commit, 21, 0) == read_marker(batch)
    assert batch.is_control
    assert batch.is_transactional
    assert (7, 3, -1, NOW) == (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.max_timestamp)


def test_a_marker_has_kafkas_bytes() -> None:
    """An ABORT marker as Kafka's `MemoryRecords.withEndTransactionMarker` writes it."""
    expected = bytes.fromhex(
        "000000000000000000000042ffffffff02f16ac46000300000000000000199c82cc1d400000199c82cc1d4"
        "00000000000000000000ffffffff000000012000000008000000010c0000ffffffff00"
    )
    marker = end_txn_marker(
        producer_id=0, producer_epoch=0, commit=True, coordinator_epoch=-1, timestamp=1_760_000_000_468
    )
    assert expected == marker.view


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, ControlType.ABORT),
        (1, ControlType.COMMIT),
        (2, ControlType.LEADER_CHANGE),
        (3, ControlType.SNAPSHOT_HEADER),
        (4, ControlType.SNAPSHOT_FOOTER),
        (5, ControlType.KRAFT_VERSION),
        (6, ControlType.KRAFT_VOTERS),
        (1011, ControlType.UNKNOWN),
        (65535, ControlType.UNKNOWN),
    ],
)
def test_types_of_control_records(number: int, expected: ControlType) -> None:
    record = Record(key=b"\0\0" + number.to_bytes(2))
    assert expected is control_type(record)
    batch = parsed(build_batch([Record(key=record.key, value=b"eeeeee")], control=True))
    assert (expected in (ControlType.ABORT, ControlType.COMMIT)) == (read_marker(batch) is not None)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_key_that_is_none_of_ours(key: bytes | None) -> None:
    assert ControlType.UNKNOWN is control_type(Record(key=key))


def test_what_is_not_a_marker() -> None:
    assert read_marker(parsed(build_batch(plain()))) is None
    assert read_marker(parsed(build_batch((), last_offset=0, control=True))) is None
    assert read_marker(parsed(framed(b"damaged", attributes=0x30))) is None
    for value in (None, b"", b"\0\0\0\0\0"):
        assert read_marker(parsed(build_batch([Record(key=b"\0\0\0\1", value=value)], control=True))) is None


def test_a_marker_of_a_later_version_is_read() -> None:
    data = build_batch([Record(key=b"\0\1\0\1", value=b"\0\1\0\0\0\5and more")], control=True)
    assert Marker(True, 5, 1) == read_marker(parse_batch(memoryview(data)))


def test_a_marker_is_one_record() -> None:
    marker = end_txn_marker(producer_id=7, producer_epoch=3, commit=True, coordinator_epoch=0, timestamp=NOW)
    (record,) = iterate_records(marker)
    assert (b"\0\0\0\1", b"\0\0\0\0\0\0", -1) == (record.key, record.value, record.sequence)
