"""The anomalies of Jepsen's Kafka checker, by its names, on one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from odradek_pipeline.audit.result import Severity, anomaly
from odradek_pipeline.history.graph import components
from odradek_pipeline.history.operations import History, Operation, Send, text_of
from odradek_pipeline.wording import counted, listed

__all__ = [
    "CHECKS",
    "Edges",
    "PollOrder",
    "SendOrder",
    "check_history",
    "cycle_through",
    "cycles_of",
    "found",
    "never_read",
    "precommitted_reads",
    "value_at_several",
    "values_at_one",
]

Anomaly = dict[str, Any]
BAD, ALLOWED = Severity.BAD, Severity.ALLOWED


def check_history(history: History) -> list[Anomaly]:
    """Every anomaly of every check."""
    return [one for check in CHECKS for one in check(history)]


def found(
    name: str, severity: Severity, detail: str, *, key: str = "", offset: int = -1, operation: Operation | None = None
) -> Anomaly:
    """An anomaly of a key or an operation, or of both."""
    topic, _, partition = key.rpartition("-")
    where: dict[str, Any] = {
        "topic": topic or key,
        "partition": partition if partition.isdecimal() else -1,
        "offset": offset,
    }
    if operation is not None:
        where |= {"process": operation.process, "txn": operation.txn or operation.number, "position": operation.number}
    return anomaly(name, severity, detail, **where)


def values_at_one(values: Iterable[str]) -> str:
    """What is said of an offset with several values."""
    return f"values {listed(sorted(values))}"


def value_at_several(value: object, offsets: Iterable[int]) -> str:
    """What is said of a value that is there more than once."""
    return f"value {value} at offsets {listed(sorted(offsets))}"


def never_read(value: object, offset: int, highest: int) -> str:
    """What is said of a value below the highest offset that was read."""
    return f"value {value} was acknowledged at offset {offset}; reads went on to offset {highest} and never had it"


def cycle_through(operations: int, processes: Iterable[str], how: str) -> str:
    """What is said of operations that depend on each other."""
    who = sorted(set(processes))
    of = f"process {who[0]}" if len(who) == 1 else f"processes {listed(who)}"
    return f"{operations:,} operations of {of} in a cycle of {how}"


def _inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    for (key, offset), values in history.values_at.items():
        if len(values) > 1:
            yield found("inconsistent-offsets", BAD, values_at_one(map(str, values)), key=key, offset=offset)


def _duplicate(history: History) -> Iterator[Anomaly]:
    for (key, value), offsets in history.offsets_of.items():
        if len(offsets) > 1:
            yield found("duplicate", BAD, value_at_several(value, offsets), key=key, offset=min(offsets))


def _g1a(history: History) -> Iterator[Anomaly]:
    for (key, value), readers in history.readers.items():
        writer = history.writer.get((key, value))
        if writer is not None and writer.type == "fail":
            offset = min(history.offsets_of[key, value])
            yield found(
                "G1a",
                BAD,
                f"value {value} of an aborted write (process {writer.process}) was read",
                key=key,
                offset=offset,
                operation=readers[0],
            )


def _highest_read(history: History) -> dict[str, int]:
    highest: dict[str, int] = {}
    for key, value in history.readers:
        highest[key] = max(highest.get(key, -1), *history.offsets_of[key, value])
    return highest


def _acknowledged(history: History) -> Iterator[tuple[Operation, Send]]:
    for operation in history.operations:
        if operation.type == "ok":
            for send in operation.sends:
                if (send.key, send.value) not in history.readers:
                    yield operation, send


def _lost_write(history: History) -> Iterator[Anomaly]:
    highest = _highest_read(history)
    for operation, send in _acknowledged(history):
        if 0 <= send.offset <= highest.get(send.key, -1):
            detail = never_read(send.value, send.offset, highest[send.key])
            yield found("lost-write", BAD, detail, key=send.key, offset=send.offset, operation=operation)


def _unseen(history: History) -> Iterator[Anomaly]:
    highest = _highest_read(history)
    for operation, send in _acknowledged(history):
        if send.offset < 0 or send.offset > highest.get(send.key, -1):
            detail = f"value {send.value} was acknowledged and never polled"
            yield found("unseen", BAD, detail, key=send.key, offset=send.offset, operation=operation)


def _precommitted_read(history: History) -> Iterator[Anomaly]:
    for operation in history.operations:
        yield from precommitted_reads(operation)


def precommitted_reads(operation: Operation) -> Iterator[Anomaly]:
    """What a transaction read of its own."""
    if operation.f != "txn" or operation.type != "ok":
        return
    own = {(send.key, send.value) for send in operation.sends}
    for key, offset, value in operation.reads():
        if (key, value) in own:
            detail = f"read its own uncommitted value {value}"
            yield found("precommitted-read", BAD, detail, key=key, offset=offset, operation=operation)


# ---------------------------------------------------------------------- order


Place = tuple[int, int]
"""An offset, and its rank among those of its key that hold a committed value."""


def _ok(history: History) -> list[Operation]:
    return [operation for operation in history.operations if operation.type == "ok"]


def _place(history: History, key: str, offset: int) -> Place:
    return offset, history.rank[key, offset]


@dataclass(slots=True)
class PollOrder:
    """Between two polls of a process, and between two inside one transaction."""

    position: dict[tuple[str, str], Place] = field(default_factory=dict)
    subscribed: set[str] = field(default_factory=set)

    def add(self, operation: Operation, reads: Iterable[tuple[str, Place]]) -> Iterator[Anomaly]:
        """The next operation that succeeded, and the places that it read."""
        process = operation.process
        if operation.f in ("subscribe", "assign"):
            self.position = {at: place for at, place in self.position.items() if at[0] != process}
            (self.subscribed.add if operation.f == "subscribe" else self.subscribed.discard)(process)
            return
        within: dict[str, Place] = {}
        severity = ALLOWED if process in self.subscribed else BAD
        for key, place in reads:
            if key in within:
                yield from _poll_step(operation, key, within[key], place, "int-", BAD)
            elif (process, key) in self.position:
                yield from _poll_step(operation, key, self.position[process, key], place, "", severity)
            within[key] = place
        self.position |= {(process, key): place for key, place in within.items()}


def _poll_order(history: History) -> Iterator[Anomaly]:
    order = PollOrder()
    for operation in _ok(history):
        reads = ((key, _place(history, key, offset)) for key, offset, _ in operation.reads())
        yield from order.add(operation, reads)


def _poll_step(
    operation: Operation, key: str, before: Place, after: Place, prefix: str, severity: Severity
) -> Iterator[Anomaly]:
    steps = after[1] - before[1]
    detail = f"offset {after[0]} follows {before[0]}"
    where: dict[str, Any] = {"key": key, "offset": after[0], "operation": operation}
    if steps > 1:
        yield found(f"{prefix}poll-skip", severity, f"{detail}: {counted(steps - 1, 'value')} skipped", **where)
    elif steps < 1:
        yield found(f"{prefix}nonmonotonic-poll", severity, detail, **where)


@dataclass(slots=True)
class SendOrder:
    """Between two sends of a process, and between two inside one transaction."""

    last: dict[tuple[str, str], Place] = field(default_factory=dict)

    def add(self, operation: Operation, sends: Iterable[tuple[str, Place]]) -> Iterator[Anomaly]:
        """The next operation that succeeded, and the places that it wrote to, as far as it knows them."""
        within: dict[str, Place] = {}
        for key, place in sends:
            inside = key in within
            before = within[key] if inside else self.last.get((operation.process, key))
            if before is not None:
                yield from _send_step(operation, key, before, place, inside=inside)
            within[key] = place
        self.last |= {(operation.process, key): place for key, place in within.items()}


def _send_order(history: History) -> Iterator[Anomaly]:
    order = SendOrder()
    for operation in _ok(history):
        sends = ((send.key, _place(history, send.key, send.offset)) for send in operation.sends if send.offset >= 0)
        yield from order.add(operation, sends)


def _send_step(operation: Operation, key: str, before: Place, after: Place, *, inside: bool) -> Iterator[Anomaly]:
    where: dict[str, Any] = {"key": key, "offset": after[0], "operation": operation}
    if after[0] < before[0]:
        name = "int-nonmonotonic-send" if inside else "nonmonotonic-send"
        yield found(name, BAD, f"offset {after[0]} follows {before[0]}", **where)
    elif inside and after[1] - before[1] > 1:
        yield found("int-send-skip", ALLOWED, f"others wrote between {before[0]} and {after[0]}", **where)


# ---------------------------------------------------------------------- cycles

Edges = dict[int, set[int]]


def _cycles(history: History) -> Iterator[Anomaly]:
    by_number = {operation.number: operation for operation in history.operations}
    for name, severity, how, cycle in cycles_of(_write_edges(history), _read_edges(history)):
        detail = cycle_through(len(cycle), {by_number[number].process for number in cycle}, how)
        yield found(name, severity, detail, operation=by_number[min(cycle)])


def cycles_of(ww: Edges, wr: Edges) -> Iterator[tuple[str, Severity, str, list[int]]]:
    """G0: a cycle of write-write edges. G1c: one with write-read edges. Offsets tell the order of writes."""
    told: set[int] = set()
    for edges, name, severity, how in (
        (wr, "G1c", BAD, "write-read edges alone"),
        (ww, "G0", ALLOWED, "write-write edges, inferred from offsets"),
        (_both(ww, wr), "G1c", ALLOWED, "write-write edges, inferred from offsets, and write-read edges"),
    ):
        for cycle in components(edges):
            if told.isdisjoint(cycle):
                told.update(cycle)
                yield name, severity, how, cycle


def _write_edges(history: History) -> Edges:
    edges: Edges = {}
    for key, offsets in history.at_rank.items():
        values = (value for offset in offsets for value in sorted(history.values_at[key, offset], key=text_of))
        writers = [history.writer.get((key, value)) for value in values]
        known = [writer for writer in writers if writer is not None and writer.type == "ok"]
        for before, after in pairwise(known):
            if before is not after:
                edges.setdefault(before.number, set()).add(after.number)
    return edges


def _read_edges(history: History) -> Edges:
    edges: Edges = {}
    for at, readers in history.readers.items():
        writer = history.writer.get(at)
        for reader in readers:
            if writer is not None and writer is not reader:
                edges.setdefault(writer.number, set()).add(reader.number)
    return edges


def _both(one: Edges, other: Edges) -> Edges:
    return {number: one.get(number, set()) | other.get(number, set()) for number in one.keys() | other.keys()}


CHECKS: tuple[Callable[[History], Iterable[Anomaly]], ...] = (
    _inconsistent_offsets,
    _duplicate,
    _g1a,
    _lost_write,
    _unseen,
    _precommitted_read,
    _poll_order,
    _send_order,
    _cycles,
)
