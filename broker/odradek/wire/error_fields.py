"""The first error in a response: that of the whole, else that of its first entry that has one.

Somebody may ask this of every response, so the function of each class is emitted from its fields, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import get_args, get_origin

from msgspec import Struct, structs

from odradek.wire.errors import ErrorCode

__all__ = ["first_error", "replace_errors"]

Find = Callable[[Struct], int]
_FINDERS: dict[type[Struct], Find] = {}


def first_error(response: Struct) -> int:
    """The first code other than 0 (NONE): of the response itself, then of what is in it, in its order."""
    return (_FINDERS.get(type(response)) or _finder(type(response)))(response)


def replace_errors(value: object, errors: Mapping[ErrorCode, ErrorCode]) -> None:
    """Put other errors in the place of these, in a response and in all that is in it."""
    if isinstance(value, list):
        for each in value:
            replace_errors(each, errors)
    elif isinstance(value, Struct):
        for name, held in structs.asdict(value).items():
            if not name.endswith("error_code"):
                replace_errors(held, errors)
            elif held in errors:
                setattr(value, name, errors[held])


def _finder(cls: type[Struct]) -> Find:
    lines = ["def find(value_0):", *_lines(cls, 0), "    return 0"]
    namespace: dict[str, Find] = {}
    exec(compile("\n".join(lines), f"<first error in {cls.__name__}>", "exec"), namespace)
    found = _FINDERS[cls] = namespace["find"]
    return found


def _lines(cls: type[Struct], depth: int) -> Iterator[str]:
    """Code that returns the first error in `value_DEPTH`: its own fields come before those of nested structs."""
    indent, value = "    " * (depth + 1), f"value_{depth}"
    fields = structs.fields(cls)
    for field in fields:
        if field.name.endswith("error_code"):
            yield f"{indent}if {value}.{field.name}: return {value}.{field.name}"
    for field in fields:
        inner = _struct_in(field.type)
        within = [] if inner is None else list(_lines(inner, depth + 1))
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
