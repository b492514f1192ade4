"""Source of `read_vN`: one straight line from the first byte of a message to the last.

The body leaves out every check that a later one implies.
A slice behind the end of the buffer is silently short, but the position goes on, and positions only grow:
the next fixed field raises, or else the one check at the end of the message.
A loop over a count that the buffer cannot hold ends at the first element that is not there,
because its length or its first fixed field cannot be read; where an element has neither, the count is checked.
"""

from __future__ import annotations

from odradek.wire.emit import Source, annotation, default_source, format_name
from odradek.wire.schema import FIXED, Field, MessageSpec, StructSpec

__all__ = ["reader_source"]


def reader_source(message: MessageSpec, version: int, formats: set[str], *, gives_way: bool = False) -> list[str]:
    """The body of the reader of one version. Formats that it unpacks are added to `formats`.

    One that gives way yields the number of entries that come next.
    """
    emitter = _ReaderEmitter(message, version, formats, gives_way=gives_way)
    emitter.source.indent = 1
    emitter.source("start = pos")
    with emitter.source.block("try:"):
        result = emitter.struct(message.root, "message")
        emitter.source(result)
        with emitter.source.block("if pos > len(buf):"):
            emitter.source('raise Malformed("end")')
    return emitter.source.lines


class _ReaderEmitter:
    def __init__(self, message: MessageSpec, version: int, formats: set[str], *, gives_way: bool) -> None:
        self.message = message
        self.gives_way = gives_way
        self.version = version
        self.formats = formats
        self.source = Source()
        self.targets: list[str] = []
        self.codes: list[str] = []
        self.structs = 0
        self.declared: set[str] = set()

    def take(self, target: str, code: str) -> None:
        """Read one fixed-size value, together with its neighbours."""
        self.targets.append(target)
        self.codes.append(code)

    def declare(self, name: str, kind: str, value: str) -> None:
        """Assign, with an annotation where this is the first time."""
        self.source(f"{name} = {value}" if name in self.declared else f"{name}: {kind} = {value}")
        self.declared.add(name)

    def flush(self) -> None:
        """Emit the reading of the fixed-size values collected so far."""
        if not self.targets:
            return
        targets, codes = self.targets, self.codes
        self.targets, self.codes = [], []
        if codes == ["B"]:
            self.source(f"{targets[0]} = buf[pos]")
            self.source("pos += 1")
            return
        self.formats.add(" ".join(codes))
        left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
        self.source(f"{left} = unpack_{format_name(codes)}(buf, pos)")
        self.source(f"pos += {sum(_size(code) for code in codes)}")

    def struct(self, struct: StructSpec, target: str, *, append: bool = False) -> str:
        """Emit the reading of a struct's fields; return the statement that makes it."""
        self.structs += 1
        number = "" if self.structs == 1 else f"_{self.structs}"
        names = {field.name: _local(field.python_name, number) for field in struct.fields}
        for field in struct.present(self.version):
            self.field(field, names[field.name])
        arguments = [
            names[field.name] if self.version in field.versions else default_source(field) for field in struct.fields
        ]
        is_flexible = self.version in self.message.flexible
        if is_flexible:
            tags = f"tags{number}"
            self.tags(struct, names, tags)
            arguments.append(tags)
        if self.message.extends is not None:
            fields = [field.python_name for field in struct.fields] + ["unknown_tagged_fields"] * is_flexible
            arguments = [f"{name}={value}" for name, value in zip(fields, arguments, strict=True)]
        elif not is_flexible:
            while arguments and self.version not in struct.fields[len(arguments) - 1].versions:
                arguments.pop()
        self.flush()
        made = f"{struct.name}({', '.join(arguments)})"
        return f"{target}.append({made})" if append else f"{target} = {made}"

    def field(self, field: Field, name: str) -> None:
        compact = field.is_compact(self.version, self.message)
        nullable = self.version in field.nullable
        if field.fixed is not None:
            self.take(name, field.fixed[0])
        elif field.struct is not None and not field.is_array:
            self.struct_field(field, name, nullable=nullable, null_code="b")
        elif compact:
            self.compact_field(field, name, nullable=nullable)
        else:
            self.plain_field(field, name, nullable=nullable)

    def struct_field(self, field: Field, name: str, *, nullable: bool, null_code: str) -> None:
        assert field.struct is not None
        if not nullable:
            self.source(self.struct(field.struct, name))
            return
        self.take("n", null_code)
        self.flush()
        self.declare(name, f"{field.kind} | None", "None")
        # A tagged field's null is a varint of 0, another's an int8 below 0.
        if null_code == "B":
            with self.source.block("if n > 127:"):
                self.source("n, pos = long_varint(buf, pos, n)")
        with self.source.block("if n:" if null_code == "B" else "if n >= 0:"):
            self.source(self.struct(field.struct, name))

    def compact_field(self, field: Field, name: str, *, nullable: bool) -> None:
        """A value behind a varint of its length plus one."""
        self.take("n", "B")
        self.flush()
        rest, nullable_rest = _rest(field)
        if not nullable:
            with self.source.block("if not 0 < n < 128:"):
                self.source(f"n, pos = {rest}(buf, pos, n)")
            self.content(field, name, "n - 1")
            return
        self.declare(name, annotation(field), "None")
        with self.source.block("if n > 127:"):
            self.source(f"n, pos = {nullable_rest}(buf, pos, n)")
        with self.source.block("if n:"):
            self.content(field, name, "n - 1")

    def plain_field(self, field: Field, name: str, *, nullable: bool) -> None:
        """A value behind an int16 or int32 of its length."""
        self.take("n", "h" if field.kind == "string" and not field.is_array else "i")
        self.flush()
        if not nullable:
            with self.source.block("if not 0 <= n <= ARRAY_ELEMENTS_MAX:" if field.is_array else "if n < 0:"):
                self.source('raise Malformed("length")')
            self.content(field, name, "n")
            return
        self.declare(name, annotation(field), "None")
        with self.source.block("if 0 <= n <= ARRAY_ELEMENTS_MAX:" if field.is_array else "if n >= 0:"):
            self.content(field, name, "n")
        with self.source.block("elif n != -1:"):
            self.source('raise Malformed("length")')

    def content(self, field: Field, name: str, length: str) -> None:
        """Emit the reading of the content behind a length."""
        if field.is_array:
            self.array(field, name, length)
            return
        self.source(f"end = pos + {length}")
        self.source(f"{name} = {_SLICES[field.kind]}")
        self.source("pos = end")

    def array(self, field: Field, name: str, length: str) -> None:
        if field.kind in FIXED and field.kind != "uuid":
            size = FIXED[field.kind][1]
            if self.gives_way:
                self.source(f"yield {length}")
            self.source(f"{name} = list(UNPACK_{field.kind.upper()}S[{length}](buf, pos))")
            self.source(f"pos += {length}" if size == 1 else f"pos += {_times(size, length)}")
            return
        # Where this version has no null, the variable has none either, whatever the field's own type.
        self.declare(name, annotation(field).removesuffix(" | None"), "[]")
        silent = field.kind == "uuid"
        if field.struct is not None:
            silent = self.message.minimal_size(field.struct, self.version) == 0
        if silent:
            with self.source.block(f"if {length} > len(buf) - pos:"):
                self.source('raise Malformed("count")')
        with self.source.block(f"for _ in range({length}):"):
            if self.gives_way:
                self.source("yield 1")
            if field.struct is not None:
                self.source(self.struct(field.struct, name, append=True))
            elif field.kind == "uuid":
                self.source(f"{name}.append(bytes(buf[pos : pos + 16]))")
                self.source("pos += 16")
            else:
                self.element(field, name)

    def element(self, field: Field, name: str) -> None:
        """One string or bytes of an array."""
        compact = field.is_compact(self.version, self.message)
        self.take("n", "B" if compact else "h" if field.kind == "string" else "i")
        self.flush()
        rest = "long_string" if field.kind == "string" else "long_length"
        with self.source.block("if not 0 < n < 128:" if compact else "if n < 0:"):
            self.source(f"n, pos = {rest}(buf, pos, n)" if compact else 'raise Malformed("length")')
        self.source(f"end = pos + {'n - 1' if compact else 'n'}")
        self.source(f"{name}.append({_SLICES[field.kind]})")
        self.source("pos = end")

    def tags(self, struct: StructSpec, names: dict[str, str], tags: str) -> None:
        """The tagged fields at the end of a flexible struct."""
        known = struct.tagged(self.version)
        absent = [field for field in struct.fields if field.tag is not None and field not in known]
        self.take("n", "B")
        self.flush()
        for field in known:
            self.declare(names[field.name], annotation(field), default_source(field))
        self.source(f"{tags}: list[tuple[int, bytes]] = []")
        with self.source.block("if n:"):
            if not known and not absent:
                self.source(f"{tags}, pos = unknown_tags(buf, pos, n)")
                return
            with self.source.block("if n > 127:"):
                self.source("n, pos = long_tag_count(buf, pos, n)")
            with self.source.block("for _ in range(n):"):
                self.tag_loop(known, absent, names, tags)

    def tag_loop(self, known: list[Field], absent: list[Field], names: dict[str, str], tags: str) -> None:
        stop = tags.replace("tags", "stop")
        self.source("tag, pos = read_varint(buf, pos)")
        self.source("n, pos = read_varint(buf, pos)")
        self.source(f"{stop} = pos + n")
        branch = "if"
        for field in known:
            with self.source.block(f"{branch} tag == {field.tag}:"):
                self.tagged_field(field, names[field.name])
                self.flush()
            branch = "elif"
        for field in absent:
            # A tag that the schema knows is not an unknown one, even if this version does not have it.
            with self.source.block(f"{branch} tag == {field.tag}:"):
                self.source('raise Malformed("tag of another version")')
            branch = "elif"
        with self.source.block("else:"):
            self.source(f"{tags}.append((tag, bytes(buf[pos:{stop}])))")
            self.source(f"pos = {stop}")
        with self.source.block(f"if pos != {stop}:"):
            self.source('raise Malformed("tagged field size")')

    def tagged_field(self, field: Field, name: str) -> None:
        nullable = self.version in field.nullable
        if field.struct is not None and not field.is_array:
            self.struct_field(field, name, nullable=nullable, null_code="B")
        else:
            self.field(field, name)


_SLICES = {
    "string": 'str(buf[pos:end], "utf-8")',
    "bytes": "bytes(buf[pos:end])",
    "records": "buf[pos:end]",
}

_SIZES = {"B": 1} | dict(FIXED.values())

_RESERVED = frozenset(
    {"buf", "pos", "start", "n", "end", "tag", "tags", "stop", "message", "len", "str", "bytes", "list", "range"}
)


def _rest(field: Field) -> tuple[str, str]:
    """The functions that read a compact length of several bytes: without null, and with null."""
    if field.is_array:
        return "long_count", "long_nullable_count"
    return ("long_string", "long_nullable_string") if field.kind == "string" else ("long_length", "long_varint")


def _size(code: str) -> int:
    return _SIZES[code]


def _times(size: int, length: str) -> str:
    return f"{size} * {length}" if length.isidentifier() else f"{size} * ({length})"


def _local(name: str, number: str) -> str:
    """A name for a local variable, unlike those that the reader itself uses."""
    return f"{name}{number}" if number or name not in _RESERVED else f"{name}_1"
