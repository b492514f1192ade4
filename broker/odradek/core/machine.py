"""The contract between a machine (a coordinator, the controller) and the node that runs it.

A machine is plain and synchronous.
`decide` functions read durable state and return one of `Refused`, `Answered`, `Proposed`, `Parked` or `Awaited`;
`apply` folds committed batches and is the only writer of durable state;
`due` lists what the present state owes the world, each work once, and `wake_at` says when to ask again.
Whoever does a work says when it has `ended`, so that what is owed still is listed again: a list costs what has changed,
however much is owed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from msgspec import Struct

from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.records.batch import Batch

__all__ = [
    "Answered",
    "Awaited",
    "ControlRecord",
    "Decision",
    "Fact",
    "LogRecord",
    "Machine",
    "Parked",
    "Proposed",
    "Refused",
    "TransactionalAppend",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W")
"""A work that a machine owes."""


class LogRecord(Struct, frozen=True):
    """One record to append: serialised key and value; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


class ControlRecord(LogRecord, frozen=True):
    """A record of the quorum itself, which stands in a control batch; the metadata log has such records."""


class TransactionalAppend(Struct, frozen=True):
    """Append the proposed records as one transactional batch of this producer (offsets in a transaction)."""

    producer_id: int
    producer_epoch: int


class Refused(Struct, frozen=True):
    """The request is refused; nothing changes."""

    error: ErrorCode
    message: str | None = None


class Answered(Struct, Generic[T_co], frozen=True):
    """The request is answered from the present state; nothing is written."""

    reply: T_co


class Proposed(Struct, Generic[T_co], frozen=True):
    """Append these records; give the reply when they are committed and applied."""

    records: Sequence[LogRecord]
    reply: T_co
    transactional: TransactionalAppend | None = None


class Parked(Struct, Generic[T_co], frozen=True):
    """The request waits until the machine releases its token with a reply (`Machine.released`).

    A flow that goes away before is reported with `Machine.abandoned(token)`.
    """

    token: Hashable


class Awaited(Struct, Generic[T_co], frozen=True):
    """Append these records, and park: the token is released when they are folded, or by what comes before that.

    Where they cannot be appended or committed the request is refused, and the token abandoned.
    """

    records: Sequence[LogRecord]
    token: Hashable


Decision: TypeAlias = Refused | Answered[T] | Proposed[T] | Parked[T] | Awaited[T]


class Fact(Struct, frozen=True, gc=False):
    """Something that happened, for the event log: a kind and its fields, named as in docs/events.md."""

    kind: str
    made_of: dict[str, object]
    """The fields; a kind of facts that are told often makes them when they are read."""

    @property
    def fields(self) -> dict[str, object]:
        """The fields without a body."""
        return self.made_of

    @property
    def body(self) -> dict[str, object]:
        """The field `body` or `body_bytes`, where there is one: only some readers want it."""
        return {}


class Machine(Generic[W]):
    """Base of the machines: what a shard needs of each; `W` is what it may owe.

    `released` and `facts` are drained by the shard after every call into the machine.
    """

    def __init__(self) -> None:
        self.released: list[tuple[Hashable, object]] = []
        self.facts: list[Fact] = []

    def apply(self, batch: Batch) -> None:
        """Fold one committed batch; must not fail; control batches come through here as well."""
        raise NotImplementedError

    def fold_own(self, proposed: Proposed[object], base_offset: int) -> bool:
        """Fold what this machine has proposed, appended and committed at this offset, without reading it back.

        False where it cannot: then it comes through `apply`. Replaying the log must lead to the same state.
        """
        return False

    def awaits(self, proposed: Proposed[object], base_offset: int) -> None:
        """The machine's proposal is in the log at this offset, not committed yet; `apply` gets it then."""

    def due(self, now: int) -> Sequence[W]:
        """The works that the present state owes at `now` (ms), except those that were listed and have not `ended`.

        Each work has a hashable `key`; one that is under way may be listed again.
        """
        return ()

    def ended(self, work: W) -> bool:
        """A work that was listed is no longer under way; whether something is due now that was not before."""
        return True

    def owed(self, now: int) -> tuple[Sequence[W], int | None]:
        """`due`, then `wake_at`: a shard needs both after each change."""
        works = self.due(now)
        return works, self.wake_at()

    def wake_at(self) -> int | None:
        """When to ask `due` again (ms), or None while nothing is owed at a known time."""
        return None

    def abandoned(self, token: Hashable) -> None:
        """The flow that was parked on this token has gone away."""
