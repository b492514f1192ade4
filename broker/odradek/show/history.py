"""What happened in a cluster, ready to be drawn: lanes, and steps between them.

The page, its files and the exports read this one model. `history_of` makes it from events (docs/events.md).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

__all__ = ["History", "Lane", "LaneKind", "Step"]

LaneKind = Literal["client", "broker", "coordinator", "partition"]


class Lane(Struct, frozen=True, kw_only=True):
    """Somebody who sends, receives or keeps something; a column of the picture."""

    key: str
    """The same in two histories: `client:till`, `broker:1`, `coordinator:1`, `partition:orders-2`."""
    kind: LaneKind
    name: str
    about: str = ""
    """One line more, such as the broker that leads a partition."""


class Step(Struct, frozen=True, kw_only=True):
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
    answer_to: int | None = None
    """The `seq` of the request that this step answers."""
    error: str = ""
    """Kafka's name of the error; empty without one."""
    transactional_id: str | None = None
    producer_id: int | None = None
    kip: str | None = None
    """The KIP that defines this step, such as `KIP-890`."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The fields of the event; `body` is a request or response, decoded."""


class History(Struct, frozen=True, kw_only=True):
    """A window of what happened."""

    title: str
    """The name of the file, or of the cluster."""
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]
    """In the order of `seq`."""
    transactions: tuple[str, ...]
    """The transactional ids in it."""
    events: int
    """So many events are in the window."""
    left_out: int = 0
    """So many events are in the file or ring, and not in the window."""
    note: str = ""
    """A sentence for the reader: what is sampled, or where a file breaks off."""
