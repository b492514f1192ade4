"""Zigzag varints, in which record bodies are written; a field that ends too early is an `IndexError` for the caller."""

from __future__ import annotations

from odradek.records.compression import Payload

__all__ = ["Readable", "read_zigzag", "read_zigzag_long", "write_zigzag"]

Readable = Payload | memoryview
"""Records as they lie in a batch. A view needs no copy, and takes longer for each byte that is looked at."""

_INT_BITS = 32
_LONG_BITS = 64


def write_zigzag(out: bytearray, value: int) -> None:
    """Append a signed number of up to 64 bits: small absolute values take one byte."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)


def read_zigzag(data: Readable, position: int) -> tuple[int, int]:
    """A 32-bit number of at most five bytes, and the position behind it."""
    byte = data[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long_form(data, position, _INT_BITS)


def read_zigzag_long(data: Readable, position: int) -> tuple[int, int]:
    """A 64-bit number of at most ten bytes, and the position behind it."""
    byte = data[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long_form(data, position, _LONG_BITS)


def _read_long_form(data: Readable, position: int, bits: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            value &= (1 << bits) - 1  # surplus bits of the last byte are dropped, as in Java
            return (value >> 1) ^ -(value & 1), position
    raise ValueError(f"a varint of {bits} bits is longer than {(bits + 6) // 7} bytes")
