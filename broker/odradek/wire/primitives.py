"""Functions for generated readers and writers, for values that do not fit their fast path.

Generated code handles nearly every value, a length below 127 in one byte, in line;
longer values and invalid ones are handled here.
For invalid bytes a reader raises any of `READ_ERRORS` without details:
`odradek.wire.explain` reads the bytes again, slowly, and finds the place.
A uuid stands in texts as `uuid_text` has it.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TypeAlias

__all__ = [
    "ARRAY_ELEMENTS_MAX",
    "PACK_INT8S",
    "PACK_INT16S",
    "PACK_INT32S",
    "PACK_INT64S",
    "READ_ERRORS",
    "SPLICE_BYTES_MIN",
    "STRING_BYTES_MAX",
    "TAGS_MAX",
    "UNPACK_INT8S",
    "UNPACK_INT16S",
    "UNPACK_INT32S",
    "UNPACK_INT64S",
    "WRITE_ERRORS",
    "ZERO_UUID",
    "Malformed",
    "Splices",
    "long_count",
    "long_length",
    "long_nullable_count",
    "long_nullable_string",
    "long_string",
    "long_tag_count",
    "long_varint",
    "read_varint",
    "replace_tags",
    "unknown_tags",
    "uuid_text",
    "write_string_length",
    "write_tags",
    "write_varint",
]

ZERO_UUID = bytes(16)

STRING_BYTES_MAX = 0x7FFF
"""Kafka holds compact strings to the limit of the older ones."""

ARRAY_ELEMENTS_MAX = 1_000_000
TAGS_MAX = 10_000
"""Kafka refuses to read more (`MessageUtil`): a struct may take two bytes in a frame and a hundred as an object."""

SPLICE_BYTES_MIN = 1024
"""Records from this size on are not copied into the output. Below it a copy costs less than one more chunk."""

_LENGTH_MAX = 0x7FFF_FFFF

Splices: TypeAlias = list[tuple[int, memoryview]]
"""Views that belong into the output, each with the position in front of which it goes; in rising order."""


class Malformed(Exception):
    """The bytes are invalid; the place is found later. Never leaves this package."""


READ_ERRORS = (Malformed, struct.error, IndexError, UnicodeDecodeError)
"""All exceptions of a generated reader for bytes that are not a message."""

WRITE_ERRORS = (Malformed, struct.error, AttributeError, TypeError, ValueError)
"""All exceptions of a generated writer for a message that it cannot write."""


def uuid_text(uuid: bytes | bytearray | memoryview) -> str:
    """A uuid as Kafka writes it: URL-safe Base64 without padding."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def read_varint(buf: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 31 bits: its value and the position behind it."""
    value = buf[pos]
    pos += 1
    return (value, pos) if value < 128 else long_varint(buf, pos, value)


def long_varint(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte says that there is more."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > _LENGTH_MAX:
                break
            return value, pos
    raise Malformed("varint")


def long_length(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """A compact length, plus one, that is not in one byte; or null, which is refused here."""
    length, pos = long_varint(buf, pos, first) if first else (0, pos)
    # A zero may also be spelled in two bytes.
    if length == 0:
        raise Malformed("null")
    return length, pos


def long_string(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `long_length`, held to the limit of strings."""
    length, pos = long_length(buf, pos, first)
    if length > STRING_BYTES_MAX + 1:
        raise Malformed("string too long")
    return length, pos


def long_nullable_string(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `long_varint`, held to the limit of strings."""
    length, pos = long_varint(buf, pos, first)
    if length > STRING_BYTES_MAX + 1:
        raise Malformed("string too long")
    return length, pos


def long_count(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `long_length`, held to the limit of arrays."""
    length, pos = long_length(buf, pos, first)
    if length > ARRAY_ELEMENTS_MAX + 1:
        raise Malformed("array too long")
    return length, pos


def long_nullable_count(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `long_varint`, held to the limit of arrays."""
    length, pos = long_varint(buf, pos, first)
    if length > ARRAY_ELEMENTS_MAX + 1:
        raise Malformed("array too long")
    return length, pos


def long_tag_count(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `long_varint`, held to the limit of tagged fields."""
    count, pos = long_varint(buf, pos, first)
    if count > TAGS_MAX:
        raise Malformed("too many tagged fields")
    return count, pos


def unknown_tags(buf: memoryview, pos: int, count: int) -> tuple[list[tuple[int, bytes]], int]:
    """The tagged fields of a struct that has none of its own. `count` is the byte in front of them."""
    if count > 127:
        count, pos = long_tag_count(buf, pos, count)
    tags = []
    for _ in range(count):
        tag, pos = read_varint(buf, pos)
        size, pos = read_varint(buf, pos)
        tags.append((tag, bytes(buf[pos : pos + size])))
        pos += size
    return tags, pos


def write_varint(out: bytearray, value: int) -> None:
    """An unsigned varint."""
    if value > _LENGTH_MAX:
        raise Malformed("varint")
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_string_length(out: bytearray, length: int) -> None:
    """A compact length of a string, held to the limit of strings."""
    if length > STRING_BYTES_MAX + 1:
        raise Malformed("string too long")
    write_varint(out, length)


def replace_tags(out: bytearray, unknown: list[tuple[int, bytes]]) -> None:
    """Unknown tagged fields in place of the count 0 that was just written."""
    del out[-1]
    write_tags(out, [], unknown, ())


def write_tags(
    out: bytearray, known: list[tuple[int, bytearray]], unknown: list[tuple[int, bytes]], defined: tuple[int, ...]
) -> None:
    """All tagged fields of a struct, by tag; the known ones come in rising order.

    Unknown ones have to be in rising order and must not have a tag that this version defines.
    """
    fields: list[tuple[int, bytes | bytearray]] = list(known)
    if unknown:
        _check_rising(unknown, defined)
        fields = sorted([*known, *unknown])
    write_varint(out, len(fields))
    for tag, data in fields:
        size = len(data)
        if tag < 128 and size < 128:
            out.append(tag)
            out.append(size)
        else:
            write_varint(out, tag)
            write_varint(out, size)
        out += data


def _check_rising(fields: list[tuple[int, bytes]], defined: tuple[int, ...] = ()) -> None:
    last = -1
    for tag, _ in fields:
        if tag <= last:
            raise Malformed("tags out of order")
        if tag in defined:
            raise Malformed("a defined tag among the unknown ones")
        last = tag


_KEPT_LENGTHS = 64


class _Unpackers(dict[int, Callable[[memoryview, int], tuple[int, ...]]]):
    """`unpack_from` of arrays of one fixed type, by length; short ones are kept."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, length: int) -> Callable[[memoryview, int], tuple[int, ...]]:
        unpack = struct.Struct(f">{length}{self.code}").unpack_from
        if length < _KEPT_LENGTHS:
            self[length] = unpack
        return unpack


class _Packers(dict[int, Callable[..., bytes]]):
    """`pack` of arrays of one fixed type, by length; short ones are kept."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, length: int) -> Callable[..., bytes]:
        pack = struct.Struct(f">{length}{self.code}").pack
        if length < _KEPT_LENGTHS:
            self[length] = pack
        return pack


UNPACK_INT8S, PACK_INT8S = _Unpackers("b"), _Packers("b")
UNPACK_INT16S, PACK_INT16S = _Unpackers("h"), _Packers("h")
UNPACK_INT32S, PACK_INT32S = _Unpackers("i"), _Packers("i")
UNPACK_INT64S, PACK_INT64S = _Unpackers("q"), _Packers("q")
