"""`scan` has to say what reading every record says; most tests here compare the two on the same bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples
from tests.unit.records.helpers import NOW, framed, parsed, payload_of, plain, records

from odradek.records.batch import InvalidBatch
from odradek.records.record import Record, iterate_records
from odradek.records.structure import Extent, scan
from odradek.wire.errors import ErrorCode


def slow(payload: bytes, count: int) -> Extent | None:
    """The same, one record after the other; None if they are refused."""
    try:
        read = list(iterate_records(parsed(framed(payload, count, last_offset_delta=0))))
    except InvalidBatch:
        return None
    deltas = [record.timestamp - NOW for record in read] or [0]
    return Extent(max(deltas), min(deltas), any(record.key is None for record in read))


def check(payload: bytes, count: int, claimed: int | None = None) -> None:
    expected = slow(payload, count)
    if claimed is None:
        claimed = 0 if expected is None or expected.max_delta is None else expected.max_delta
    if expected is None:
        with pytest.raises(InvalidBatch) as caught:
            scan(payload, count, claimed)
        assert ErrorCode.INVALID_RECORD is caught.value.error
        with pytest.raises(InvalidBatch) as caught:
            scan(memoryview(payload), count, claimed)
        assert ErrorCode.INVALID_RECORD is caught.value.error
        return
    found = scan(payload, count, claimed)
    assert found == scan(memoryview(payload), count, claimed), "a view says what a copy says"
    assert expected.null_key is found.null_key
    assert found.min_delta <= expected.min_delta
    if found.max_delta is None:
        assert claimed != expected.max_delta or expected.max_delta < 0
    else:
        assert expected.max_delta == found.max_delta


@examples(50)
@given(st.lists(records, max_size=12))
def test_honest_records_pass(built: list[Record]) -> None:
    check(payload_of(built), len(built))


@pytest.mark.parametrize("count", [1, 9, 10, 11, 16, 17, 63, 64, 65, 66, 144, 1000, 8191, 8192, 8193, 9000])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_runs_of_one_size_pass(count: int, step: int) -> None:
    built = [Record(timestamp=NOW + min(step * index, 8000), value=b"v" * 100) for index in range(count)]
    found = scan(payload_of(built), count, built[-1].timestamp - NOW)
    assert min(step * (count - 1), 8000) == found.max_delta
    assert found.null_key


def test_a_run_looks_at_each_of_its_records() -> None:
    payload = payload_of(plain(200, size=3, step=0))
    assert 11 * 64 + 12 * 136 == len(payload), "two runs, for the offset deltas grow at the 65th record"
    for index in range(len(payload)):
        for bit in range(8):
            damaged = bytearray(payload)
            damaged[index] ^= 1 << bit
            if index < 24 or 64 * 11 - 24 < index < 64 * 11 + 24 or (index + bit) % 31 == 0:
                check(bytes(damaged), 200, 0)


@examples(200)
@given(
    st.integers(1, 300),
    st.sampled_from([None, b"", b"k", b"x" * 70]),
    st.integers(0, 70),
    st.lists(st.tuples(st.text(max_size=3), st.sampled_from([None, b"", b"v"])), max_size=2).map(tuple),
    st.integers(0, 2**32),
)
@example(300, None, 0, (), 1)
def test_runs_with_some_damage(
    count: int, key: bytes | None, size: int, headers: tuple[tuple[str, bytes | None], ...], seed: int
) -> None:
    dice = random.Random(seed)
    spread = dice.choice([0, 0, 5, 200, 20_000])
    built = [
        Record(timestamp=NOW + dice.randint(-spread, spread), key=key, value=b"v" * size, headers=headers)
        for _ in range(count)
    ]
    payload = bytearray(payload_of(built))
    for _ in range(dice.choice([0, 1, 2])):
        payload[dice.randrange(len(payload))] = dice.choice([0, 1, 2, 127, 128, 255, dice.randrange(256)])
    check(bytes(payload), count)
    check(bytes(payload), count, dice.choice([-1, 0, 1, 5, 63, 64, 100, 200, 8191, 8192, 20_000]))


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_end_in_an_extent_or_in_invalid_batch(payload: bytes, count: int) -> None:
    check(payload, count)


@given(st.lists(st.integers(-9000, 9000) | st.integers(0, 70), min_size=20, max_size=40), st.integers(-9000, 9000))
def test_the_largest_timestamp_is_right_or_left_open(deltas: list[int], claimed: int) -> None:
    payload = payload_of([Record(timestamp=NOW), *(Record(timestamp=NOW + delta, value=b"v") for delta in deltas)])
    check(payload, len(deltas) + 1, claimed)


@pytest.mark.parametrize("top", [0, 1, 63, 64, 65, 127, 128, 8191])
def test_a_true_claim_is_never_left_open(top: int) -> None:
    built = [Record(timestamp=NOW + min(index, top), value=b"v") for index in range(top + 200)]
    assert top == scan(payload_of(built), len(built), top).max_delta


def test_a_run_is_judged_by_its_own_records_alone() -> None:
    """From the 65th record on the timestamp takes a byte less and the offset one more: only these two bytes differ."""
    built = [Record(timestamp=NOW - (100 if 1 <= index <= 63 else 0), value=b"v") for index in range(120)]
    assert 8 + 119 * 9 == len(payload_of(built)), "all but the first are of one size"
    assert 0 == scan(payload_of(built), len(built), 0).max_delta


@pytest.mark.parametrize(
    ("claimed", "top"), [(5, 6), (63, 64), (5, 500), (100, 101), (127, 128), (127, 255), (8191, 8192)]
)
def test_a_claim_that_is_met_and_exceeded_is_not_believed(claimed: int, top: int) -> None:
    for deltas in ([claimed] * 50 + [top] * 50, [top] * 50 + [claimed] * 50, [0, claimed, top, 0] * 50):
        built = [Record(timestamp=NOW), *(Record(timestamp=NOW + delta) for delta in deltas)]
        assert scan(payload_of(built), len(built), claimed).max_delta in (None, top)


@pytest.mark.parametrize("size", [0, 54, 55, 56, 57, 58, 59, 60, 100, 8183, 8184, 8185])
@pytest.mark.parametrize("key", [None, b"k"])
def test_records_of_one_size_where_a_length_takes_a_byte_more(size: int, key: bytes | None) -> None:
    for count in (11, 64, 65, 70):
        built = [Record(timestamp=NOW, key=key, value=b"v" * size)] * count
        payload = payload_of(built)
        check(payload, count)
        for damaged in (payload[:-1], payload + b"\0", payload[:-1] + b"\1"):
            check(damaged, count)


def test_a_length_of_three_bytes_is_not_taken_for_one_of_two() -> None:
    """Its second byte would say that there is a third."""
    short = payload_of([Record(timestamp=NOW, value=b"v" * 8184)])
    assert b"\xfe\x7f" == short[:2], "the longest body whose length takes two bytes"
    payload = b"".join(short[:4] + bytes((2 * index,)) + short[5:] for index in range(64))
    longer = b"\x80\x80\0\0\x80\x01" + short[5:]
    check(payload + longer, 65)


@pytest.mark.parametrize("count", [20, 65, 90])
def test_each_damaged_bit_of_records_of_one_size_is_judged_as_by_reading_each_record(count: int) -> None:
    built = [Record(timestamp=NOW + index % 3, value=b"v" * 2, headers=(("h", b"1"),)) for index in range(count)]
    payload = payload_of(built)
    for index in {*range(40), *range(64 * 13 - 20, 64 * 13 + 40), *range(len(payload) - 30, len(payload))}:
        for bit in range(8):
            if index < len(payload):
                damaged = bytearray(payload)
                damaged[index] ^= 1 << bit
                check(bytes(damaged), count, 2)


def test_a_count_that_lies_costs_no_time() -> None:
    with pytest.raises(InvalidBatch):
        scan(payload_of(plain(50)), 2**31 - 1, 49)


def test_many_headers() -> None:
    built = [Record(timestamp=NOW, headers=tuple((f"h{n}", b"v") for n in range(100))) for _ in range(40)]
    check(payload_of(built), 40)
