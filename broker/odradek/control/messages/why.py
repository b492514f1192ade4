"""Answers about things that are stuck in a cluster."""

from __future__ import annotations

from msgspec import field

from odradek.control.messages.common import View

__all__ = ["Holder", "Reason", "Remedy", "WhyView"]


class Holder(View):
    """The cause of a wait."""

    about: str
    """rule, transaction, producer or broker"""
    name: str


class Remedy(View):
    """A call of the hub that ends it, or has it end sooner."""

    label: str
    """Its action, in a few words."""
    method: str
    path: str
    """Below `/clusters/{id}`, quoted."""
    body: dict[str, int | bool | str]


class Reason(View):
    """One thing that is stuck, or that explains the observations of clients."""

    about: str
    """rule, partition, transaction, group, request, broker or time"""
    name: str
    """The rule, `TOPIC-PARTITION`, the transactional id, the group, the API, the broker."""
    sentence: str
    stuck: bool
    """Whether something waits here; else it is worth knowing."""
    since_ms: int | None
    """Since when, by the brokers' clock; null where that is not known."""
    held_by: list[Holder]
    ends: str | None
    """The calls that end it; null if there is none, or none is needed."""
    remedies: list[Remedy] = field(default_factory=list)
    """Calls that end it; empty where no call does."""


class WhyView(View):
    """Everything that is stuck in a cluster, with causes; the one that holds up most comes first."""

    now_ms: int
    """By the brokers' clock."""
    reasons: list[Reason]
    sentences: list[str]
    """The same for people, one line each: of very many things of a kind the first ten."""
    events: list[str]
    """The newest events, one line each, the oldest first."""
