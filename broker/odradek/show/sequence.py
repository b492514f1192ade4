"""One transaction as a sequence of messages between a client, the leaders of its partitions, and its coordinator.

An event file says which requests a broker read, and what they changed. A request belongs to a transaction if the events
that follow it at the same broker, up to the next request there, are about that transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from odradek.show.events import Event
from odradek.usage import UsageError

__all__ = ["Lane", "Conversation", "Step", "sequence_of"]

NS_PER_MS = 1_000_000
BROKER_CLIENT = "broker-"
"""The client id of a broker that asks another one begins so, and ends in its node id."""
ENDED = ("CompleteCommit", "CompleteAbort")


class Lane(Struct, frozen=True):
    """One side of the conversation."""

    name: str
    about: str
    """What it is to the transaction: leader of which partition, coordinator of which id."""


class Step(Struct, frozen=True, kw_only=True):
    """A message from one lane to another, an answer, or a note at one lane."""

    at_ms: float
    """Milliseconds since the first step."""
    source: int
    target: int
    """Indexes of lanes; the same twice for a note."""
    text: str
    is_answer: bool = False
    is_refused: bool = False


class Conversation(Struct, frozen=True):
    """The lanes and steps of one transactional id."""

    transactional_id: str
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]


def sequence_of(events: Iterable[Event], transactional_id: str | None = None) -> Conversation:
    """The steps of a transactional id, else of the one whose transaction ended last, or was heard of last.

    UsageError if there is none.
    """
    kept = list(events)
    chosen = transactional_id or _last_ended(kept) or _last_heard_of(kept)
    if chosen is None:
        raise UsageError("These events are about no transaction.")
    telling = _Telling(chosen, _producer_ids(kept, chosen))
    for event in kept:
        telling.hear(event)
    if not telling.steps:
        raise UsageError(f"These events say nothing about the transactional id {chosen!r}.")
    return Conversation(chosen, tuple(telling.lanes.values()), tuple(telling.steps))


def _last_ended(events: Sequence[Event]) -> str | None:
    return next((event.transactional_id for event in reversed(events) if event.state_to in ENDED), None)


def _last_heard_of(events: Sequence[Event]) -> str | None:
    return next((event.transactional_id for event in reversed(events) if event.transactional_id is not None), None)


def _producer_ids(events: Iterable[Event], transactional_id: str) -> frozenset[int]:
    about = (event.producer_id for event in events if event.transactional_id == transactional_id)
    return frozenset(producer_id for producer_id in about if producer_id is not None)


# ---------------------------------------------------------------------- what an event says


def _state(event: Event) -> str:
    before = f"{event.state_from} → " if event.state_from else ""
    return f"{before}{event.state_to}, epoch {event.producer_epoch}"


def _marker(event: Event) -> str:
    return f"marker {'COMMIT' if event.commit else 'ABORT'} at offset {event.offset}"


NOTES: Mapping[str, Callable[[Event], str]] = MappingProxyType(
    {
        "parked": lambda event: f"the batch for {event.place} is parked",
        "partitions_added": lambda event: f"{event.place} is part of the transaction",
        "state_change": _state,
        "fenced": lambda event: f"the producer is fenced, epoch {event.producer_epoch}",
        "transaction_opened": lambda event: f"open: the LSO stays at {event.offset}",
        "marker_written": _marker,
        "transaction_closed": lambda event: "closed: the LSO goes on",
    }
)
TRANSACTIONAL = frozenset(
    {
        "INIT_PRODUCER_ID",
        "ADD_PARTITIONS_TO_TXN",
        "ADD_OFFSETS_TO_TXN",
        "PRODUCE",
        "TXN_OFFSET_COMMIT",
        "END_TXN",
        "WRITE_TXN_MARKERS",
    }
)
"""The requests that change a transaction."""
VERIFICATION = "ADD_PARTITIONS_TO_TXN"
"""From a broker it is the question of a leader, which `verify_start` tells about."""
COORDINATOR_KINDS = frozenset({"state_change", "partitions_added", "fenced", "init_producer_id", "transaction_kept"})
WORDS = MappingProxyType({"ADD_PARTITIONS_TO_TXN": "AddPartitionsToTxn", "ADD_OFFSETS_TO_TXN": "AddOffsetsToTxn"})


def _api(name: str) -> str:
    """The name of an API as people write it: END_TXN is EndTxn."""
    return WORDS.get(name) or "".join(word.capitalize() for word in name.split("_"))


class _Telling:
    """What has been told so far, and the request of each broker of which it is not known yet what it is about."""

    def __init__(self, transactional_id: str, producer_ids: frozenset[int]) -> None:
        self.transactional_id = transactional_id
        self.producer_ids = producer_ids
        self.lanes: dict[tuple[str, int], Lane] = {("client", 0): Lane("client", transactional_id)}
        self.steps: list[Step] = []
        self.pending: dict[int, Event] = {}
        self.first_ns: int | None = None

    def hear(self, event: Event) -> None:
        if event.kind == "request":
            if event.api in TRANSACTIONAL:
                self.pending[event.node] = event
        elif self.is_about_it(event):
            self.tell(event)

    def is_about_it(self, event: Event) -> bool:
        if event.transactional_id is not None:
            return event.transactional_id == self.transactional_id
        return event.producer_id in self.producer_ids

    def tell(self, event: Event) -> None:
        role = "coordinator" if event.kind in COORDINATOR_KINDS else "leader"
        lane = self.lane(role, event.node, event)
        request = self.pending.pop(event.node, None)
        if request is not None and not (request.from_broker and request.api == VERIFICATION):
            self.step(request, self.sender(request, lane), lane, f"{_api(request.api)} v{request.version}")
        if event.kind == "verify_start":
            self.step(event, lane, self.coordinator(lane), f"{_api(VERIFICATION)} of {event.place}")
        elif event.kind == "verify_end":
            refused = event.verdict != "accepted"
            answer = event.error if refused else "accepted"
            self.step(event, self.coordinator(lane), lane, answer, is_answer=True, is_refused=refused)
        elif event.kind in NOTES:
            self.step(event, lane, lane, NOTES[event.kind](event))

    def sender(self, request: Event, lane: int) -> int:
        """The lane that sent a request: the client, or what the broker that asks is to the transaction."""
        if not request.from_broker:
            return 0
        node = int((request.client_id or "").removeprefix(BROKER_CLIENT))
        asking = "coordinator" if self.role(lane) == "leader" else "leader"
        return self.lane(asking, node, request)

    def role(self, lane: int) -> str:
        return list(self.lanes)[lane][0]

    def coordinator(self, lane: int) -> int:
        """The lane of the coordinator; the broker itself, if it has not been seen yet."""
        found = [index for index, (role, _) in enumerate(self.lanes) if role == "coordinator"]
        return found[-1] if found else lane

    def lane(self, role: str, node: int, event: Event) -> int:
        if (role, node) not in self.lanes:
            self.lanes[role, node] = Lane(f"broker {node}", self.about(role, event))
        return list(self.lanes).index((role, node))

    def about(self, role: str, event: Event) -> str:
        if role == "leader" and event.topic is not None:
            return f"leader of {event.place}"
        return role

    def step(
        self, event: Event, source: int, target: int, text: str, *, is_answer: bool = False, is_refused: bool = False
    ) -> None:
        if self.first_ns is None:
            self.first_ns = event.wall_ns
        at_ms = (event.wall_ns - self.first_ns) / NS_PER_MS
        self.steps.append(
            Step(at_ms=at_ms, source=source, target=target, text=text, is_answer=is_answer, is_refused=is_refused)
        )
