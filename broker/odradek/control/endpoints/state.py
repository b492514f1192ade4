"""Calls that show the state of the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.control.endpoints.asked import Asked
from odradek.control.messages.clusters import BrokerView
from odradek.control.messages.state import (
    GroupView,
    ParkedView,
    PartitionSummary,
    PartitionView,
    PushView,
    TransactionView,
)
from odradek.control.messages.why import WhyView
from odradek.control.state import (
    BATCHES,
    broker_views,
    group_view,
    group_views,
    parked_views,
    partition_summaries,
    partition_view,
    transaction_view,
    transaction_views,
)
from odradek.control.telemetry import matches, push_view, pushes
from odradek.control.why import why

__all__ = [
    "BATCHES_MAX",
    "list_brokers",
    "list_groups",
    "list_parked",
    "list_partitions",
    "list_telemetry",
    "list_transactions",
    "show_group",
    "show_partition",
    "show_transaction",
    "show_why",
    "truth_of",
]

BATCHES_MAX = 1000


async def list_brokers(asked: Asked) -> list[BrokerView]:
    """The brokers."""
    return broker_views(asked.hosted.running)


async def list_transactions(asked: Asked) -> list[TransactionView]:
    """Every transactional id, as its coordinator has it."""
    return transaction_views(asked.hosted.running)


async def show_transaction(asked: Asked) -> TransactionView:
    """One transactional id, with the markers that are owed."""
    view = transaction_view(asked.hosted.running, asked.path["transactional_id"])
    if view is None:
        raise LookupError(f"no coordinator knows the transactional id {asked.path['transactional_id']}")
    return view


async def list_groups(asked: Asked) -> list[GroupView]:
    """Every group, with members and offsets."""
    return group_views(asked.hosted.running)


async def show_group(asked: Asked) -> GroupView:
    """One group."""
    view = group_view(asked.hosted.running, asked.path["group"])
    if view is None:
        raise LookupError(f"no coordinator knows the group {asked.path['group']}")
    return view


async def list_partitions(asked: Asked) -> list[PartitionSummary]:
    """Every partition of a topic that is not internal."""
    return partition_summaries(asked.hosted.running)


async def show_partition(asked: Asked) -> PartitionView:
    """A partition as its leader has it: offsets, open transactions, guards, the last batches."""
    batches = asked.count("batches", BATCHES, BATCHES_MAX)
    return partition_view(asked.hosted.running, asked.path["topic"], asked.number("partition"), batches)


async def list_parked(asked: Asked) -> list[ParkedView]:
    """Every request that waits for something, the oldest first."""
    return parked_views(asked.hosted.running)


async def show_why(asked: Asked) -> WhyView:
    """What is stuck, since when, what holds it, and what ends it; with the newest events as lines."""
    hosted = asked.hosted
    return why(hosted.running, hosted.events.recent, asked.query.get("about"))


async def list_telemetry(asked: Asked) -> list[PushView]:
    """The metrics that clients have pushed, oldest first: the last thousand pushes of each broker."""
    metric, client_id = asked.query.get("metric", ""), asked.query.get("client_id")
    terminating = truth_of(asked.query, "terminating")
    return [
        push_view(broker, push, metric)
        for broker, push in pushes(asked.hosted.running)
        if matches(push, metric, client_id, terminating)
    ]


def truth_of(query: Mapping[str, str], name: str) -> bool | None:
    """True or false in the query. Raises ValueError for any other text."""
    text = query.get(name)
    if text not in (None, "true", "false"):
        raise ValueError(f"{name} is true or false, not {text}")
    return None if text is None else text == "true"
