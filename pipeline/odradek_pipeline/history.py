"""Client histories in the operation format of Jepsen's Kafka workload: completed operations, and who saw what where.

A line is an operation: `time`, `process`, `type` (invoke, ok, fail, info), `f` (send, poll, txn, subscribe, assign) and
`value`: micro-operations `["send", key, [offset, value]]` (or only the value where the offset is not known) and
`["poll", {key: [[offset, value], …]}]`. A key names a partition.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from odradek_pipeline.layout import Problem, problem

__all__ = ["BAD_LINE", "History", "Operation", "Pairing", "Send", "fold", "text_of"]

Key = str
Value = Hashable


@dataclass(frozen=True, slots=True)
class Send:
    """A value that was sent; the offset is -1 where it is not known."""

    key: Key
    offset: int
    value: Value


@dataclass(slots=True)
class Operation:
    """A completed operation."""

    number: int
    time: int
    process: str
    type: str
    f: str
    txn: str = ""
    steps: list[Send | dict[Key, list[tuple[int, Value]]]] = field(default_factory=list)

    @property
    def sends(self) -> list[Send]:
        """What it sent, in order."""
        return [step for step in self.steps if isinstance(step, Send)]

    @property
    def polls(self) -> list[dict[Key, list[tuple[int, Value]]]]:
        """What it read, poll by poll."""
        return [step for step in self.steps if isinstance(step, dict)]

    def reads(self) -> Iterator[tuple[Key, int, Value]]:
        """Every value that it read."""
        for poll in self.polls:
            for key, pairs in poll.items():
                for offset, value in pairs:
                    yield key, offset, value


@dataclass(slots=True)
class History:
    """A whole history, indexed by what the rules ask for."""

    operations: list[Operation] = field(default_factory=list)
    values_at: dict[tuple[Key, int], set[Value]] = field(default_factory=dict)
    """Values seen at an offset, by whoever read or wrote there."""
    offsets_of: dict[tuple[Key, Value], set[int]] = field(default_factory=dict)
    readers: dict[tuple[Key, Value], list[Operation]] = field(default_factory=dict)
    writer: dict[tuple[Key, Value], Operation] = field(default_factory=dict)
    rank: dict[tuple[Key, int], int] = field(default_factory=dict)
    """Place of an offset among those of its key that hold a committed value: markers and aborted values leave gaps."""
    at_rank: dict[Key, list[int]] = field(default_factory=dict)


BAD_LINE = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What a line that is no operation raises."""


@dataclass(slots=True)
class Pairing:
    """Invocations and their completions, process by process."""

    invoked: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)

    def add(self, number: int, line: dict[str, Any]) -> Operation | None:
        """The operation that a line completes; `BAD_LINE` where it is none."""
        process, kind = str(line["process"]), line["type"]
        if kind == "invoke":
            self.invoked[process] = number, line
            return None
        return _operation(number, line, self.invoked.pop(process, (0, None))[1])

    def rest(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Invocations without completion, as lines that end them: they may have happened. Each keeps its number."""
        for number, line in self.invoked.values():
            yield number, {**line, "type": "info"}


def fold(lines: Iterable[dict[str, Any]], path: str, problems: list[Problem]) -> History:
    """Pair invocations with completions, and index them; an invocation without completion is `info`."""
    history, pairing = History(), Pairing()

    def completed() -> Iterator[tuple[int, dict[str, Any]]]:
        yield from enumerate(lines)
        yield from list(pairing.rest())

    for number, line in completed():
        try:
            operation = pairing.add(number, line)
        except BAD_LINE as error:
            problems.append(problem(path, number, "bad-operation", f"line {number + 1}: {error!r}"))
        else:
            if operation is not None:
                history.operations.append(operation)
    for operation in history.operations:
        _index(history, operation)
    _rank(history)
    return history


def _operation(number: int, line: dict[str, Any], invoked: dict[str, Any] | None) -> Operation:
    """Of a line and its invocation; a line that ends an invocation by itself has all that there is."""
    value = line.get("value")
    if value is None and invoked is not None:
        value = invoked.get("value")
    txn = str(line.get("txn", (invoked or {}).get("txn", "")) or "")
    operation = Operation(
        number, int(line.get("time", number)), str(line["process"]), str(line["type"]), str(line["f"]), txn
    )
    if operation.f in ("send", "poll", "txn"):
        operation.steps = [step for micro in value or [] if (step := _step(micro)) is not None]
    return operation


def _step(micro: list[Any]) -> Send | dict[Key, list[tuple[int, Value]]] | None:
    if micro[0] == "send":
        pair = micro[2]
        offset, value = pair if isinstance(pair, list) else (-1, pair)
        return Send(str(micro[1]), -1 if offset is None else int(offset), _hashable(value))
    if micro[0] == "poll":
        polled = micro[1] if len(micro) > 1 and micro[1] else {}
        return {str(key): [(int(offset), _hashable(value)) for offset, value in pairs] for key, pairs in polled.items()}
    raise ValueError(f"no micro-operation {micro[0]}")


def text_of(value: Value) -> str:
    """A value as JSON: of several at one offset, the first by this is taken to be the first."""
    return json.dumps(value)


def _hashable(value: Any) -> Value:
    """What is no plain value as its JSON; 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value


def _index(history: History, operation: Operation) -> None:
    for send in operation.sends:
        history.writer[send.key, send.value] = operation
        if operation.type == "ok" and send.offset >= 0:
            history.values_at.setdefault((send.key, send.offset), set()).add(send.value)
            history.offsets_of.setdefault((send.key, send.value), set()).add(send.offset)
    if operation.type != "ok":
        return
    for key, offset, value in operation.reads():
        history.values_at.setdefault((key, offset), set()).add(value)
        history.offsets_of.setdefault((key, value), set()).add(offset)
        history.readers.setdefault((key, value), []).append(operation)


def _rank(history: History) -> None:
    for key, offset in sorted(history.values_at):
        offsets = history.at_rank.setdefault(key, [])
        history.rank[key, offset] = len(offsets)
        offsets.append(offset)
