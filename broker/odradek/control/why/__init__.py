"""The causes of waiting in a cluster: what is stuck, since when, what holds it, and what ends it.

The data (`control/messages/why.py`) is made from the state of the brokers, read in their event loop; sentences express
the same. A failing test, the hub and `odradek ctl why` show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.control.messages.why import Reason, WhyView
from odradek.control.why.brokers import leaderless_topics, silent_brokers, standing_clock
from odradek.control.why.event_lines import newest_lines
from odradek.control.why.groups import restless_groups
from odradek.control.why.requests import listening_requests, waiting_requests
from odradek.control.why.rules import keeping_rules, other_rules
from odradek.control.why.scene import Scene
from odradek.control.why.transactions import lagging_partitions, open_transactions
from odradek.stuck.words import plain

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster
    from odradek.net.recent import Recent

__all__ = ["AT_REST", "why"]

PARTS: tuple[Callable[[Scene], Iterator[Reason]], ...] = (
    keeping_rules,
    leaderless_topics,
    lagging_partitions,
    open_transactions,
    restless_groups,
    waiting_requests,
    silent_brokers,
    standing_clock,
    other_rules,
    listening_requests,
)
"""Kinds of stuck things, in the order of the output: a rule that holds a request explains most of the rest."""
OF_A_KIND_MAX = 10
AT_REST = "Nothing is stuck: no rule keeps a request, and all transactions, groups and partitions are at rest."


def why(cluster: RunningCluster, recent: Recent, about: str | None = None) -> WhyView:
    """All that is stuck in a cluster, or all that holds up one thing in it, with its newest events.

    `about` is a rule, `TOPIC-PARTITION`, a topic, a transactional id, a group, or the id of a broker. Raises
    LookupError for an unknown name.
    """
    scene = Scene(cluster)
    reasons = [reason for part in PARTS for reason in part(scene)]
    if about is not None:
        reasons = list(_about(about, reasons))
        if not reasons and not _is_there(scene, about):
            raise LookupError(f"there is no rule, partition, transactional id, group or broker {plain(about)}")
    return WhyView(
        now_ms=scene.now, reasons=reasons, sentences=list(_sentences(reasons, about)), events=newest_lines(recent)
    )


def _about(name: str, reasons: Iterable[Reason]) -> Iterator[Reason]:
    """The sentences about this thing, and about the things that it holds up."""
    for reason in reasons:
        topic = reason.name.rpartition("-")[0] if reason.about == "partition" else None
        if name in (reason.name, topic) or any(holder.name == name for holder in reason.held_by):
            yield reason


def _is_there(scene: Scene, name: str) -> bool:
    topics = scene.cluster.controller.node.image.topics
    topic, _, index = name.rpartition("-")
    return (
        name in topics
        or (topic in topics and index.isdecimal() and int(index) in topics[topic].partitions)
        or any(armed.name == name for armed in scene.rules)
        or any(entry.transactional_id == name for _, entry in scene.entries)
        or any(str(broker) == name for broker in scene.cluster.drivers)
        or any(
            group.group_id == name
            for node in scene.nodes.values()
            for shard in node.group_coordinators.led()
            for group in shard.machine.listed((), ())
        )
    )


def _sentences(reasons: list[Reason], about: str | None) -> Iterator[str]:
    """The sentences, up to a number of each kind."""
    if about is not None and not reasons:
        yield f"Nothing holds up {plain(about)}."
        return
    told: Counter[str] = Counter()
    for reason in reasons:
        told[reason.about] += 1
        if told[reason.about] <= OF_A_KIND_MAX:
            yield reason.sentence
    for kind, count in told.items():
        if count > OF_A_KIND_MAX:
            yield f"There is more to say of {count - OF_A_KIND_MAX} {kind}s."
    if about is None and not any(reason.stuck for reason in reasons):
        yield AT_REST
