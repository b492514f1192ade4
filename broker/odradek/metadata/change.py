"""What an operation of the controller comes to: records to write, the reply, and facts worth telling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.wire.errors import ErrorCode

__all__ = ["Change", "Failure", "Spend", "unlimited"]

T = TypeVar("T")


class Change(Struct, Generic[T]):
    """The outcome of one operation; without records nothing changes."""

    reply: T
    records: list[Struct] = []
    facts: list[Fact] = []


Spend = Callable[[int], bool]
"""Whether so many partitions more may be made or deleted now (KIP-599)."""


def unlimited(_: int) -> bool:
    """Whoever has no limit may change as many partitions as they want."""
    return True


class Failure(Struct, frozen=True):
    """Why one part of a request is refused; the other parts may succeed."""

    error: ErrorCode
    message: str | None = None
