"""Answers about a cluster at one moment, for people."""

from __future__ import annotations

from odradek.control.messages.clusters import BrokerView
from odradek.control.messages.common import View
from odradek.control.messages.deeds import TimeView
from odradek.control.messages.state import GroupView, ParkedView, PartitionView, TopicPartitionView, TransactionView
from odradek.faults.armed import RuleReport

__all__ = ["FeatureView", "NowView", "WaitingView"]


class FeatureView(View):
    """A feature, and the levels that all brokers support."""

    name: str
    level: int
    lowest: int
    highest: int


class WaitingView(ParkedView):
    """A waiting request, with its subject."""

    ids: dict[str, list[str | int]]
    """Which ids it carries, ten of each kind at most."""
    what: str
    """The event for which it waits, in words, if no rule holds it."""
    kept: str | None
    """held, delayed or dropped: the action of the rule on it; null if there is none."""


class NowView(View):
    """A cluster at this moment, with a limited number of things of each kind."""

    id: str
    bootstrap: str
    lease_s: float
    controller: int
    last_event: int
    time: TimeView
    features: list[FeatureView]
    brokers: list[BrokerView]
    transactions: list[TransactionView]
    """By name; where there are too many, those at rest are left out first. So with partitions and groups."""
    partitions: list[PartitionView]
    leaderless: list[TopicPartitionView]
    """Partitions without a leader."""
    waiting: list[WaitingView]
    """Requests that wait, the oldest first."""
    rules: list[RuleReport]
    """In the order in which they are asked."""
    groups: list[GroupView]
    left_out: dict[str, int]
    """How many more there are of a kind that are not shown, by the name of the field, for those of which there are."""
