from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.records.varint import read_zigzag, read_zigzag_long, write_zigzag


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
        (2147483647, b"\xfe\xff\xff\xff\x0f"),
        (-2147483648, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_known_numbers(value: int, expected: bytes) -> None:
    out = bytearray()
    write_zigzag(out, value)
    assert expected == out
    assert (value, len(expected)) == read_zigzag(bytes(out), 0)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3))
def test_ints_come_back(value: int, before: bytes) -> None:
    out = bytearray(before)
    write_zigzag(out, value)
    assert (value, len(out)) == read_zigzag(bytes(out) + b"\x80", len(before))


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_come_back(value: int) -> None:
    out = bytearray()
    write_zigzag(out, value)
    assert (value, len(out)) == read_zigzag_long(bytes(out), 0)


def test_a_varint_has_an_end() -> None:
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        read_zigzag(b"\xff" * 20, 0)
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        read_zigzag_long(b"\xff" * 20, 0)


def test_a_varint_that_is_cut_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_zigzag(b"\xff\xff", 0)


def test_bits_that_an_int_does_not_have_are_dropped() -> None:
    assert (0, 5) == read_zigzag(b"\x80\x80\x80\x80\x70", 0)
