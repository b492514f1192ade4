"""The LZ4 frame around compressed records, as far as Kafka has its own rules for it.

Kafka's reader (`Lz4BlockInputStream`) takes independent blocks only and stops at the end mark. Clients before 0.10 put
a wrong checksum into the frame's header, over the magic number too; messages of magic 0 keep it to this day (KIP-57).
"""

from __future__ import annotations

from struct import Struct as Layout

__all__ = ["frame", "with_checksum", "with_old_checksum", "write"]

_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS_AT = 4
_VERSION_MASK = 0xC0
_VERSION = 0x40
_INDEPENDENT = 0x20
_BLOCK_CHECKSUM = 0x10
_CONTENT_SIZE = 0x08
_CONTENT_CHECKSUM = 0x04
_RESERVED = 0x03

_UINT = Layout("<I")
_STORED = 0x8000_0000
_CHECKSUM_BYTES = 4

_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_WORD = 0xFFFF_FFFF


_HEADER = _MAGIC + b"\x60\x40\x82"  # independent blocks of at most 64 KiB, no checksums but the header's
_BLOCK_BYTES = 64 * 1024
_END = bytes(4)


def write(data: memoryview) -> bytes:
    """A frame as Kafka writes it."""
    import cramjam  # a frame is read without it

    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(data[start : start + _BLOCK_BYTES])
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_UINT.pack(len(packed)), packed)
        else:
            parts += (_UINT.pack(len(block) | _STORED), block)
    parts.append(_END)
    return b"".join(parts)


def frame(data: memoryview) -> memoryview:
    """The frame at the start of `data`. Raises `ValueError` if Kafka's reader would refuse it."""
    header_end = _header_end(data)
    flags = data[_FLAGS_AT]
    trailer = _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUM else 0
    position = header_end
    while True:
        if position + _UINT.size > len(data):
            raise ValueError("the frame is cut off")
        (length,) = _UINT.unpack_from(data, position)
        position += _UINT.size
        if length == 0:
            break
        position += (length & ~_STORED) + trailer
    if flags & _CONTENT_CHECKSUM:
        position += _CHECKSUM_BYTES
    return data[:position]


def with_checksum(data: memoryview) -> bytearray:
    """The frame with the correct header checksum."""
    return _with_checksum(data, _FLAGS_AT)


def with_old_checksum(data: memoryview) -> bytearray:
    """The frame with the header checksum of old clients, which do not accept the correct one."""
    return _with_checksum(data, 0)


def _header_end(data: memoryview) -> int:
    if data[:_FLAGS_AT] != _MAGIC or len(data) <= _FLAGS_AT:
        raise ValueError("no LZ4 frame")
    flags = data[_FLAGS_AT]
    if flags & _VERSION_MASK != _VERSION or flags & _RESERVED:
        raise ValueError(f"unknown frame flags {flags:#04x}")
    if not flags & _INDEPENDENT:
        raise ValueError("dependent block stream is unsupported")
    end = _FLAGS_AT + 3 + (8 if flags & _CONTENT_SIZE else 0)
    if end > len(data):
        raise ValueError("the frame is cut off")
    return end


def _with_checksum(data: memoryview, covered_from: int) -> bytearray:
    at = _header_end(data) - 1
    changed = bytearray(data)
    changed[at] = _xxh32(bytes(data[covered_from:at])) >> 8 & 0xFF
    return changed


def _xxh32(data: bytes) -> int:
    """xxHash of less than 16 bytes, with seed 0."""
    assert len(data) < 16, "a frame descriptor is shorter"
    first, second, third, fourth, fifth = _PRIMES
    value = fifth + len(data)
    words = len(data) & ~3
    for at in range(0, words, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * third & _WORD
        value = (value << 17 | value >> 15) * fourth & _WORD
    for byte in data[words:]:
        value = value + byte * fifth & _WORD
        value = (value << 11 | value >> 21) * first & _WORD
    value = (value ^ value >> 15) * second & _WORD
    value = (value ^ value >> 13) * third & _WORD
    return value ^ value >> 16
