"""Frames: a length of four bytes, then a request or response with its header in front.

The headers are messages like others, `request_header` and `response_header`.
Which version of them goes in front of what is said by `registry.request_header_version` and `response_header_version`.
"""

from __future__ import annotations

import struct

from odradek.wire.errors import DecodeError

__all__ = ["FrameBuffer"]

_LENGTH = struct.Struct(">i")


class FrameBuffer:
    """Cuts a stream of bytes into frames.

    A frame inside one received chunk is a view of it; one across several is joined once.
    What is kept between two calls is at most one frame's worth of received bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = _LENGTH.size

    @property
    def held(self) -> int:
        """How many received bytes wait for the rest of their frame."""
        return self._held

    def feed(self, data: bytes) -> list[memoryview]:
        """Take received bytes; return the frames that are complete now, without their lengths.

        Raises `DecodeError` as soon as a length is below 0 or above the limit.
        No frame can be found behind such a length, so the connection has to end then.
        """
        self._held += len(data)
        if self._held < self._wanted:
            self._chunks.append(data)
            return []
        if self._chunks:
            self._chunks.append(data)
            data = b"".join(self._chunks)
            self._chunks.clear()
        return self._cut(data)

    def _cut(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        view = memoryview(data)
        size = len(data)
        pos = 0
        self._wanted = _LENGTH.size
        while size - pos >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, pos)
            if not 0 <= length <= self.limit:
                raise DecodeError(
                    f"a frame of {length} bytes; the limit is {self.limit}", field="length", offset=pos, message="frame"
                )
            end = pos + _LENGTH.size + length
            if end > size:
                self._wanted = end - pos
                break
            frames.append(view[pos + _LENGTH.size : end])
            pos = end
        self._held = size - pos
        if self._held:
            self._chunks.append(data[pos:] if pos else data)
        return frames
