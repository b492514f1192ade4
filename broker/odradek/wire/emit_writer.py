"""Source of `write_vN`: one straight line that appends a message to a bytearray.

A writer refuses, as Kafka's does, what its version cannot carry:
a field that is not there has to hold its default unless it is ignorable, and null has to be allowed.
It raises any of `primitives.WRITE_ERRORS`; which field it was is found out afterwards.
"""

from __future__ import annotations

from odradek.wire.emit import Source, default_source, format_name, has_tags
from odradek.wire.schema import FIXED, Field, MessageSpec, StructSpec

__all__ = ["writer_source"]


def writer_source(message: MessageSpec, version: int, formats: set[str], *, gives_way: bool = False) -> list[str]:
    """The body of the writer of one version. Formats that it packs are added to `formats`.

    One that gives way yields the number of entries that come next.
    """
    emitter = _WriterEmitter(message, version, formats, gives_way=gives_way)
    emitter.source.indent = 1
    with emitter.source.block("try:"):
        emitter.struct(message.root, "message")
        emitter.flush()
        if len(emitter.source.lines) == 1:
            emitter.source("pass")
    return emitter.source.lines


class _WriterEmitter:
    def __init__(self, message: MessageSpec, version: int, formats: set[str], *, gives_way: bool) -> None:
        self.message = message
        self.gives_way = gives_way
        self.version = version
        self.formats = formats
        self.source = Source()
        self.out = "out"
        self.values: list[str] = []
        self.codes: list[str] = []
        self.names = 0
        self.records_declared = False

    def put(self, value: str, code: str) -> None:
        """Write one fixed-size value, together with its neighbours. The code `x` is a zero byte without a value."""
        if code != "x":
            self.values.append(value)
        self.codes.append(code)

    def flush(self) -> None:
        """Emit the writing of the fixed-size values collected so far."""
        if not self.codes:
            return
        values, codes = self.values, self.codes
        self.values, self.codes = [], []
        if codes == ["x"]:
            self.source(f"{self.out}.append(0)")
            return
        self.formats.add(" ".join(codes))
        self.source(f"{self.out} += pack_{format_name(codes)}({', '.join(values)})")

    def name(self, stem: str) -> str:
        """A local variable of its own."""
        self.names += 1
        return f"{stem}_{self.names}"

    def struct(self, struct: StructSpec, value: str) -> None:
        self.refuse_absent(struct, value)
        for field in struct.present(self.version):
            self.field(field, f"{value}.{field.python_name}")
        if self.version in self.message.flexible:
            self.tags(struct, value)

    def refuse_absent(self, struct: StructSpec, value: str) -> None:
        """Values that this version has no place for."""
        wrong = [
            _differs(field, f"{value}.{field.python_name}")
            for field in struct.fields
            if self.version not in field.versions and not field.ignorable
        ]
        if self.version not in self.message.flexible and has_tags(struct, self.message):
            wrong.append(f"{value}.unknown_tagged_fields")
        if wrong:
            with self.source.block(f"if {' or '.join(wrong)}:"):
                self.source('raise Malformed("absent")')

    def field(self, field: Field, value: str) -> None:
        nullable = self.version in field.nullable
        if field.fixed is not None:
            if field.kind == "uuid":
                with self.source.block(f"if len({value}) != 16:"):
                    self.source('raise Malformed("uuid")')
            self.put(value, field.fixed[0])
        elif field.struct is not None and not field.is_array:
            self.struct_field(field, value, nullable=nullable)
        elif field.is_array:
            self.array(field, value, nullable=nullable)
        else:
            self.bytes_field(field, value, nullable=nullable)

    def struct_field(self, field: Field, value: str, *, nullable: bool) -> None:
        assert field.struct is not None
        name = self.name(field.python_name)
        if not nullable:
            self.source(f"{name} = {value}")
            if field.nullable or field.default is None:
                self.refuse_null(name)
            self.struct(field.struct, name)
            return
        self.flush()
        self.source(f"{name} = {value}")
        with self.source.block(f"if {name} is None:"):
            self.source(f"{self.out}.append(255)")
        with self.source.block("else:"):
            self.put("1", "b")
            self.struct(field.struct, name)
            self.flush()

    def refuse_null(self, value: str) -> None:
        with self.source.block(f"if {value} is None:"):
            self.source('raise Malformed("null")')

    def length(self, field: Field, length: str, *, compact: bool) -> None:
        """Write a length; of a compact one, `length` is the value plus one, in a variable."""
        if not compact:
            self.put(length, "h" if field.kind == "string" and not field.is_array else "i")
            return
        self.flush()
        long = "write_string_length" if field.kind == "string" and not field.is_array else "write_varint"
        with self.source.block(f"if {length} < 128:"):
            self.source(f"{self.out}.append({length})")
        with self.source.block("else:"):
            self.source(f"{long}({self.out}, {length})")

    def bytes_field(self, field: Field, value: str, *, nullable: bool) -> None:
        """A string, bytes or records."""
        compact = field.is_compact(self.version, self.message)
        optional = bool(field.nullable) or field.default is None
        raw = "raw" if field.kind == "string" else f"{field.kind}_"
        encoded = f"{value}.encode()" if field.kind == "string" else value
        plus_one = " + 1" if compact else ""
        if not nullable:
            if optional:
                self.refuse_null(value)
            self.source(f"{raw} = {encoded}")
            self.source(f"n = len({raw}){plus_one}")
        else:
            with self.source.block(f"if {value} is None:"):
                self.source(f'{self.raw_target(raw)} = b""')
                self.source(f"n = {0 if compact else -1}")
            with self.source.block("else:"):
                self.source(f"{raw} = {encoded}")
                self.source(f"n = len({raw}){plus_one}")
        self.length(field, "n", compact=compact)
        self.flush()
        if field.kind == "records" and self.out == "out":
            with self.source.block("if n < SPLICE_BYTES_MIN:"):
                self.source(f"out += {raw}")
            with self.source.block("else:"):
                self.source(f"splices.append((len(out), memoryview({raw})))")
        else:
            self.source(f"{self.out} += {raw}")

    def raw_target(self, raw: str) -> str:
        """The variable, with an annotation where this is its first assignment and its type cannot be inferred."""
        if raw != "records_" or self.records_declared:
            return raw
        self.records_declared = True
        return "records_: bytes | memoryview"

    def array(self, field: Field, value: str, *, nullable: bool) -> None:
        compact = field.is_compact(self.version, self.message)
        if not nullable:
            if field.nullable or field.default is None:
                self.refuse_null(value)
            self.elements(field, value, compact=compact)
            return
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.put("-1", "x" if compact else "i")
            self.flush()
        with self.source.block("else:"):
            self.elements(field, value, compact=compact)

    def elements(self, field: Field, value: str, *, compact: bool) -> None:
        self.source(f"n = len({value}){' + 1' if compact else ''}")
        self.length(field, "n", compact=compact)
        self.flush()
        if field.kind in FIXED and field.kind != "uuid":
            self.source(f"{self.out} += PACK_{field.kind.upper()}S[{'n - 1' if compact else 'n'}](*{value})")
            return
        name = self.name(field.python_name)
        with self.source.block(f"for {name} in {value}:"):
            if self.gives_way:
                self.source("yield 1")
            if field.struct is not None:
                self.struct(field.struct, name)
                self.flush()
                if self.source.lines[-1].endswith(":"):
                    self.source("pass")
            elif field.kind == "uuid":
                with self.source.block(f"if len({name}) != 16:"):
                    self.source('raise Malformed("uuid")')
                self.source(f"{self.out} += {name}")
            else:
                self.element(field, name, compact=compact)

    def element(self, field: Field, name: str, *, compact: bool) -> None:
        """One string or bytes of an array."""
        self.source(f"raw = {name}.encode()" if field.kind == "string" else f"raw = {name}")
        self.source(f"n = len(raw){' + 1' if compact else ''}")
        if compact:
            with self.source.block("if n < 128:"):
                self.source(f"{self.out}.append(n)")
            with self.source.block("else:"):
                self.source(f"{'write_string_length' if field.kind == 'string' else 'write_varint'}({self.out}, n)")
        else:
            self.put("n", "h" if field.kind == "string" else "i")
            self.flush()
        self.source(f"{self.out} += raw")

    def tags(self, struct: StructSpec, value: str) -> None:
        """The tagged fields at the end of a flexible struct."""
        known = struct.tagged(self.version)
        unknown = f"{value}.unknown_tagged_fields"
        if not known:
            self.put("0", "x")
            self.flush()
            with self.source.block(f"if {unknown}:"):
                self.source(f"replace_tags({self.out}, {unknown})")
            return
        self.flush()
        tags = self.name("tags")
        self.source(f"{tags}: list[tuple[int, bytearray]] = []")
        for field in known:
            self.tagged_field(field, f"{value}.{field.python_name}", tags)
        with self.source.block(f"if {tags} or {unknown}:"):
            defined = ", ".join(str(field.tag) for field in known)
            self.source(f"write_tags({self.out}, {tags}, {unknown}, ({defined},))")
        with self.source.block("else:"):
            self.source(f"{self.out}.append(0)")

    def tagged_field(self, field: Field, value: str, tags: str) -> None:
        """A tagged field is written only where it differs from its default."""
        outer, self.out = self.out, self.name("part")
        with self.source.block(f"if {_differs(field, value, strict=True)}:"):
            self.source(f"{self.out} = bytearray()")
            if field.struct is not None and not field.is_array and self.version in field.nullable:
                self.tagged_nullable_struct(field, value)
            else:
                self.field(field, value)
            self.flush()
            self.source(f"{tags}.append(({field.tag}, {self.out}))")
        self.out = outer

    def tagged_nullable_struct(self, field: Field, value: str) -> None:
        """Here a varint stands in front, not an int8."""
        assert field.struct is not None
        name = self.name(field.python_name)
        self.source(f"{name} = {value}")
        with self.source.block(f"if {name} is None:"):
            self.source(f"{self.out}.append(0)")
        with self.source.block("else:"):
            self.source(f"{self.out}.append(1)")
            self.struct(field.struct, name)
            self.flush()


def _differs(field: Field, value: str, *, strict: bool = False) -> str:
    """A condition: the field does not hold its default."""
    if field.default is None:
        return f"{value} is not None"
    if field.default is ...:
        return f"{value} != DEFAULT_{field.kind.upper()}"
    if not strict and not field.nullable and field.kind != "uuid" and not field.default:
        return value
    return f"{value} != {default_source(field)}"
