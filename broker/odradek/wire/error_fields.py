"""The first error in a response: that of the whole, else that of its first entry that has one."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

from msgspec import Struct, structs

__all__ = ["first_error"]

Find = Callable[[Any], int]


def first_error(response: Struct) -> int:
    """The first code other than 0 (NONE): of the response itself, then of what is in it, in its order."""
    return (_FINDERS.get(type(response)) or _finder(type(response)))(response)


_FINDERS: dict[type[Struct], Find] = {}


def _finder(cls: type[Struct]) -> Find:
    """The function that looks through messages of a class; made when the first of them is looked at."""
    own, nested = [], []
    for field in structs.fields(cls):
        if field.name.endswith("error_code"):
            own.append(field.name)
        elif (inner := _struct_in(field.type)) is not None and (find := _finder(inner)) is not _nothing:
            nested.append((field.name, find))
    found = _FINDERS[cls] = _find(own, nested)
    return found


def _struct_in(kind: Any) -> type[Struct] | None:
    """The class of struct of which a field holds one, or a list."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind
    return next((inner for each in get_args(kind) if (inner := _struct_in(each)) is not None), None)


def _nothing(_: object) -> int:
    return 0


def _find(own: list[str], nested: list[tuple[str, Find]]) -> Find:
    if not nested:
        if not own:
            return _nothing
        if len(own) == 1:
            return attrgetter(own[0])

    def find(value: Any) -> int:
        for name in own:
            code: int = getattr(value, name)
            if code:
                return code
        for name, look in nested:
            inner = getattr(value, name)
            for each in inner if type(inner) is list else () if inner is None else (inner,):
                if code := look(each):
                    return code
        return 0

    return find
