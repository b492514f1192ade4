"""Reports of producers and consumers: JSON lines for the director, a few words a second for people."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from odradek.core.wording import counted
from odradek.demo.transfers import Fate, Posting

__all__ = [
    "AtEnd",
    "Began",
    "Committing",
    "Ended",
    "JsonLines",
    "Line",
    "Read",
    "Seen",
    "Spoken",
    "Started",
    "Tell",
    "Trouble",
    "Violated",
    "decode_line",
]

SPEAK_EVERY_S = 2.0


class Started(Struct, frozen=True, tag="started"):
    """A producer has initialised its transactional id: no earlier transaction is open."""

    transactional_id: str


class Began(Struct, frozen=True, tag="began"):
    """A transaction begins."""

    transfer: str
    parts: int
    fate: Fate


class Committing(Struct, frozen=True, tag="committing"):
    """A commit is asked for: after a crash from here on the producer does not know the outcome."""

    transfer: str


class Ended(Struct, frozen=True, tag="ended"):
    """The broker has confirmed its end."""

    transfer: str
    committed: bool


class Trouble(Struct, frozen=True, tag="trouble"):
    """An error that the client reported; `fatal` ends the process."""

    error: str
    fatal: bool = False


class Seen(Struct, frozen=True, array_like=True):
    """A record that the consumer got."""

    partition: int
    offset: int
    posting: Posting


class Read(Struct, frozen=True, tag="read"):
    """The records of one poll."""

    records: list[Seen]


class AtEnd(Struct, frozen=True, tag="at_end"):
    """The end of a partition is reached; `offset` is the next one."""

    partition: int
    offset: int


class Violated(Struct, frozen=True, tag="violated"):
    """A violation that the consumer itself noticed."""

    what: str


Line: TypeAlias = Started | Began | Committing | Ended | Trouble | Read | AtEnd | Violated

_encode = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(Line).decode


Tell: TypeAlias = Callable[[Line], None]
"""Takes the reports, at once: the process may die before later."""


class JsonLines:
    """One JSON object a line, on standard output."""

    def __call__(self, line: Line) -> None:
        print(_encode(line).decode(), flush=True)


COMMITTED = ("transaction committed", "transactions committed")
ABORTED = ("transaction aborted", "transactions aborted")
READ = ("record read", "records read")
ERROR = ("error", "errors")
VIOLATION = ("VIOLATION", "VIOLATIONS")


class Spoken:
    """Counts, every few seconds; troubles and violations at once."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._spoke = time.monotonic()

    def __call__(self, line: Line) -> None:
        """Count the line; print the counts if it is time."""
        self._count(line)
        match line:
            case Trouble(error=text) | Violated(what=text):
                print(f"{type(line).__name__.lower()}: {text}", flush=True)
            case Started(transactional_id=name):
                print(f"started as {name}", flush=True)
        if time.monotonic() >= self._spoke + SPEAK_EVERY_S:
            self.speak()

    def speak(self) -> None:
        print(
            ", ".join(counted(count, *what) for what, count in sorted(self._counts.items())) or "nothing yet",
            flush=True,
        )
        self._spoke = time.monotonic()

    def _count(self, line: Line) -> None:
        match line:
            case Ended(committed=committed):
                self._counts[COMMITTED if committed else ABORTED] += 1
            case Read(records=records):
                self._counts[READ] += len(records)
            case Trouble():
                self._counts[ERROR] += 1
            case Violated():
                self._counts[VIOLATION] += 1
