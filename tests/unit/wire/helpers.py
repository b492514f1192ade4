"""Every message in every version, and Hypothesis strategies for their contents, made from the schemas."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.examples import examples

from odradek.wire import registry
from odradek.wire.messages import MODULES
from odradek.wire.schema import Field, MessageSpec, StructSpec

__all__ = ["MESSAGES", "PROFILE", "all_versions", "messages", "numbered_message"]

PROFILE = examples(8, nightly=400)

MESSAGES = sorted(MODULES)


def all_versions() -> Iterator[tuple[type[msgspec.Struct], int]]:
    for name in MESSAGES:
        cls = registry.message_type(name)
        lowest, highest = registry.valid_versions(cls)
        for version in range(lowest, highest + 1):
            yield cls, version


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=8) | st.just("x" * 127) | st.just("ü" * 100),
    "bytes": st.binary(max_size=8) | st.just(b"y" * 127),
    "records": st.binary(max_size=8) | st.just(b"z" * 1500),
    "uuid": st.binary(min_size=16, max_size=16),
}


@cache
def messages(cls: type[msgspec.Struct], version: int) -> st.SearchStrategy[Any]:
    """Messages of this class that this version can carry."""
    spec = registry.spec(cls)
    return _struct(spec, spec.root, version, cls.__module__)


def _struct(spec: MessageSpec, struct: StructSpec, version: int, module: str) -> st.SearchStrategy[Any]:
    cls = getattr(sys.modules[module], struct.name)
    fields = {
        field.python_name: _field(spec, field, version, module) for field in struct.fields if version in field.versions
    }
    if version in spec.flexible:
        fields["unknown_tagged_fields"] = _unknown_tags(len(struct.tagged(version)))
    return st.builds(cls, **fields)


def _unknown_tags(known: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    tags = st.integers(known + 8, 2**31 - 1) | st.integers(known + 8, 300)
    some = st.dictionaries(tags, st.binary(max_size=4), max_size=2).map(lambda found: sorted(found.items()))
    return st.just([]) | some


def _field(spec: MessageSpec, field: Field, version: int, module: str) -> st.SearchStrategy[Any]:
    value = _SCALARS[field.kind] if field.struct is None else _struct(spec, field.struct, version, module)
    if field.is_array:
        value = st.lists(value, max_size=2)
    return st.none() | value if version in field.nullable else value


def numbered_message(cls: type[msgspec.Struct], version: int) -> Any:
    """A message with a different, small value in each field and two elements in each array; nothing is null."""
    spec = registry.spec(cls)
    return _numbered_struct(spec.root, version, cls.__module__, iter(range(1, 10**9)))


def _numbered_struct(struct: StructSpec, version: int, module: str, numbers: Iterator[int]) -> Any:
    cls = getattr(sys.modules[module], struct.name)
    return cls(
        **{
            field.python_name: _numbered_field(field, version, module, numbers)
            for field in struct.fields
            if version in field.versions
        }
    )


def _numbered_field(field: Field, version: int, module: str, numbers: Iterator[int]) -> Any:
    if field.is_array:
        return [_numbered_value(field, version, module, numbers) for _ in range(2)]
    return _numbered_value(field, version, module, numbers)


def _numbered_value(field: Field, version: int, module: str, numbers: Iterator[int]) -> Any:
    if field.struct is not None:
        return _numbered_struct(field.struct, version, module, numbers)
    number = next(numbers)
    match field.kind:
        case "bool":
            return number % 2 == 1
        case "float64":
            return number / 4
        case "string":
            return f"s{number}"
        case "bytes" | "records":
            return f"b{number}".encode()
        case "uuid":
            return number.to_bytes(16, "big")
        case _:
            return number % 120
