"""Frames out of chunks of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.helpers import PROFILE

from odradek.wire.errors import DecodeError
from odradek.wire.frame import FrameBuffer

LIMIT = 1000


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@PROFILE
@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 20), min_size=1))
def test_any_chunks(bodies: list[bytes], sizes: list[int]) -> None:
    stream = framed(*bodies)
    buffer = FrameBuffer(LIMIT)
    found: list[bytes] = []
    pos = index = 0
    while pos < len(stream):
        end = pos + sizes[index % len(sizes)]
        found += map(bytes, buffer.feed(stream[pos:end]))
        pos, index = end, index + 1
    assert bodies == found
    assert 0 == buffer.held


def test_frame_inside_a_chunk_is_a_view_of_it() -> None:
    chunk = framed(b"one", b"two")
    first, second = FrameBuffer(LIMIT).feed(chunk)
    assert chunk is first.obj
    assert chunk is second.obj


def test_rest_is_held_until_it_is_whole() -> None:
    buffer = FrameBuffer(LIMIT)
    assert [b"one"] == list(buffer.feed(framed(b"one") + b"\0\0"))
    assert 2 == buffer.held
    assert [] == list(buffer.feed(b"\0\3tw"))
    assert 6 == buffer.held
    assert [b"two"] == list(buffer.feed(b"o"))
    assert 0 == buffer.held


def test_empty_frame() -> None:
    assert [b""] == list(FrameBuffer(LIMIT).feed(framed(b"")))


def test_largest_frame() -> None:
    assert [bytes(LIMIT)] == list(FrameBuffer(LIMIT).feed(framed(bytes(LIMIT))))


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_wrong_length_is_refused_before_anything_follows(length: int) -> None:
    buffer = FrameBuffer(LIMIT)
    buffer.feed(b"")
    with pytest.raises(DecodeError) as caught:
        next(buffer.feed(length.to_bytes(4, "big", signed=True)))
    assert "length" == caught.value.field
    assert 0 == caught.value.offset


def test_http_is_refused() -> None:
    with pytest.raises(DecodeError):
        next(FrameBuffer(100 * 1024 * 1024).feed(b"GET / HTTP/1.1\r\n"))


def test_frames_are_cut_when_they_are_asked_for() -> None:
    buffer = FrameBuffer(LIMIT).feed(framed(b"one", b"two") + b"\xff\xff\xff\xff")
    assert b"one" == bytes(next(buffer))
    assert 11 == buffer.held
    buffer.feed(b"more")
    assert b"two" == bytes(next(buffer))
    with pytest.raises(DecodeError):
        next(buffer)
