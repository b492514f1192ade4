"""The parts of Protocol Buffers' wire format that a trace needs: numbers, texts and nested messages."""

from __future__ import annotations

import struct

__all__ = ["fixed64", "message", "text", "varint"]

VARINT, FIXED64, BYTES = 0, 1, 2
"""Wire types."""
DOUBLE = struct.Struct("<d")
FIXED = struct.Struct("<Q")


def varint(field: int, value: int) -> bytes:
    """An integer, a boolean or an enum; a negative one has ten bytes, as in int32 and int64."""
    return _tag(field, VARINT) + _number(value & (1 << 64) - 1)


def fixed64(field: int, value: int | float) -> bytes:
    """A fixed64 or, of a float, a double."""
    return _tag(field, FIXED64) + (DOUBLE.pack(value) if isinstance(value, float) else FIXED.pack(value))


def text(field: int, value: str) -> bytes:
    """A string; characters that UTF-8 cannot encode (half of a surrogate pair) become question marks."""
    return message(field, value.encode("utf-8", "replace"))


def message(field: int, *parts: bytes) -> bytes:
    """A message, made of its fields."""
    content = b"".join(parts)
    return _tag(field, BYTES) + _number(len(content)) + content


def _tag(field: int, wire_type: int) -> bytes:
    return _number(field << 3 | wire_type)


def _number(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
