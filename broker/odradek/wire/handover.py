"""Messages handed over within a process: what the wire would have made of them, without the bytes.

A hand is a function emitted from the schema when the first message of its kind is handed over. It copies the message,
so that neither side sees what the other one does to it, and fills in the defaults of fields that the version does not
have. Whatever is out of the ordinary (a value that the version cannot carry, an unknown tagged field, a string that may
be too long) takes the way through the bytes, which knows what to do about it.
Only the range of integers is not looked at, nor whether a string has characters that UTF-8 does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from odradek.wire import registry
from odradek.wire.primitives import Splices
from odradek.wire.registry import Reader, Writer

if TYPE_CHECKING:
    from odradek.wire.schema import Field, MessageSpec, StructSpec

__all__ = ["Hand", "hand", "through_bytes"]

Hand: TypeAlias = Callable[[msgspec.Struct], msgspec.Struct]
"""Gives the receiver's copy of a message; raises `EncodeError` where the version cannot carry it."""

SURELY_SHORT = 8191
"""A string of so many characters is short enough in any script; one that has more is measured."""


@cache
def hand(cls: type[msgspec.Struct], version: int) -> Hand:
    """The hand of one version. Raises ValueError for a version that the message does not have."""
    lowest, highest = registry.valid_versions(cls)
    if not lowest <= version <= highest:
        raise ValueError(f"{cls.__name__} has versions {lowest} to {highest}, not {version}")
    lines = _Emitter(registry.spec(cls), version).function()
    namespace = dict(vars(sys.modules[cls.__module__]))
    namespace |= {"slow": _SlowHand(cls, version), "ZERO_UUID": bytes(16)}
    exec(compile("\n".join(lines), f"<hand of {cls.__name__} v{version}>", "exec"), namespace)
    made: Hand = namespace["hand"]
    return made


class _SlowHand:
    """The way through the bytes; its reader and writer are loaded when a message first needs it."""

    def __init__(self, cls: type[msgspec.Struct], version: int) -> None:
        self._of = cls, version

    def __call__(self, message: msgspec.Struct) -> msgspec.Struct:
        return self._hand(message)

    @cached_property
    def _hand(self) -> Hand:
        return through_bytes(registry.reader(*self._of), registry.writer(*self._of))


def through_bytes(read: Reader[msgspec.Struct], write: Writer[msgspec.Struct]) -> Hand:
    """A hand that writes the message and reads it again."""

    def slow(message: msgspec.Struct) -> msgspec.Struct:
        out = bytearray()
        splices: Splices = []
        write(message, out, splices)
        return read(memoryview(b"".join(registry.join(out, splices))), 0)[0]

    return slow


class _Emitter:
    """Source of the copy of one message in one version."""

    def __init__(self, message: MessageSpec, version: int) -> None:
        self._message = message
        self._version = version
        self._lines: list[str] = []
        self._names = 0

    def function(self) -> list[str]:
        made = self._struct(self._message.root, "message", 1)
        return ["def hand(message):", *self._lines, f"    return {made}"]

    def _struct(self, struct: StructSpec, value: str, depth: int) -> str:
        """Lines that look at the fields of a struct; the expression that makes its copy."""
        from odradek.wire.emit import default_source, has_tags

        unusual = [f"{value}.unknown_tagged_fields"] if has_tags(struct, self._message) else []
        arguments = []
        for field in struct.fields:
            own = f"{value}.{field.python_name}"
            if self._version not in field.versions:
                if not field.ignorable:
                    unusual.append(_differs(field, own))
                arguments.append(default_source(field) if field.default is not ... else f"{field.kind}()")
            else:
                arguments.append(self._field(field, own, depth))
        if unusual:
            self._unless(" or ".join(unusual), depth)
        return f"{struct.name}({', '.join(arguments)})"

    def _field(self, field: Field, value: str, depth: int) -> str:
        if field.fixed is not None:
            if field.kind == "uuid":
                self._unless(f"len({value}) != 16", depth)
            return value
        if self._version in field.nullable:
            name = self._name(field)
            self._line(f"{name} = {value}", depth)
            self._line(f"if {name} is not None:", depth)
            self._line(f"{name} = {self._some(field, name, depth + 1)}", depth + 1)
            return name
        if field.nullable or field.default is None:
            self._unless(f"{value} is None", depth)
        return self._some(field, value, depth)

    def _some(self, field: Field, value: str, depth: int) -> str:
        """The copy of a value that is not null."""
        if field.is_array:
            return self._array(field, value, depth)
        if field.struct is not None:
            return self._struct(field.struct, value, depth)
        return self._plain(field, value, depth)

    def _plain(self, field: Field, value: str, depth: int) -> str:
        if field.kind == "string":
            self._unless(f"len({value}) > {SURELY_SHORT}", depth)
            return value
        return f"memoryview(bytes({value}))" if field.kind == "records" else f"bytes({value})"

    def _array(self, field: Field, value: str, depth: int) -> str:
        if field.struct is None and field.kind not in ("string", "bytes", "records", "uuid"):
            return f"[*{value}]"
        made, each = self._name(field), self._name(field)
        self._line(f"{made} = []", depth)
        self._line(f"for {each} in {value}:", depth)
        if field.struct is not None:
            copy = self._struct(field.struct, each, depth + 1)
        elif field.kind == "uuid":
            self._unless(f"len({each}) != 16", depth + 1)
            copy = each
        else:
            copy = self._plain(field, each, depth + 1)
        self._line(f"{made}.append({copy})", depth + 1)
        return made

    def _unless(self, condition: str, depth: int) -> None:
        """Where this is so, the bytes decide."""
        self._line(f"if {condition}: return slow(message)", depth)

    def _line(self, line: str, depth: int) -> None:
        self._lines.append("    " * depth + line)

    def _name(self, field: Field) -> str:
        self._names += 1
        return f"{field.python_name}_{self._names}"


def _differs(field: Field, value: str) -> str:
    """A condition: the field does not hold its default."""
    from odradek.wire.emit import default_source

    if field.default is None:
        return f"{value} is not None"
    return f"{value} != {f'{field.kind}()' if field.default is ... else default_source(field)}"
