"""The slow path of an error: which field it was, and where.

A generated reader that fails says only that it failed.
Then the same bytes are read once more, by the schema, one field after the other, until the one is found that cannot be;
a message that cannot be written is looked through in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

from msgspec import Struct

from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.primitives import ARRAY_ELEMENTS_MAX, STRING_BYTES_MAX, TAGS_MAX
from odradek.wire.schema import FIXED, Field, MessageSpec, StructSpec, Value, parse

__all__ = ["decode_error", "encode_error", "spec_of"]

spec_of = cache(parse)
"""The parsed schema of a generated module: `spec_of(module.SCHEMA)`."""


def decode_error(schema: str, version: int, buf: memoryview, start: int) -> DecodeError:
    """Find what is wrong with bytes that a reader has refused."""
    spec = spec_of(schema)
    reader = _Reader(spec, version, buf, start)
    try:
        reader.struct(spec.root)
    except DecodeError as error:
        return error
    # Cannot be: the fuzz test proves that both readers refuse the same bytes.
    return reader.fail("refused by its reader, but readable")


class _Reader:
    def __init__(self, spec: MessageSpec, version: int, buf: memoryview, pos: int) -> None:
        self.spec = spec
        self.version = version
        self.buf = buf
        self.pos = pos
        self.path: list[str] = []

    def fail(self, reason: str, pos: int | None = None) -> DecodeError:
        return DecodeError(
            reason,
            field="".join(self.path).removeprefix("."),
            offset=self.pos if pos is None else pos,
            message=self.spec.name,
        )

    @contextmanager
    def inside(self, step: str) -> Iterator[None]:
        self.path.append(step)
        yield
        self.path.pop()

    def skip(self, size: int, what: str) -> int:
        """Pass over `size` bytes; return where they begin."""
        left = len(self.buf) - self.pos
        if size > left:
            raise self.fail(f"{what} takes {size} bytes, but {left} are left")
        self.pos += size
        return self.pos - size

    def varint(self, what: str) -> int:
        start = self.pos
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.buf[self.skip(1, what)]
            value |= (byte & 0x7F) << shift
            if byte < 128:
                if value > 0x7FFF_FFFF:
                    raise self.fail(f"{what} is a varint above 31 bits", start)
                return value
        raise self.fail(f"{what} is a varint of more than 5 bytes", start)

    def integer(self, size: int, what: str) -> int:
        start = self.skip(size, what)
        return int.from_bytes(self.buf[start : self.pos], "big", signed=True)

    def struct(self, struct: StructSpec) -> None:
        for field in struct.present(self.version):
            with self.inside(f".{field.python_name}"):
                self.field(field)
        if self.version in self.spec.flexible:
            self.tags(struct)

    def field(self, field: Field) -> None:
        if field.fixed is not None:
            self.skip(field.fixed[1], f"this {field.kind}")
        elif field.struct is not None and not field.is_array:
            if self.version not in field.nullable or self.integer(1, "the mark of a nullable struct") >= 0:
                self.struct(field.struct)
        else:
            self.variable(field)

    def variable(self, field: Field) -> None:
        compact = field.is_compact(self.version, self.spec)
        start = self.pos
        length = self.length(compact=compact, short=field.kind == "string" and not field.is_array)
        if length == -1:
            if self.version not in field.nullable:
                raise self.fail("null is not allowed here", start)
        elif field.is_array:
            self.array(field, length, start, compact=compact)
        else:
            self.content(field.kind, length, start)

    def length(self, *, compact: bool, short: bool) -> int:
        start = self.pos
        if compact:
            return self.varint("its length") - 1
        length = self.integer(2 if short else 4, "its length")
        if length < -1:
            raise self.fail(f"its length is {length}", start)
        return length

    def content(self, kind: str, length: int, start: int) -> None:
        if kind == "string" and length > STRING_BYTES_MAX:
            raise self.fail(f"a string of {length} bytes is longer than {STRING_BYTES_MAX}", start)
        begin = self.skip(length, f"this {kind}")
        if kind == "string":
            try:
                str(self.buf[begin : self.pos], "utf-8")
            except UnicodeDecodeError as error:
                raise self.fail("not UTF-8", begin + error.start) from None

    def array(self, field: Field, count: int, start: int, *, compact: bool) -> None:
        left = len(self.buf) - self.pos
        if count > left:
            raise self.fail(f"{count} elements cannot be in the {left} bytes that are left", start)
        if count > ARRAY_ELEMENTS_MAX:
            raise self.fail(f"{count} elements are more than {ARRAY_ELEMENTS_MAX}", start)
        for index in range(count):
            with self.inside(f"[{index}]"):
                if field.struct is not None:
                    self.struct(field.struct)
                elif field.kind in FIXED:
                    self.skip(FIXED[field.kind][1], f"this {field.kind}")
                else:
                    self.element(field.kind, compact=compact)

    def element(self, kind: str, *, compact: bool) -> None:
        start = self.pos
        length = self.length(compact=compact, short=kind == "string")
        if length == -1:
            raise self.fail("null is not allowed here", start)
        self.content(kind, length, start)

    def tags(self, struct: StructSpec) -> None:
        known = {field.tag: field for field in struct.tagged(self.version)}
        absent = {field.tag for field in struct.fields} - known.keys()
        with self.inside(".tagged_fields"):
            start = self.pos
            count = self.varint("their number")
            if count > TAGS_MAX:
                raise self.fail(f"{count} tagged fields are more than {TAGS_MAX}", start)
        for _ in range(count):
            with self.inside(".tagged_fields"):
                start = self.pos
                tag = self.varint("a tag")
                if tag in absent:
                    raise self.fail(f"this version has no tag {tag}", start)
            field = known.get(tag)
            with self.inside(f".tagged_fields[{tag}]" if field is None else f".{field.python_name}"):
                start = self.pos
                size = self.varint("the size of a tagged field")
                stop = self.pos + size
                if field is None:
                    self.skip(size, "this tagged field")
                else:
                    self.tagged_field(field)
                    if self.pos != stop:
                        raise self.fail(f"its size is {size}, but it takes {size + self.pos - stop}", start)

    def tagged_field(self, field: Field) -> None:
        if field.struct is not None and not field.is_array and self.version in field.nullable:
            if self.varint("the mark of a nullable struct"):
                self.struct(field.struct)
        else:
            self.field(field)


def encode_error(schema: str, version: int, message: object) -> EncodeError:
    """Find what is wrong with a message that a writer has refused."""
    spec = spec_of(schema)
    found = next(_struct_faults(spec, version, spec.root, message), None)
    field, reason = found or ("", "cannot be written")
    return EncodeError(reason, field=field.removeprefix("."), message=spec.name)


_Faults = Iterator[tuple[str, str]]


def _struct_faults(spec: MessageSpec, version: int, struct: StructSpec, value: object) -> _Faults:
    for field in struct.fields:
        name = f".{field.python_name}"
        if not isinstance(value, Struct) or not hasattr(value, field.python_name):
            yield name, f"{type(value).__name__} has no such field"
            return
        for path, reason in _field_faults(spec, version, field, field.of(value)):
            yield name + path, reason
    tags = getattr(value, "unknown_tagged_fields", [])
    if tags and version not in spec.flexible:
        yield ".unknown_tagged_fields", "this version has no tagged fields"
    elif tags:
        for reason in _tag_faults([tag for tag, _ in tags], {field.tag for field in struct.tagged(version)}):
            yield ".unknown_tagged_fields", reason


def _tag_faults(tags: list[int], known: set[int | None]) -> Iterator[str]:
    if any(second <= first for first, second in pairwise(tags)):
        yield "the tags do not rise"
    for tag in tags:
        if tag in known or not 0 <= tag <= 0x7FFF_FFFF:
            yield f"{tag} is not the tag of an unknown field"


def _field_faults(spec: MessageSpec, version: int, field: Field, value: Value) -> _Faults:
    if version not in field.versions:
        if not field.ignorable and not _is_default(field, value):
            yield "", f"this version cannot carry it, so {value!r} would be lost"
    elif value is None:
        if version not in field.nullable:
            yield "", "null is not allowed in this version"
    elif field.is_array:
        if not isinstance(value, list | tuple):
            yield "", f"{type(value).__name__} is not a list"
            return
        for index, element in enumerate(value):
            for path, reason in _value_faults(spec, version, field, element):
                yield f"[{index}]{path}", reason
    else:
        yield from _value_faults(spec, version, field, value)


def _is_default(field: Field, value: Value) -> bool:
    if field.default is ...:
        return value is None or value == type(value)()
    return value in ([], ()) if field.default == () else value == field.default


def _value_faults(spec: MessageSpec, version: int, field: Field, value: Value) -> _Faults:
    if field.struct is not None:
        yield from _struct_faults(spec, version, field.struct, value)
        return
    reason = _scalar_fault(field.kind, value)
    if reason is not None:
        yield "", reason


def _scalar_fault(kind: str, value: Value) -> str | None:
    match kind, value:
        case "string", str():
            return _string_fault(value)
        case "uuid", bytes():
            return None if len(value) == 16 else f"a uuid of {len(value)} bytes"
        case (("bytes" | "records"), (bytes() | bytearray() | memoryview())):
            return None
        case "float64", (float() | int()):
            return None
        case (("string" | "uuid" | "bytes" | "records" | "float64"), _):
            return f"{type(value).__name__} is not {kind}"
        case _, int():
            return _integer_fault(kind, value)
        case _:
            return f"{type(value).__name__} is not {kind}"


def _integer_fault(kind: str, value: int) -> str | None:
    if kind == "bool":
        return None
    bits = int(kind.lstrip("uint"))
    lowest, highest = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return None if lowest <= value <= highest else f"{value} is out of range for {kind}"


def _string_fault(value: str) -> str | None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return f"cannot be encoded: {error.reason}"
    return None if size <= STRING_BYTES_MAX else f"a string of {size} bytes is longer than {STRING_BYTES_MAX}"
