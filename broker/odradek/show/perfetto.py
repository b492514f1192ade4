"""A history as a trace for Perfetto (https://ui.perfetto.dev): TrackEvents in Protocol Buffers.

Clients, brokers and coordinators have a slice from each request to its response, with an arrow from its sender.
Transactions and their states are slices on tracks of their own, as are the transactions that are open in a partition;
its last stable offset and its high watermark are counters. Everything else is an instant.

Field numbers are those of protos/perfetto/trace in Perfetto's repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from odradek.show.history import History, LaneKind, Step
from odradek.show.protobuf import fixed64, message, text, varint

__all__ = ["perfetto"]

NS_PER_MS = 1_000_000
SEQUENCE = 1
GROUPS: Mapping[LaneKind, str] = MappingProxyType(
    {"client": "clients", "coordinator": "coordinators", "broker": "brokers", "partition": "partitions"}
)
TRANSACTIONS = "transactions"
PAIRS: Mapping[str, str] = MappingProxyType({"response": "request", "verify_end": "verify_start"})
"""The event that ends a slice, and the one that begins it."""
RESTING = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
"""TrackEvent.Type"""
CHRONOLOGICAL, EXPLICIT = 2, 3
"""TrackDescriptor.ChildTracksOrdering"""
BOOTTIME, REALTIME = 6, 1
"""Clocks: the clock of a trace, and the wall clock."""
INCREMENTAL_STATE_CLEARED = 1
NESTED_MAX = 8
"""Depth to which bodies of requests are shown."""

Place = tuple[object, ...]


def perfetto(history: History) -> bytes:
    """The trace. Times are those of the wall clock, so that two traces of one run lie side by side."""
    return b"".join(message(1, packet) for packet in _Trace(history).packets())


class _Tracks:
    """Tracks by their subject, each described at its first use."""

    def __init__(self) -> None:
        self.uuids: dict[Place, int] = {}
        self.described: list[bytes] = []

    def of(self, place: Place, name: str, *more: bytes, parent: int | None = None) -> int:
        uuid = self.uuids.get(place)
        if uuid is None:
            uuid = self.uuids[place] = len(self.uuids) + 1
            above = varint(5, parent) if parent is not None else b""
            descriptor = message(60, varint(1, uuid), text(2, name), above, *more)
            self.described.append(varint(10, SEQUENCE) + descriptor)
        return uuid


class _Slots:
    """Puts overlapping slices on tracks side by side; on one track a slice may only lie inside another one."""

    def __init__(self) -> None:
        self.used: dict[Place, set[int]] = {}

    def take(self, place: Place) -> int:
        used = self.used.setdefault(place, set())
        slot = next(number for number in range(len(used) + 1) if number not in used)
        used.add(slot)
        return slot

    def free(self, place: Place, slot: int) -> None:
        self.used[place].discard(slot)


class _Trace:
    def __init__(self, history: History) -> None:
        self.history = history
        self.start_ns = round(history.start_ms * NS_PER_MS)
        self.now_ns = self.start_ns
        self.tracks, self.slots = _Tracks(), _Slots()
        self.answered = {step.answer_to for step in history.steps if step.answer_to is not None}
        self.tells_answers = any(step.kind == "response" for step in history.steps)
        self.open: dict[int, list[tuple[Place, int, int]]] = {}
        """Place, slot and track of each open slice, by the number of its first event."""
        self.transactions: dict[str, int] = {}
        """The track of each transactional id that has a transaction open, or is in a state that ends."""
        self.counts: dict[str, int] = {}
        self.opened: dict[tuple[int, object], tuple[Place, int, int]] = {}
        """By lane and producer: the slice of a transaction that is open in a partition."""

    def packets(self) -> Iterator[bytes]:
        """Packets of the trace, each as the fields of a TracePacket."""
        clocks = (message(1, varint(1, clock), varint(2, self.start_ns)) for clock in (BOOTTIME, REALTIME))
        cleared = varint(10, SEQUENCE) + varint(13, INCREMENTAL_STATE_CLEARED)
        yield cleared + message(6, *clocks)
        for rank, kind in enumerate(GROUPS):
            self.group(GROUPS[kind], rank)
        self.group(TRANSACTIONS, len(GROUPS))
        for lane in range(len(self.history.lanes)):
            self.lane(lane)
        events = [packet for step in self.history.steps for packet in self.of_step(step)]
        yield from self.tracks.described
        yield from events

    def group(self, name: str, rank: int = 0) -> int:
        return self.tracks.of(("group", name), name, varint(11, EXPLICIT), varint(12, rank))

    def lane(self, index: int) -> int:
        lane = self.history.lanes[index]
        name = f"{lane.name} ({lane.about})" if lane.about else lane.name
        parent = self.group(GROUPS[lane.kind])
        return self.tracks.of(("lane", index), name, varint(11, CHRONOLOGICAL), varint(12, index), parent=parent)

    def begin_slot(self, place: Place, name: str, lane: int) -> tuple[Place, int, int]:
        """A track without an open slice; tracks of one name are drawn together."""
        slot = self.slots.take(place)
        return place, slot, self.tracks.of((*place, slot), name, parent=self.lane(lane))

    def event(self, kind: int, track: int, *parts: bytes) -> bytes:
        return varint(8, self.now_ns) + varint(10, SEQUENCE) + message(11, varint(9, kind), varint(11, track), *parts)

    def of_step(self, step: Step) -> Iterator[bytes]:
        # If a clock was set back, a slice must not end before it begins.
        self.now_ns = max(self.now_ns, self.start_ns + round(step.at_ms * NS_PER_MS))
        if step.kind in PAIRS and step.answer_to in self.open:
            yield from self.end_slices(step, self.open.pop(step.answer_to))
        elif step.kind in PAIRS.values() and (step.seq in self.answered or self.tells_answers):
            yield from self.begin_slices(step)
        else:
            yield self.event(INSTANT, self.lane(step.source), *_told(step))
        if step.kind == "state_change" and step.transactional_id is not None:
            yield from self.of_state(step, step.transactional_id)
        if self.history.lanes[step.source].kind == "partition":
            yield from self.of_partition(step)

    def begin_slices(self, step: Step) -> Iterator[bytes]:
        """A slice at the sender of a message and one at its receiver, with an arrow between them."""
        slices = self.open[step.seq] = []
        ends = (step.source,) if step.kind == "verify_start" else dict.fromkeys((step.source, step.target))
        for field, lane in zip((47, 48), ends, strict=False):
            slices.append(self.begin_slot(("requests", lane), "requests", lane))
            flow = fixed64(field, step.seq) if len(ends) > 1 else b""
            yield self.event(BEGIN, slices[-1][2], *_told(step), flow)

    def end_slices(self, step: Step, slices: Sequence[tuple[Place, int, int]]) -> Iterator[bytes]:
        for place, slot, track in slices:
            self.slots.free(place, slot)
            answer = message(4, text(10, "answer"), text(6, step.text))
            yield self.event(END, track, answer, *_errors(step))

    def of_state(self, step: Step, transactional_id: str) -> Iterator[bytes]:
        """A slice for a transaction, and one inside it for each of its states."""
        state = str(step.fields.get("state_to"))
        parent = self.group(TRANSACTIONS)
        track = self.tracks.of(("transaction", transactional_id), transactional_id, parent=parent)
        if transactional_id in self.transactions:
            yield self.event(END, track)
        if state in RESTING:
            yield self.event(INSTANT, track, *_told(step))
            if self.transactions.pop(transactional_id, None) is not None:
                yield self.event(END, track)
            return
        if transactional_id not in self.transactions:
            self.transactions[transactional_id] = track
            self.counts[transactional_id] = number = self.counts.get(transactional_id, 0) + 1
            yield self.event(BEGIN, track, text(23, f"transaction {number}"), text(22, "transaction"))
        yield self.event(BEGIN, track, *_told(step, name=state))

    def of_partition(self, step: Step) -> Iterator[bytes]:
        fields, lane = step.fields, step.source
        key = (lane, step.producer_id)
        if step.kind == "transaction_opened" and key not in self.opened:
            self.opened[key] = self.begin_slot(("open", lane), "open transactions", lane)
            who = step.transactional_id or f"producer {step.producer_id}"
            yield self.event(BEGIN, self.opened[key][2], *_told(step, name=who))
        elif step.kind == "transaction_closed" and key in self.opened:
            place, slot, track = self.opened.pop(key)
            self.slots.free(place, slot)
            yield self.event(END, track)
        elif step.kind == "lso_moved":
            for field, name in (("lso", "last stable offset"), ("hw", "high watermark")):
                value = fields.get(field)
                if type(value) is int:
                    counter = message(8, text(6, "offset"))
                    track = self.tracks.of((field, lane), name, counter, parent=self.lane(lane))
                    yield self.event(COUNTER, track, varint(30, value))


def _told(step: Step, *, name: str | None = None) -> Iterator[bytes]:
    """The name, the categories and the fields of a slice or an instant."""
    yield text(23, name or step.text)
    yield text(22, step.kind)
    yield from _errors(step)
    facts = {"event": step.seq, "transactional_id": step.transactional_id, "kip": step.kip} | dict(step.fields)
    yield from (_annotation(each, value) for each, value in facts.items() if value is not None)


def _errors(step: Step) -> Iterator[bytes]:
    """An error is a category, so that a search finds all of them."""
    if step.error:
        yield text(22, "error")
        yield message(4, text(10, "error"), text(6, step.error))


def _annotation(name: str, value: object) -> bytes:
    return message(4, text(10, name), _value(value, 0))


def _value(value: object, depth: int) -> bytes:
    """A value of JSON as the fields of a DebugAnnotation."""
    match value:
        case bool():
            return varint(2, value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return varint(4, value)
        case float():
            return fixed64(5, value)
        case dict() if depth < NESTED_MAX:
            return b"".join(message(11, text(10, str(key)), _value(each, depth + 1)) for key, each in value.items())
        case list() | tuple() if depth < NESTED_MAX:
            return b"".join(message(12, _value(each, depth + 1)) for each in value)
        case _:
            return text(6, str(value))
