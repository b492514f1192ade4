"""Did exactly-once hold? Compares the reports of producers, the log, and the reads of the consumer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from odradek.demo.ledger import Promise, Stage
from odradek.demo.lines import Seen
from odradek.demo.log import Outcome, Written

__all__ = ["Kind", "Verdict", "judge"]

EXAMPLES_MAX = 3
Part = tuple[str, int]
ONE = {"s": "", "were": "was", "are": "is"}
MANY = {"s": "s", "were": "were", "are": "are"}


class Kind(StrEnum):
    """Kinds of violations, each as the end of a sentence that begins with a number; `told` fits it to the number."""

    BROKEN_COMMIT = "transaction{s} {were} confirmed as committed, but {are} not committed whole in the log"
    BROKEN_ABORT = "transaction{s} {were} aborted, or never asked to commit, but {are} committed in the log"
    TORN = "transaction{s} {are} committed in part only"
    NEVER_ENDED = "transaction{s} {are} still open in the log"
    WRITTEN_TWICE = "record{s} {are} committed more than once in the log"
    UNKNOWN = "transaction{s} in the log {were} begun by no producer"
    NOT_READ = "committed record{s} {were} not read"
    READ_TWICE = "record{s} {were} read more than once"
    READ_ABORTED = "record{s} of aborted transactions {were} read"
    READ_OPEN = "record{s} of open transactions {were} read"
    READ_FROM_NOWHERE = "record{s} {were} read and {are} not in the log"
    READ_DIFFERENT = "record{s} {were} read with another content than the log has"
    CONSUMER_STUCK = "partition{s} {were} not read to the end"
    CONSUMER_SAYS = "record{s} looked wrong to the consumer itself"
    NOTHING = "transaction{s} {were} committed, so nothing was shown"

    def told(self, count: int) -> str:
        """The sentence about this number of violations."""
        words = ONE if count == 1 else MANY
        return f"{count} {self.format(**words)}"


class Verdict(Struct, frozen=True):
    """Violations by kind, with their number and a few examples; and the counts of a good run."""

    violations: dict[Kind, tuple[int, list[str]]]
    committed: int
    not_committed: int
    unknown_committed: int
    unknown_aborted: int
    records_committed: int
    records_aborted: int
    records_read: int

    @property
    def held(self) -> bool:
        """Whether every committed transaction, and nothing else, was read once and whole."""
        return not self.violations


def judge(
    promises: Mapping[str, Promise],
    log: Iterable[Written],
    seen: Iterable[Seen],
    *,
    noticed: Iterable[str] = (),
    stuck: Iterable[str] = (),
) -> Verdict:
    """Compare. `noticed` has sentences of the consumer, and `stuck` the places where it stopped."""
    written, read = list(log), list(seen)
    transfers = _Transfers(written)
    found: defaultdict[Kind, list[str]] = defaultdict(list)
    for kind, example in (
        *((Kind.CONSUMER_STUCK, where) for where in stuck),
        *((Kind.CONSUMER_SAYS, what) for what in noticed),
        *((Kind.UNKNOWN, name) for name in transfers.names if name not in promises),
        *_promises_kept(promises, transfers),
        *_whole(transfers),
        *_read_once({(at.partition, at.offset): at for at in written}, read),
    ):
        found[kind].append(example)
    committed = {name for name in transfers.names if transfers.parts(name, Outcome.COMMITTED)}
    if not committed:
        found[Kind.NOTHING] = []
    unknown = [name for name, promise in promises.items() if promise.stage is Stage.COMMITTING]
    outcomes = Counter(at.outcome for at in written)
    return Verdict(
        violations={kind: (len(examples), examples[:EXAMPLES_MAX]) for kind, examples in found.items()},
        committed=len(committed),
        not_committed=len(promises) - len(committed),
        unknown_committed=sum(name in committed for name in unknown),
        unknown_aborted=sum(name not in committed for name in unknown),
        records_committed=outcomes[Outcome.COMMITTED],
        records_aborted=outcomes[Outcome.ABORTED],
        records_read=len(read),
    )


class _Transfers:
    """The log by transfer: how often each part has each outcome."""

    def __init__(self, written: Iterable[Written]) -> None:
        self._parts: defaultdict[tuple[str, Outcome], Counter[int]] = defaultdict(Counter)
        self.names: dict[str, int] = {}
        for at in written:
            self.names[at.posting.transfer] = at.posting.parts
            self._parts[at.posting.transfer, at.outcome][at.posting.part] += 1

    def parts(self, name: str, outcome: Outcome) -> Mapping[int, int]:
        return self._parts.get((name, outcome), {})

    def is_whole(self, name: str) -> bool:
        return set(range(self.names.get(name, 1))) == set(self.parts(name, Outcome.COMMITTED))


def _promises_kept(promises: Mapping[str, Promise], transfers: _Transfers) -> Iterator[tuple[Kind, str]]:
    for name, promise in promises.items():
        if promise.stage is Stage.COMMITTED and not transfers.is_whole(name):
            yield Kind.BROKEN_COMMIT, name
        if not promise.may_be_committed and transfers.parts(name, Outcome.COMMITTED):
            yield Kind.BROKEN_ABORT, name


def _whole(transfers: _Transfers) -> Iterator[tuple[Kind, str]]:
    for name in transfers.names:
        parts = transfers.parts(name, Outcome.COMMITTED)
        if parts and not transfers.is_whole(name):
            yield Kind.TORN, f"{name} with parts {sorted(parts)} of {transfers.names[name]}"
        if transfers.parts(name, Outcome.OPEN):
            yield Kind.NEVER_ENDED, name
        for part, times in parts.items():
            if times > 1:
                yield Kind.WRITTEN_TWICE, f"part {part} of {name}"


def _read_once(written: Mapping[tuple[int, int], Written], read: Iterable[Seen]) -> Iterator[tuple[Kind, str]]:
    times: Counter[tuple[int, int]] = Counter()
    for record in read:
        position = (record.partition, record.offset)
        times[position] += 1
        if times[position] == 2:
            yield Kind.READ_TWICE, _place(position)
        at = written.get(position)
        if at is None:
            yield Kind.READ_FROM_NOWHERE, _place(position)
        elif at.outcome in _WRONG_TO_READ:
            yield _WRONG_TO_READ[at.outcome], _place(position)
        elif at.posting != record.posting:
            yield Kind.READ_DIFFERENT, _place(position)
    for position, at in written.items():
        if at.outcome is Outcome.COMMITTED and position not in times:
            yield Kind.NOT_READ, _place(position)


_WRONG_TO_READ = {Outcome.ABORTED: Kind.READ_ABORTED, Outcome.OPEN: Kind.READ_OPEN}


def _place(position: tuple[int, int]) -> str:
    return f"offset {position[1]} of partition {position[0]}"
