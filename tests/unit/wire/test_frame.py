"""Frames out of chunks of any size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.helpers import PROFILE

from odradek.wire.errors import DecodeError
from odradek.wire.frame import GATHERED_BYTES_MIN, FrameBuffer

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


@PROFILE
@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 60), min_size=1))
def test_any_chunks_of_which_some_are_whole_frames(bodies: list[bytes], sizes: list[int]) -> None:
    stream = framed(*bodies)
    buffer = FrameBuffer(LIMIT)
    found: list[bytes] = []
    pos = index = 0
    while pos < len(stream):
        end = pos + sizes[index % len(sizes)]
        whole = buffer.whole(stream[pos:end])
        found += map(bytes, [*([] if whole is None else [whole]), *buffer])
        pos, index = end, index + 1
    assert bodies == found
    assert 0 == buffer.held


def test_a_frame_that_comes_by_itself_is_a_view_of_it_and_is_not_held() -> None:
    buffer, chunk = FrameBuffer(LIMIT), framed(b"one")
    whole = buffer.whole(chunk)
    assert whole is not None
    assert chunk is whole.obj
    assert (b"one", 0) == (bytes(whole), buffer.held)
    assert buffer.whole(framed(b"one", b"two")) is None
    assert [b"one", b"two"] == list(map(bytes, buffer))


def test_bytes_that_look_like_a_frame_belong_to_the_one_that_has_begun() -> None:
    buffer, looks_like_one = FrameBuffer(LIMIT), framed(b"one")
    assert buffer.whole(len(looks_like_one).to_bytes(4, "big")) is None
    assert buffer.whole(looks_like_one) is None
    assert [looks_like_one] == list(map(bytes, buffer))


def test_a_frame_by_itself_that_is_too_long_is_refused_as_others_are() -> None:
    buffer = FrameBuffer(LIMIT)
    assert buffer.whole(framed(bytes(LIMIT + 1))) is None
    with pytest.raises(DecodeError, match="1001 bytes"):
        buffer.take()


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


# ---------------------------------------------------------------------- long frames

LONG = 3 * GATHERED_BYTES_MIN


class Gatherer:
    """A driver that collects a long frame, as `Gather` asks for it."""

    def __init__(self, *, does: bool = True) -> None:
        self.asked: list[int] = []
        self.buffer = FrameBuffer(1 << 20, self.gather)
        self.whole: bytearray | None = None
        self._does = does
        self._size = 0

    def gather(self, head: Sequence[bytes | memoryview], size: int) -> None:
        self.asked.append(size)
        if self._does:
            self.whole, self._size = bytearray().join(head), size

    def frames(self, data: bytes) -> list[bytes]:
        if self.whole is None:
            return list(map(bytes, self.buffer.feed(data)))
        missing = self._size - len(self.whole)
        self.whole += data[:missing]
        if len(data) < missing:
            return list(map(bytes, self.buffer.feed(b"")))
        whole, self.whole = self.whole, None
        self.buffer.gathered(memoryview(whole))
        return [*map(bytes, self.buffer), *self.frames(data[missing:])]


@PROFILE
@given(
    st.lists(st.sampled_from([0, 1, 50, LONG, LONG + 1]), max_size=8),
    st.lists(st.sampled_from([1, 3, 70, 1000, GATHERED_BYTES_MIN, LONG]), min_size=1, max_size=50),
    st.booleans(),
)
def test_long_frames_arrive_whether_they_are_gathered_or_not(lengths: list[int], sizes: list[int], does: bool) -> None:
    bodies = [bytes([number + 1]) * length for number, length in enumerate(lengths)]
    stream = framed(*bodies)
    gatherer = Gatherer(does=does)
    found: list[bytes] = []
    for size in sizes:
        found += gatherer.frames(stream[:size])
        stream = stream[size:]
    found += gatherer.frames(stream)
    assert bodies == found
    assert 0 == gatherer.buffer.held
    assert gatherer.asked == [size for size in gatherer.asked if size > LONG]


def test_a_frame_is_asked_for_once_and_only_if_much_is_missing() -> None:
    gatherer = Gatherer(does=False)
    gatherer.frames(b"\0")
    gatherer.frames(LONG.to_bytes(4, "big")[1:])
    assert [LONG + 4] == gatherer.asked
    gatherer.frames(b"")
    gatherer.frames(bytes(10))
    assert [LONG + 4] == gatherer.asked
    assert [bytes(LONG)] == gatherer.frames(bytes(LONG - 10))
    gatherer.frames(framed(bytes(LONG))[: LONG + 4 - GATHERED_BYTES_MIN + 1])
    assert [LONG + 4] == gatherer.asked


def test_what_is_behind_a_frame_of_several_chunks_is_not_copied() -> None:
    chunk = b"e" + framed(b"two", b"three")
    buffer = FrameBuffer(LIMIT).feed(framed(b"one")[:-1])
    first, second, third = buffer.feed(chunk)
    assert [b"one", b"two", b"three"] == list(map(bytes, (first, second, third)))
    assert (chunk, chunk) == (second.obj, third.obj)
