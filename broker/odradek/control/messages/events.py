"""Answers with events, and conditions to wait for."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from odradek.control.messages.common import Body, View

__all__ = [
    "Came",
    "EventBody",
    "EventsPage",
    "ForEvent",
    "ForGroup",
    "ForPartition",
    "ForRule",
    "ForTelemetry",
    "ForTransaction",
    "WaitBody",
]


class EventBody(View):
    """Something that happened in a broker (docs/events.md)."""

    seq: int
    at_ms: int
    """By the brokers' clock."""
    node: int
    kind: str
    fields: dict[str, Any]


class EventsPage(View):
    """The events that the ring still holds."""

    events: list[EventBody]
    last: int
    """The number of the newest event of all; ask with `after` that one for those that follow."""
    lost: int = 0
    """The number of requested events that are no longer stored."""


class ForEvent(Body):
    """An event of a kind, with these fields, after this number; the `count`-th of them."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    after: Annotated[int, Meta(ge=0)] = 0
    count: Annotated[int, Meta(ge=1)] = 1


class ForRule(Body):
    """A rule that has been hit so often, or holds so many requests now."""

    name: str
    hits: Annotated[int, Meta(ge=1)] | None = None
    held: Annotated[int, Meta(ge=1)] | None = None


class ForTransaction(Body):
    """A transactional id in a state, such as CompleteCommit; `none`: forgotten."""

    id: str
    state: str


class ForPartition(Body):
    """A partition whose offsets are at least these."""

    topic: str
    partition: Annotated[int, Meta(ge=0)]
    last_stable_offset: Annotated[int, Meta(ge=0)] | None = None
    high_watermark: Annotated[int, Meta(ge=0)] | None = None


class ForGroup(Body):
    """A group in a state, such as Stable, with so many members."""

    id: str
    state: str | None = None
    members: Annotated[int, Meta(ge=0)] | None = None


class ForTelemetry(Body):
    """A number of pushes with a metric with this prefix, of this client, each its last one or not (KIP-714)."""

    metric: str = ""
    client_id: str | None = None
    terminating: bool | None = None
    count: Annotated[int, Meta(ge=1)] = 1


class WaitBody(Body):
    """The condition to wait for: one of these, or several that must hold at once."""

    event: ForEvent | None = None
    rule: ForRule | None = None
    transaction: ForTransaction | None = None
    partition: ForPartition | None = None
    group: ForGroup | None = None
    telemetry: ForTelemetry | None = None
    timeout_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000


class Came(View):
    """The conditions hold."""

    waited_ms: int
    found: list[Any]
    """The event, the rule, the transaction, the partition, the group and the push, of those that were asked for."""
