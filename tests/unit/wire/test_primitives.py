"""Varints and tagged fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.helpers import PROFILE

from odradek.wire.primitives import (
    READ_ERRORS,
    UNPACK_INT32S,
    Malformed,
    long_length,
    long_string,
    read_varint,
    replace_tags,
    unknown_tags,
    write_string_length,
    write_tags,
    write_varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**28 - 1, "ffffff7f"),
        (2**28, "8080808001"),
        (2**31 - 1, "ffffffff07"),
    ],
)
def test_varint(value: int, encoded: str) -> None:
    out = bytearray()
    write_varint(out, value)
    assert encoded == out.hex()
    assert (value, len(out)) == read_varint(memoryview(out), 0)


@PROFILE
@given(st.integers(0, 2**31 - 1))
def test_varint_comes_back(value: int) -> None:
    out = bytearray(b"front")
    write_varint(out, value)
    assert (value, len(out)) == read_varint(memoryview(out), 5)


def test_longer_form_of_a_small_varint_is_read() -> None:
    """As Kafka reads it, though nobody writes it."""
    assert (1, 3) == read_varint(memoryview(b"\x81\x80\x00"), 0)


@pytest.mark.parametrize("encoded", ["", "80", "ffffff", "8080808080", "808080808001", "ffffffff08", "ffffffff0f"])
def test_bad_varint(encoded: str) -> None:
    with pytest.raises(READ_ERRORS):
        read_varint(memoryview(bytes.fromhex(encoded)), 0)


def test_varint_above_31_bits_is_not_written() -> None:
    with pytest.raises(Malformed):
        write_varint(bytearray(), 2**31)


@pytest.mark.parametrize("encoded", ["00", "8000", "80808000"])
def test_null_length_is_refused(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(Malformed):
        long_length(memoryview(data), 1, data[0])


def test_string_length_has_a_limit() -> None:
    out = bytearray()
    write_string_length(out, 0x8000)
    assert (0x8000, 3) == long_string(memoryview(out), 1, out[0])
    with pytest.raises(Malformed):
        write_string_length(out, 0x8001)
    above = bytearray()
    write_varint(above, 0x8001)
    with pytest.raises(Malformed):
        long_string(memoryview(above), 1, above[0])


def test_unknown_tags_come_back() -> None:
    tags = [(3, b"abc"), (200, b""), (2**31 - 1, b"x" * 300)]
    out = bytearray(b"?\0")
    replace_tags(out, tags)
    assert (tags, len(out)) == unknown_tags(memoryview(out), 2, out[1])


def test_more_tags_than_one_byte_counts() -> None:
    tags = [(tag, b"") for tag in range(200)]
    out = bytearray(b"\0")
    replace_tags(out, tags)
    assert (tags, len(out)) == unknown_tags(memoryview(out), 1, out[0])


def test_tags_are_merged_by_number() -> None:
    out = bytearray()
    write_tags(out, [(0, bytearray(b"a")), (5, bytearray(b"c"))], [(3, b"b"), (9, b"d")], (0, 5))
    assert bytes([4, 0, 1, 97, 3, 1, 98, 5, 1, 99, 9, 1, 100]) == out


@pytest.mark.parametrize("unknown", [[(3, b""), (2, b"")], [(2, b""), (2, b"")], [(1, b"")]])
def test_wrong_tags_are_not_written(unknown: list[tuple[int, bytes]]) -> None:
    """Falling, twice the same, or one that the schema defines."""
    with pytest.raises(Malformed):
        write_tags(bytearray(), [], unknown, (0, 1))


def test_only_short_arrays_are_kept() -> None:
    for length in (3, 10**6):
        assert length == len(UNPACK_INT32S[length](memoryview(bytes(4 * length)), 0))
    assert 3 in UNPACK_INT32S
    assert 10**6 not in UNPACK_INT32S
