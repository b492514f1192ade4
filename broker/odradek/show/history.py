"""The history of a cluster, ready to be drawn: lanes, and steps between them.

The page, its files and the exports use this model. `history_of` makes it from events (docs/events.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from odradek.core.wording import counted
from odradek.show.attribution import attributed
from odradek.show.events import Event, Fields
from odradek.show.kips import kip_of_api, kip_of_kind
from odradek.show.places import Lane, LaneKind, lanes_of, places_of
from odradek.show.words import text_of

__all__ = ["ANSWERS", "History", "Lane", "LaneKind", "Step", "history_of", "window_note"]

NS_PER_MS = 1_000_000
ANSWERS = frozenset({"response", "verify_end"})
"""The kinds of events that answer another event."""
NO_ERROR = ("", "NONE", None)


class HistoryStep(Struct, frozen=True, kw_only=True, gc=False):
    """An event: a message from one lane to another, or a mark at one lane."""

    seq: int
    """The number of the event in its file or ring."""
    at_ms: float
    """Milliseconds since the first step."""
    kind: str
    """The kind of the event (docs/events.md)."""
    source: int
    target: int
    """Indexes of lanes; the same twice for a mark."""
    text: str
    node: int = 0
    """The broker that emitted the event."""
    answer_to: int | None = None
    """The `seq` of the request that this step answers."""
    error: str = ""
    """Kafka's name of the error; empty without one."""
    transactional_id: str | None = None
    producer_id: int | None = None
    kip: str | None = None
    """The KIP that defines this step, such as `KIP-890`."""
    fields: Fields = field(default_factory=dict)
    """The fields of the event; `body` is a request or response, decoded."""


Step = HistoryStep
"""Its short name here; in the API of the hub a Step is a part of a rule."""


class History(Struct, frozen=True, kw_only=True):
    """A window of a history."""

    title: str
    """The name of the file, or of the cluster."""
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]
    """In the order of `seq`."""
    transactions: tuple[str, ...]
    """The transactional ids in it, as they appear."""
    events: int
    """Number of events in the window."""
    start_ms: float = 0.0
    """Time of the first step: milliseconds since 1970, by the wall clock; in a hub by the brokers' clock."""
    left_out: int = 0
    """Number of events in the file or ring that are not in the window."""
    note: str = ""
    """A sentence for the reader about sampling, or about the end of a truncated file."""


def history_of(events: Iterable[Event], *, title: str = "", left_out: int = 0, note: str = "") -> History:
    """The history of events, which are in the order of time."""
    told = tuple(events)
    attribution = attributed(told)
    tids = attribution.transactional_ids
    places = places_of(told, attribution)
    lanes, index_of = lanes_of(places, told, attribution)
    start_ns = told[0].at_ns if told else 0
    steps = tuple(
        Step(
            seq=event.seq,
            at_ms=(event.at_ns - start_ns) / NS_PER_MS,
            kind=event.kind,
            source=index_of[source],
            target=index_of[target],
            text=text_of(event.kind, event.fields),
            node=event.node,
            answer_to=None if request is None else told[request].seq,
            error=_error(event.fields),
            transactional_id=tid,
            producer_id=producer_id,
            kip=_kip(event, tid),
            fields=event.fields,
        )
        for event, (source, target), tid, producer_id, request in zip(
            told, places, tids, attribution.producer_ids, attribution.requests, strict=True
        )
    )
    return History(
        title=title,
        lanes=lanes,
        steps=steps,
        transactions=tuple(tid for tid in dict.fromkeys(tids) if tid is not None),
        events=len(steps),
        start_ms=start_ns / NS_PER_MS,
        left_out=left_out,
        note=note,
    )


def _error(fields: Fields) -> str:
    error = fields.get("error")
    return "" if error in NO_ERROR else str(error)


def _kip(event: Event, tid: str | None) -> str | None:
    fields = event.fields
    if event.kind == "request" or event.kind == "response":
        version = fields.get("version")
        return kip_of_api(str(fields.get("api")), version if type(version) is int else 0, transactional=tid is not None)
    return kip_of_kind(event.kind, fields.get("tv"))


def window_note(
    count: int, left_out: int, *, first: int | None, before: int | None = None, transactional_id: str | None
) -> str:
    """A sentence about a window that leaves events out; empty if it leaves out none."""
    if not left_out:
        return ""
    which = f"those about {transactional_id}, and what is near them" if transactional_id is not None else "the newest"
    if first is not None:
        which = f"those from number {first} on"
    if before is not None:
        which += f" before number {before}"
    return f"{counted(count, 'event')} of {count + left_out:,}: {which}."
