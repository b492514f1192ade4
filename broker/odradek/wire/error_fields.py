"""The errors in a response: the first one, and other errors in their places.

Somebody may ask this of every response, so the functions of each class are emitted from its fields, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import get_args, get_origin

from msgspec import Struct, structs

from odradek.wire.errors import ErrorCode

__all__ = ["first_error", "replace_errors"]

Find = Callable[[Struct], int]
Replace = Callable[[Struct, Mapping[ErrorCode, ErrorCode]], None]


def first_error(response: Struct) -> int:
    """The first code other than 0 (NONE): of the response itself, then of what is in it, in its order."""
    return _finder(type(response))(response)


def replace_errors(response: Struct, errors: Mapping[ErrorCode, ErrorCode]) -> None:
    """Put other errors in the place of these, in a response and in all that is in it."""
    _replacer(type(response))(response, errors)


@cache
def _finder(cls: type[Struct]) -> Find:
    lines = ["def find(value_0):", *_lines(cls, 0, "if {0}: return {0}"), "    return 0"]
    found: dict[str, Find] = {}
    exec(compile("\n".join(lines), f"<first error in {cls.__name__}>", "exec"), found)
    return found["find"]


@cache
def _replacer(cls: type[Struct]) -> Replace:
    lines = ["def replace(value_0, errors):", "    pass", *_lines(cls, 0, "if {0} in errors: {0} = errors[{0}]")]
    found: dict[str, Replace] = {}
    exec(compile("\n".join(lines), f"<errors in {cls.__name__}>", "exec"), found)
    return found["replace"]


def _lines(cls: type[Struct], depth: int, of_error: str) -> Iterator[str]:
    """Code for each error in `value_DEPTH`: a struct's own fields come before those of nested structs."""
    indent, value = "    " * (depth + 1), f"value_{depth}"
    fields = structs.fields(cls)
    for field in fields:
        if field.name.endswith("error_code"):
            yield indent + of_error.format(f"{value}.{field.name}")
    for field in fields:
        inner = _struct_in(field.type)
        within = [] if inner is None else list(_lines(inner, depth + 1, of_error))
        if within:
            held = f"{value}.{field.name}"
            is_list = any(get_origin(kind) is list for kind in (field.type, *get_args(field.type)))
            each = f"{held} or ()" if is_list else f"() if {held} is None else ({held},)"
            yield f"{indent}for value_{depth + 1} in {each}:"
            yield from within


def _struct_in(kind: object) -> type[Struct] | None:
    """The class of struct of which a field holds one, or a list."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind
    return next((inner for each in get_args(kind) if (inner := _struct_in(each)) is not None), None)
