"""What compresses record batches and decompresses them within a limit, by compression type.

It is imported with the first compressed batch, because it loads a library of 1.5 MiB that many brokers never use.

Data of a client may expand a thousandfold, so every codec writes into memory of a given size or stops at it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from mmap import mmap
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - struct's own name says nothing

import cramjam

from odradek.records import lz4_frame
from odradek.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    Data,
    DecompressionError,
    Payload,
    too_large,
)
from odradek.wire.errors import ErrorCode

__all__ = ["compress", "decompress"]

_GZIP = 31  # zlib's window bits for the gzip container
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BYTES = 64
_GZIP_PART_BYTES = 1 << 20
_MAPPED_BYTES = 4 << 20

_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"  # magic, version, lowest compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_RATIO_MAX = 22  # a copy of 64 bytes takes 3
_CHUNK = Layout(">i")


def compress(codec: Compression, data: Data) -> bytes:
    """Compress data, in the container that Kafka's clients expect for this codec."""
    return _COMPRESS[codec](data)


def decompress(codec: Compression, data: Data, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Payload:
    """Decompress data. Raises `DecompressionError` if it is damaged or longer than `limit`."""
    return _DECOMPRESS[codec](data, limit)


def _damaged(codec: Compression, reason: object) -> DecompressionError:
    # The exceptions of Kafka's decompressors have no error code of their own.
    return DecompressionError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to decompress {codec.name.lower()} records: {reason}"
    )


def _store(data: Data) -> bytes:
    return bytes(data)


def _load(data: Data, limit: int) -> bytes:
    if len(data) > limit:
        raise too_large(limit)
    return bytes(data)


def _gzip(data: Data) -> bytes:
    stream = zlib.compressobj(wbits=_GZIP)
    return stream.compress(data) + stream.flush()


class _Output:
    """The output of a codec within a limit, part by part: small output is joined, large output is mapped memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._parts: list[bytes] = []
        self._pages: mmap | None = None

    @property
    def room(self) -> int:
        return self._limit - self._size

    def add(self, part: bytes) -> None:
        """Add the next part. Raises `DecompressionError` if there is no room for it."""
        if len(part) > self.room:
            raise too_large(self._limit)
        start, self._size = self._size, self._size + len(part)
        if self._pages is not None:
            self._pages[start : self._size] = part
            return
        self._parts.append(part)
        if self._size > _MAPPED_BYTES:
            self._pages = pages = mmap(-1, self._limit)
            position = 0
            for each in self._parts:
                pages[position : position + len(each)] = each
                position += len(each)
            self._parts.clear()

    def whole(self) -> Payload:
        """The whole output, after the last part."""
        if self._pages is not None:
            return _cut(self._pages, self._size)
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _cut(pages: mmap, size: int) -> Payload:
    """The first bytes of mapped memory; without a copy if they are many and the system can shorten a mapping."""
    if size <= _MAPPED_BYTES:
        with pages:
            return pages[:size]
    try:
        pages.resize(size)
    except (OSError, SystemError, ValueError):
        with pages:
            return pages[:size]
    return pages


def _gunzip(data: Data, limit: int) -> Payload:
    output = _Output(limit)
    position = 0
    with memoryview(data) as view:
        while True:  # gzip streams may follow one another
            # The whole rest for the first stream, which is mostly the only one.
            window = len(view) if position == 0 else _GZIP_WINDOW_BYTES
            position = _gunzip_member(view, position, window=window, output=output)
            if view[position : position + len(_GZIP_MAGIC)] != _GZIP_MAGIC:  # Java ignores any bytes behind it
                return output.whole()


def _gunzip_member(view: memoryview, position: int, *, window: int, output: _Output) -> int:
    """Decompress the stream at this position, and return its end.

    zlib copies what it is given behind the end of a stream, so each stream gets as much as it may need and little more:
    windows that double up to a bound, because it copies what it has not consumed, too.
    """
    stream = zlib.decompressobj(_GZIP)
    there_is_more = False
    while not stream.eof:
        given: Data = stream.unconsumed_tail
        if not given and not there_is_more:
            if position == len(view):
                raise _damaged(Compression.GZIP, "the stream is cut off")
            given = view[position : position + min(window, _GZIP_PART_BYTES)]
            position += len(given)
            window *= 2
        most = min(output.room + 1, _GZIP_PART_BYTES)
        try:
            part = stream.decompress(given, most)
        except zlib.error as error:
            raise _damaged(Compression.GZIP, error) from None
        there_is_more = len(part) == most
        if part:
            output.add(part)
    return position - len(stream.unused_data)


def _snappy(data: Data) -> bytes:
    """The framing of xerial's library, which the Java clients use and the others read."""
    parts = [_XERIAL]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
            parts += (_CHUNK.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Data, limit: int) -> Payload:
    view = memoryview(data)
    if view[: len(_XERIAL) - 8] != _XERIAL[:-8]:
        return _unsnappy_block(view, limit)
    output = _Output(limit)
    position = len(_XERIAL)
    while position < len(view):
        try:
            (length,) = _CHUNK.unpack_from(view, position)
        except LayoutError:
            raise _damaged(Compression.SNAPPY, "a block is cut off") from None
        position += _CHUNK.size
        if not 0 < length <= len(view) - position:
            raise _damaged(Compression.SNAPPY, f"a block of {length} bytes")
        output.add(_unsnappy_block(view[position : position + length], output.room))
        position += length
    return output.whole()


def _unsnappy_block(block: memoryview, limit: int) -> bytes:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise too_large(limit)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise _damaged(Compression.SNAPPY, f"{len(block)} bytes cannot hold {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(Compression.SNAPPY, error) from None


def _lz4(data: Data) -> bytes:
    with memoryview(data) as view:
        return lz4_frame.write(view)


def _unlz4(data: Data, limit: int) -> Payload:
    try:
        whole = lz4_frame.frame(memoryview(data))
    except ValueError as error:
        raise _damaged(Compression.LZ4, error) from None
    return _into(Compression.LZ4, cramjam.lz4.decompress_into, whole, limit)


def _zstd(data: Data) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3))


def _unzstd(data: Data, limit: int) -> Payload:
    if not data:
        return b""
    return _into(Compression.ZSTD, cramjam.zstd.decompress_into, data, limit)


_FULL = "failed to write whole buffer"  # the text of the library when the output does not fit


def _into(
    codec: Compression, decompress_into: Callable[[Data, bytearray | mmap], int], data: Data, limit: int
) -> Payload:
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
        raise too_large(limit)
    pages = mmap(-1, limit)
    try:
        return _cut(pages, decompress_into(data, pages))
    except cramjam.DecompressionError as error:
        pages.close()
        raise (too_large(limit) if _FULL in str(error) else _damaged(codec, error)) from None


_COMPRESS: dict[Compression, Callable[[Data], bytes]] = {
    Compression.NONE: _store,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESS: dict[Compression, Callable[[Data, int], Payload]] = {
    Compression.NONE: _load,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
