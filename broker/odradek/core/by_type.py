"""Tables from the type of a value to the method that takes values of that type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

__all__ = ["Take", "taken"]

T = TypeVar("T")
Take = Callable[[object], None]


def taken(kind: type[T], by: Callable[[T], None]) -> tuple[type, Take]:
    """A row of such a table. The method gets no other values: the table is asked with the type of the value."""
    return kind, cast("Take", by)
