"""Frames: a length of four bytes, then a request or response with its header in front.

The headers are messages like others, `request_header` and `response_header`.
Which version of them goes in front of what is said by `registry.request_header_version` and `response_header_version`.
"""

from __future__ import annotations

import struct
from typing import Self

from odradek.wire.errors import DecodeError

__all__ = ["FrameBuffer"]

_LENGTH = struct.Struct(">i")


class FrameBuffer:
    """Cuts a stream of bytes into frames, one when it is asked for: `for frame in buffer.feed(data)`.

    A frame inside one received chunk is a view of it; one across several is joined once.
    What is not cut yet costs its bytes and nothing more, however many frames it holds.
    """

    __slots__ = ("_chunks", "_data", "_pos", "_wanted", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = b""
        self._pos = 0
        self._chunks: list[bytes] = []
        self.held = 0
        """How many received bytes are not cut yet."""
        self._wanted = _LENGTH.size

    def feed(self, data: bytes) -> Self:
        """Take received bytes."""
        self.held += len(data)
        if self._data:
            self._chunks.append(data)
        else:
            self._data = data
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> memoryview:
        """The next frame that is complete, without its length.

        Raises `DecodeError` at a length below 0 or above the limit.
        No frame can be found behind such a length, so the connection has to end then.
        """
        if self.held < self._wanted:
            raise StopIteration
        size = len(self._data)
        if size - self._pos < self._wanted:
            size = self._join()
        if self._wanted == _LENGTH.size:
            length: int
            (length,) = _LENGTH.unpack_from(self._data, self._pos)
            if not 0 <= length <= self.limit:
                raise self._too_long(length)
            self._wanted += length
            if self.held < self._wanted:
                raise StopIteration
            if size - self._pos < self._wanted:
                size = self._join()
        data, start, end = self._data, self._pos + _LENGTH.size, self._pos + self._wanted
        self.held -= self._wanted
        self._wanted = _LENGTH.size
        if end < size:
            self._pos = end
        else:
            self._data, self._pos = b"", 0
            if self._chunks:
                self._join()
        return memoryview(data)[start:end]

    def _too_long(self, length: int) -> DecodeError:
        return DecodeError(
            f"a frame of {length} bytes; the limit is {self.limit}", field="length", offset=self._pos, message="frame"
        )

    def _join(self) -> int:
        """Make one chunk of all; its size."""
        self._data = b"".join((memoryview(self._data)[self._pos :], *self._chunks))
        self._pos = 0
        self._chunks.clear()
        return len(self._data)
