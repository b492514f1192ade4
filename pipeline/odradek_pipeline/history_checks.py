"""The anomalies of Jepsen's Kafka checker, by its names, on one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from odradek_pipeline.graph import components
from odradek_pipeline.history import History, Operation, Send
from odradek_pipeline.result import Severity, anomaly

__all__ = ["CHECKS", "check_history"]

Anomaly = dict[str, Any]
BAD, ALLOWED = Severity.BAD, Severity.ALLOWED


def check_history(history: History) -> list[Anomaly]:
    """Every anomaly of every check."""
    return [found for check in CHECKS for found in check(history)]


def _found(
    name: str, severity: Severity, detail: str, *, key: str = "", offset: int = -1, operation: Operation | None = None
) -> Anomaly:
    topic, _, partition = key.rpartition("-")
    where: dict[str, Any] = {
        "topic": topic or key,
        "partition": partition if partition.isdecimal() else -1,
        "offset": offset,
    }
    if operation is not None:
        where |= {"process": operation.process, "txn": operation.txn or operation.number, "position": operation.number}
    return anomaly(name, severity, detail, **where)


def _inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    for (key, offset), values in history.values_at.items():
        if len(values) > 1:
            yield _found(
                "inconsistent-offsets", BAD, f"values {sorted(map(str, values))} at one offset", key=key, offset=offset
            )


def _duplicate(history: History) -> Iterator[Anomaly]:
    for (key, value), offsets in history.offsets_of.items():
        if len(offsets) > 1:
            yield _found("duplicate", BAD, f"value {value} at offsets {sorted(offsets)}", key=key, offset=min(offsets))


def _g1a(history: History) -> Iterator[Anomaly]:
    for (key, value), readers in history.readers.items():
        writer = history.writer.get((key, value))
        if writer is not None and writer.type == "fail":
            offset = min(history.offsets_of[key, value])
            yield _found(
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
            detail = (
                f"value {send.value} was acknowledged at offset {send.offset}; {highest[send.key]} was read, this never"
            )
            yield _found("lost-write", BAD, detail, key=send.key, offset=send.offset, operation=operation)


def _unseen(history: History) -> Iterator[Anomaly]:
    highest = _highest_read(history)
    for operation, send in _acknowledged(history):
        if send.offset < 0 or send.offset > highest.get(send.key, -1):
            detail = f"value {send.value} was acknowledged and never polled"
            yield _found("unseen", BAD, detail, key=send.key, offset=send.offset, operation=operation)


def _precommitted_read(history: History) -> Iterator[Anomaly]:
    for operation in history.operations:
        own = {(send.key, send.value) for send in operation.sends}
        for key, offset, value in operation.reads():
            if operation.f == "txn" and operation.type == "ok" and (key, value) in own:
                yield _found(
                    "precommitted-read",
                    BAD,
                    f"read its own uncommitted value {value}",
                    key=key,
                    offset=offset,
                    operation=operation,
                )


# ---------------------------------------------------------------------- order


def _ok(history: History) -> list[Operation]:
    return [operation for operation in history.operations if operation.type == "ok"]


def _steps(history: History, key: str, before: int, after: int) -> int:
    return history.rank[key, after] - history.rank[key, before]


def _poll_order(history: History) -> Iterator[Anomaly]:
    """Between two polls of a process, and between two inside one transaction."""
    position: dict[tuple[str, str], int] = {}
    subscribed: set[str] = set()
    for operation in _ok(history):
        if operation.f in ("subscribe", "assign"):
            position = {at: offset for at, offset in position.items() if at[0] != operation.process}
            (subscribed.add if operation.f == "subscribe" else subscribed.discard)(operation.process)
            continue
        within: dict[str, int] = {}
        severity = ALLOWED if operation.process in subscribed else BAD
        for key, offset, _ in operation.reads():
            if key in within:
                yield from _poll_step(history, operation, key, within[key], offset, "int-", BAD)
            elif (operation.process, key) in position:
                yield from _poll_step(history, operation, key, position[operation.process, key], offset, "", severity)
            within[key] = offset
        position |= {(operation.process, key): offset for key, offset in within.items()}


def _poll_step(
    history: History, operation: Operation, key: str, before: int, after: int, prefix: str, severity: Severity
) -> Iterator[Anomaly]:
    steps = _steps(history, key, before, after)
    if steps > 1:
        yield _found(
            f"{prefix}poll-skip",
            severity,
            f"offset {after} follows {before}: {steps - 1} values skipped",
            key=key,
            offset=after,
            operation=operation,
        )
    elif steps < 1:
        yield _found(
            f"{prefix}nonmonotonic-poll",
            severity,
            f"offset {after} follows {before}",
            key=key,
            offset=after,
            operation=operation,
        )


def _send_order(history: History) -> Iterator[Anomaly]:
    """Between two sends of a process, and between two inside one transaction."""
    last: dict[tuple[str, str], int] = {}
    for operation in _ok(history):
        within: dict[str, int] = {}
        for send in operation.sends:
            if send.offset < 0:
                continue
            inside = send.key in within
            before = within[send.key] if inside else last.get((operation.process, send.key))
            if before is not None:
                yield from _send_step(history, operation, send, before, inside=inside)
            within[send.key] = send.offset
        last |= {(operation.process, key): offset for key, offset in within.items()}


def _send_step(history: History, operation: Operation, send: Send, before: int, *, inside: bool) -> Iterator[Anomaly]:
    if send.offset < before:
        name = "int-nonmonotonic-send" if inside else "nonmonotonic-send"
        yield _found(
            name, BAD, f"offset {send.offset} follows {before}", key=send.key, offset=send.offset, operation=operation
        )
    elif inside and _steps(history, send.key, before, send.offset) > 1:
        yield _found(
            "int-send-skip",
            ALLOWED,
            f"others wrote between {before} and {send.offset}",
            key=send.key,
            offset=send.offset,
            operation=operation,
        )


# ---------------------------------------------------------------------- cycles

Edges = dict[int, set[int]]


def _cycles(history: History) -> Iterator[Anomaly]:
    """G0: a cycle of write-write edges. G1c: one with write-read edges. Offsets tell the order of writes."""
    by_number = {operation.number: operation for operation in history.operations}
    ww, wr = _write_edges(history), _read_edges(history)
    told: set[int] = set()
    for edges, name, severity, how in (
        (wr, "G1c", BAD, "write-read edges alone"),
        (ww, "G0", ALLOWED, "write-write edges, inferred from offsets"),
        (_both(ww, wr), "G1c", ALLOWED, "write-write edges, inferred from offsets, and write-read edges"),
    ):
        for cycle in components(edges):
            if told.isdisjoint(cycle):
                told.update(cycle)
                operation = by_number[min(cycle)]
                processes = sorted({by_number[number].process for number in cycle})
                yield _found(
                    name,
                    severity,
                    f"{len(cycle)} operations of processes {processes} in a cycle of {how}",
                    operation=operation,
                )


def _write_edges(history: History) -> Edges:
    edges: Edges = {}
    for key, offsets in history.at_rank.items():
        writers = [history.writer.get((key, value)) for offset in offsets for value in history.values_at[key, offset]]
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
