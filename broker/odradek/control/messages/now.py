"""What is told about a cluster at one moment, for people who look at it."""

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
    """A request that waits, with what it is about."""

    ids: dict[str, list[str | int]]
    """Which ids it carries, ten of each kind at most."""
    what: str
    """What it waits for if no rule keeps it, in words."""
    kept: str | None
    """held, delayed or dropped: what the rule does to it; null where none keeps it."""


class NowView(View):
    """What a cluster does now, with so many things of each kind at most."""

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
    """Partitions that nobody leads."""
    waiting: list[WaitingView]
    """Requests that wait, the oldest first."""
    rules: list[RuleReport]
    """In the order in which they are asked."""
    groups: list[GroupView]
    left_out: dict[str, int]
    """How many more there are of a kind that are not shown, by the name of the field, for those of which there are."""
