"""The five compression types of record batches, each decompressed within a limit.

What a client sends may expand a thousandfold, so every codec writes into memory of a given size or stops at it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - struct's own name says nothing

import cramjam

from odradek.records import lz4_frame
from odradek.wire.errors import ErrorCode

__all__ = ["DECOMPRESSED_BYTES_MAX", "Compression", "Data", "DecompressionError", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""What one batch may expand to; Kafka has no such limit, for it never holds a whole batch."""

Data = bytes | bytearray | memoryview

_GZIP = 31  # zlib's window bits for the gzip container
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BYTES = 64

_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"  # magic, version, lowest compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_RATIO_MAX = 22  # a copy of 64 bytes takes 3
_CHUNK = Layout(">i")


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """Compressed bytes that are damaged, or that expand beyond the limit."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def compress(codec: Compression, data: Data) -> bytes:
    """The data in the container that Kafka's clients expect of this codec."""
    return _COMPRESS[codec](data)


def decompress(codec: Compression, data: Data, *, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The data as it was; `DecompressionError` if it is damaged or longer than `limit`."""
    return _DECOMPRESS[codec](data, limit)


def _damaged(codec: Compression, reason: object) -> DecompressionError:
    # Kafka's decompressors throw what has no error code of its own.
    return DecompressionError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to decompress {codec.name.lower()} records: {reason}"
    )


def _too_large(limit: int) -> DecompressionError:
    # The producers of Kafka split a batch that is refused so, and send the halves.
    return DecompressionError(ErrorCode.MESSAGE_TOO_LARGE, f"The records expand to more than {limit} bytes")


def _store(data: Data) -> bytes:
    return bytes(data)


def _load(data: Data, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return bytes(data)


def _gzip(data: Data) -> bytes:
    stream = zlib.compressobj(wbits=_GZIP)
    return stream.compress(data) + stream.flush()


def _gunzip(data: Data, limit: int) -> bytes:
    parts: list[bytes] = []
    position, room = 0, limit
    with memoryview(data) as view:
        while True:  # gzip streams may follow one another
            # All there is for the first, which is mostly the only one.
            window = len(view) if position == 0 else _GZIP_WINDOW_BYTES
            part, position = _gunzip_member(view, position, window=window, room=room)
            room -= len(part)
            if room < 0:
                raise _too_large(limit)
            if part:
                parts.append(part)
            if view[position : position + len(_GZIP_MAGIC)] != _GZIP_MAGIC:  # Java ignores what else may follow
                return parts[0] if len(parts) == 1 else b"".join(parts)


def _gunzip_member(view: memoryview, position: int, *, window: int, room: int) -> tuple[bytes, int]:
    """What the stream at this position expands to, or a byte more than there is room for; and where it ends.

    zlib copies what it is given behind the end of a stream, so each stream gets as much as it may need and little more:
    windows that double.
    """
    stream = zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    while not stream.eof and room >= 0:
        if position == len(view):
            raise _damaged(Compression.GZIP, "the stream is cut off")
        given = view[position : position + window]
        try:
            part = stream.decompress(given, room + 1)
        except zlib.error as error:
            raise _damaged(Compression.GZIP, error) from None
        parts.append(part)
        room -= len(part)
        position += len(given) - len(stream.unused_data)
        window *= 2
    return parts[0] if len(parts) == 1 else b"".join(parts), position


def _snappy(data: Data) -> bytes:
    """The framing of xerial's library, which the Java clients use and the others read."""
    parts = [_XERIAL]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
            parts += (_CHUNK.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Data, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL) - 8] != _XERIAL[:-8]:
        return _unsnappy_block(view, limit)
    parts: list[bytes] = []
    position = len(_XERIAL)
    while position < len(view):
        try:
            (length,) = _CHUNK.unpack_from(view, position)
        except LayoutError:
            raise _damaged(Compression.SNAPPY, "a block is cut off") from None
        position += _CHUNK.size
        if not 0 < length <= len(view) - position:
            raise _damaged(Compression.SNAPPY, f"a block of {length} bytes")
        block = _unsnappy_block(view[position : position + length], limit)
        limit -= len(block)
        parts.append(block)
        position += length
    return b"".join(parts)


def _unsnappy_block(block: memoryview, limit: int) -> bytes:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise _too_large(limit)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise _damaged(Compression.SNAPPY, f"{len(block)} bytes cannot hold {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(Compression.SNAPPY, error) from None


def _lz4(data: Data) -> bytes:
    with memoryview(data) as view:
        return lz4_frame.write(view)


def _unlz4(data: Data, limit: int) -> bytes:
    try:
        whole = lz4_frame.frame(memoryview(data))
    except ValueError as error:
        raise _damaged(Compression.LZ4, error) from None
    return _into(Compression.LZ4, cramjam.lz4.decompress_into, whole, limit)


def _zstd(data: Data) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3))


def _unzstd(data: Data, limit: int) -> bytes:
    if not data:
        return b""
    return _into(Compression.ZSTD, cramjam.zstd.decompress_into, data, limit)


_FULL = "failed to write whole buffer"  # what the library says when the output does not fit


def _into(
    codec: Compression, decompress_into: Callable[[Data, bytearray | mmap], int], data: Data, limit: int
) -> bytes:
    """Decompress into memory of a given size: first a likely one, then the limit.

    The second is mapped, so that only pages written to exist.
    """
    likely = min(limit, 4096 + 8 * len(data))
    output = bytearray(likely)
    try:
        size = decompress_into(data, output)
        return bytes(memoryview(output)[:size])
    except cramjam.DecompressionError as error:
        if _FULL not in str(error):
            raise _damaged(codec, error) from None
    if likely == limit:
        raise _too_large(limit)
    with mmap(-1, limit) as pages:
        try:
            return pages[: decompress_into(data, pages)]
        except cramjam.DecompressionError as error:
            raise (_too_large(limit) if _FULL in str(error) else _damaged(codec, error)) from None


_COMPRESS: dict[Compression, Callable[[Data], bytes]] = {
    Compression.NONE: _store,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESS: dict[Compression, Callable[[Data, int], bytes]] = {
    Compression.NONE: _load,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
