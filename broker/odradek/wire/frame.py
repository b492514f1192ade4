"""Frames: a length of four bytes, then a request or response with its header in front.

The headers are messages like others, `request_header` and `response_header`.
Which version of them goes in front of what is said by `registry.request_header_version` and `response_header_version`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

from odradek.wire.errors import DecodeError

__all__ = ["GATHERED_BYTES_MIN", "FrameBuffer", "Gather"]

_LENGTH = struct.Struct(">i")
GATHERED_BYTES_MIN = 64 * 1024
"""If less of a frame is missing, it is not worth another buffer."""

Gather: TypeAlias = Callable[[Sequence[bytes | memoryview], int], None]
"""Takes what has come of a long frame, with its length in front, and the size of all of it."""


class FrameBuffer:
    """Cuts a stream of bytes into frames, one when it is asked for: `for frame in buffer.feed(data)`.

    A frame inside one received chunk is a view of it; one across several is joined once.
    What is not cut yet costs its bytes and nothing more, however many frames it holds.
    `gather` is called once for a frame of which much is missing: its receiver may put all of it in place itself, and
    hand it over with `gathered`, or feed the rest like any other.
    """

    __slots__ = ("_chunks", "_data", "_gather", "_pos", "_wanted", "held", "limit")

    def __init__(self, limit: int, gather: Gather | None = None) -> None:
        self.limit = limit
        self._gather = gather
        self._data: bytes | memoryview = b""
        self._pos = 0
        self._chunks: deque[bytes | memoryview] = deque()
        """Received bytes behind `_data`."""
        self.held = 0
        """Number of received bytes that are not cut yet."""
        self._wanted = _LENGTH.size

    def feed(self, data: bytes | memoryview) -> Self:
        """Take received bytes."""
        self.held += len(data)
        if self._data:
            if data:
                self._chunks.append(data)
        else:
            self._data = data
        return self

    def whole(self, data: bytes | memoryview) -> memoryview | None:
        """The frame, if these bytes are one and nothing waits before them, as is usual; others are taken by `feed`."""
        if not self.held and len(data) > _LENGTH.size:
            length: int
            (length,) = _LENGTH.unpack_from(data)
            if length == len(data) - _LENGTH.size and length <= self.limit:
                return memoryview(data)[_LENGTH.size :]
        self.feed(data)
        return None

    def gathered(self, whole: memoryview) -> None:
        """Take a frame that was gathered: nothing but what was given to `gather` has come of it before."""
        self._chunks.clear()
        self._data, self._pos, self.held = whole, 0, len(whole)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> memoryview:
        frame = self.take()
        if frame is None:
            raise StopIteration
        return frame

    def take(self) -> memoryview | None:
        """The next frame that is complete, without its length; None if there is none.

        Raises `DecodeError` at a length below 0 or above the limit.
        No frame can be found behind such a length, so the connection has to end then.
        """
        if self.held < self._wanted:
            return None
        size = len(self._data)
        if self._wanted == _LENGTH.size:
            length: int
            if size - self._pos < _LENGTH.size:
                (length,) = _LENGTH.unpack(self._first(_LENGTH.size))
            else:
                (length,) = _LENGTH.unpack_from(self._data, self._pos)
            if not 0 <= length <= self.limit:
                raise self._too_long(length)
            self._wanted += length
            if self.held < self._wanted:
                if self._gather is not None and self._wanted - self.held >= GATHERED_BYTES_MIN:
                    self._gather((memoryview(self._data)[self._pos :], *self._chunks), self._wanted)
                return None
        if size - self._pos < self._wanted:
            return self._across()
        data, start, end = self._data, self._pos + _LENGTH.size, self._pos + self._wanted
        self.held -= self._wanted
        self._wanted = _LENGTH.size
        if end < size:
            self._pos = end
        else:
            self._data, self._pos = self._chunks.popleft() if self._chunks else b"", 0
        return memoryview(data)[start:end]

    def _too_long(self, length: int) -> DecodeError:
        return DecodeError(
            f"a frame of {length} bytes; the limit is {self.limit}", field="length", offset=self._pos, message="frame"
        )

    def _first(self, count: int) -> bytes:
        """The first bytes, of several chunks."""
        first = bytes(self._data[self._pos :])
        for chunk in self._chunks:
            first += chunk[: count - len(first)]
            if len(first) == count:
                break
        return first

    def _across(self) -> memoryview:
        """Join a frame that lies in several chunks; what is behind it stays where it is."""
        parts = [memoryview(self._data)[self._pos :]]
        missing = self._wanted - len(parts[0])
        self._data, self._pos = b"", 0
        while missing:
            chunk = self._chunks.popleft()
            parts.append(memoryview(chunk)[:missing])
            if missing < len(chunk):
                self._data, self._pos = chunk, missing
            missing -= len(parts[-1])
        if not self._data and self._chunks:
            self._data = self._chunks.popleft()
        self.held -= self._wanted
        self._wanted = _LENGTH.size
        return memoryview(b"".join(parts))[_LENGTH.size :]
