"""The outcome of an operation of the controller: records to write, the reply, and facts for the log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.partition_record import PartitionRecord

__all__ = ["Change", "Failure", "MadeWhenRead", "Spend", "unlimited"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Change(Struct, Generic[T]):
    """The outcome of one operation; without records nothing changes."""

    reply: T
    records: list[Struct] = []
    behind: Sequence[PartitionRecord] = ()
    """Records behind those, which are made when they are read; a long topic is written in parts."""
    facts: list[Fact] = []
    quorum_level: int = 0
    """The level that kraft.version gets, with control records before the others; 0: the one that it has."""

    def add_behind(self) -> None:
        """Others follow: the records behind become records like all."""
        self.records += self.behind
        self.behind = ()


class MadeWhenRead(Sequence[T_co]):
    """A sequence that keeps no elements, but makes each one when it is read: a topic may have 100,000 partitions."""

    @abstractmethod
    def _made(self, index: int) -> T_co:
        """The element of an index from 0 on."""

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        indexes = range(len(self))[index]
        return [self._made(each) for each in indexes] if isinstance(indexes, range) else self._made(indexes)


Spend = Callable[[int], bool]
"""Whether this many more partitions may be created or deleted now (KIP-599)."""


def unlimited(_: int) -> bool:
    """Without a quota every client may create and delete as many partitions as it wants."""
    return True


class Failure(Struct, frozen=True):
    """The reason why one part of a request is refused; other parts may succeed."""

    error: ErrorCode
    message: str | None = None
