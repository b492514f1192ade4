"""Shared by the emitters of readers, writers and classes: lines with indentation, names, defaults as source.

Standard library only, as all of the generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.wire.schema import Field, MessageSpec, StructSpec

__all__ = ["Source", "annotation", "default_source", "format_name", "has_tags"]

_SCALARS = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "bytes | memoryview",
}

_FORMAT_NAMES = {"16s": "u", "?": "z"}


class Source:
    """Python source that is being written."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.indent + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under a head that ends in a colon."""
        self(head)
        self.indent += 1
        yield
        self.indent -= 1


def format_name(codes: list[str]) -> str:
    """The name of the precompiled struct with these codes: `hiB`, with a count in front of runs above three."""
    names = [_FORMAT_NAMES.get(code, code) for code in codes]
    parts: list[str] = []
    while names:
        run = next((i for i, name in enumerate(names) if name != names[0]), len(names))
        parts.append(names[0] * run if run < 4 else f"{names[0]}{run}")
        del names[:run]
    return "".join(parts)


def annotation(field: Field) -> str:
    """The type of a field, over all versions."""
    name = field.kind if field.struct is not None else _SCALARS.get(field.kind, "int")
    if field.is_array:
        name = f"list[{name}]"
    return f"{name} | None" if field.nullable or field.default is None else name


def default_source(field: Field) -> str:
    """An expression for the default of a field."""
    if field.default is ...:
        return f"{field.kind}()"
    if field.default == ():
        return "[]"
    if field.kind == "uuid" and field.default is not None:
        return "ZERO_UUID"
    return repr(field.default).replace("'", '"')


def has_tags(struct: StructSpec, message: MessageSpec) -> bool:
    """Whether the struct can hold unknown tagged fields in any version."""
    return bool(struct.versions & message.flexible)
