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

from odradek_pipeline.audit.lines import shown, whole_number
from odradek_pipeline.logs.layout import Problem, problem

__all__ = ["BAD_LINE", "STEPPING", "History", "Operation", "Pairing", "Send", "fold", "text_of"]

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
    def is_answered(self) -> bool:
        """Whether it tells what is so, and can be judged."""
        return self.type == "ok" and self.f in STEPPING

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


BAD_LINE = (ValueError, RecursionError)
"""What a line that is no operation raises."""
STEPPING = ("send", "poll", "txn")
"""The operations that have micro-operations, and so something to be judged."""
_TYPES = ("invoke", "ok", "fail", "info")


@dataclass(slots=True)
class Pairing:
    """Invocations and their completions, process by process."""

    invoked: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)

    def add(self, number: int, line: dict[str, Any]) -> Operation | None:
        """The operation that a line completes; `BAD_LINE` where it is none."""
        _check(line)
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
            problems.append(problem(path, number, "bad-operation", f"operation {number + 1}: {error}"))
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
    time = _number("time", line.get("time", number))
    operation = Operation(number, time, str(line["process"]), line["type"], line["f"], txn)
    if operation.f in STEPPING:
        if not isinstance(value, list | None):
            raise ValueError(f"value is {shown(value)}, where a list of micro-operations belongs")
        if value is None and operation.type == "ok":
            raise ValueError("it has no value, and succeeded")
        operation.steps = [_step(micro) for micro in value or []]
    return operation


def _check(line: dict[str, Any]) -> None:
    """Raise ValueError where it is no line of a history."""
    for name in ("process", "type", "f"):
        if line.get(name) is None:
            raise ValueError(f"it has no {name}")
    if isinstance(line["process"], bool) or not isinstance(line["process"], int | str):
        raise ValueError(f"process is {shown(line['process'])}, where a number or a name belongs")
    if line["type"] not in _TYPES:
        raise ValueError(f"type is {shown(line['type'])}, where {', '.join(_TYPES[:-1])} or {_TYPES[-1]} belongs")
    if not isinstance(line["f"], str):
        raise ValueError(f"f is {shown(line['f'])}, where a text belongs")


def _number(name: str, value: Any) -> int:
    """A whole number that fits into 63 bits; 1.0 is 1."""
    small = isinstance(value, float) and abs(value) < 1 << 63 and value.is_integer()
    return whole_number(name, int(value) if small else value, 63)


def _offset(value: Any) -> int:
    return -1 if value is None else _number("an offset", value)


def _step(micro: Any) -> Send | dict[Key, list[tuple[int, Value]]]:
    match micro:
        case ["send", str() | int() as key, [offset, value]]:
            return Send(str(key), _offset(offset), _hashable(value))
        case ["send", str() | int() as key, value] if not isinstance(value, list):
            return Send(str(key), -1, _hashable(value))
        case ["poll"] | ["poll", None]:
            return {}
        case ["poll", dict() as polled, *_]:
            return {str(key): [_pair(pair) for pair in _list(pairs)] for key, pairs in polled.items()}
    raise ValueError(f"{shown(micro)} is no micro-operation")


def _list(pairs: Any) -> list[Any]:
    if not isinstance(pairs, list):
        raise ValueError(f"a poll has {shown(pairs)}, where a list of offsets and values belongs")
    return pairs


def _pair(pair: Any) -> tuple[int, Value]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"a poll has {shown(pair)}, where an offset and a value belong")
    return _number("an offset", pair[0]), _hashable(pair[1])


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
