"""A view of a cluster for people, of limited size.

A cluster may have ten thousand partitions: details are read only for those that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, structs

from odradek.control.messages.now import FeatureView, NowView, WaitingView
from odradek.control.messages.state import ParkedView, TopicPartitionView
from odradek.control.state import (
    broker_views,
    groups,
    led_partitions,
    parked_calls,
    parked_view,
    rules_by_wait,
    running,
    sent_to_itself,
    time_view,
    transactions,
    view_of_group,
    view_of_partition,
    view_of_transaction,
)
from odradek.control.why.groups import RESTING as RESTING_GROUPS
from odradek.control.why.requests import waited_for
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.faults.armed import seen
from odradek.metadata.image import NO_LEADER
from odradek.txn.states import RESTING

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.control.hub import Hosted
    from odradek.core.flow import Pending
    from odradek.faults.armed import SeenRequest
    from odradek.group.coordinator import GroupCoordinator
    from odradek.host.call import Call
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage
    from odradek.net.cluster import RunningCluster
    from odradek.txn.entry import Entry
    from odradek.txn.ledger import Ledger
    from odradek.wire.messages.list_groups_response import ListedGroup

__all__ = ["Bounds", "now_view"]

T = TypeVar("T")


class Bounds(Struct, frozen=True):
    """The limits of a view."""

    find: str
    """Only things whose names contain this text, in small letters; empty: all."""
    most: int
    """The number of things of each kind."""
    batches: int
    """The number of newest batches of each partition."""

    def finds(self, *names: object) -> bool:
        """Whether one of these names contains the text of the search."""
        return not self.find or any(self.find in str(name).lower() for name in names)


class _Waiting(Struct, frozen=True):
    """A request that waits at a broker, on a connection."""

    node: Node
    call: Call
    wait: Pending | None
    since_ms: int

    def request(self) -> SeenRequest:
        """The request as the event log shows it."""
        return seen(self.node, self.call)

    def view(self, now: int, rules: dict[int, str], held: frozenset[int]) -> WaitingView:
        """The request for the page."""
        parked = parked_view(self.node, self.call, self.wait, now - self.since_ms, rules)
        return WaitingView(
            **structs.asdict(parked),
            ids=self.request().ids,
            what=waited_for(self.call, self.node.purgatory.keys_of(self.wait)),
            kept=None if parked.rule is None else _kept(parked, id(self.wait) in held),
        )


class _SentToItself(Struct, frozen=True):
    """A request that a broker has sent to itself, and a rule holds."""

    parked: ParkedView
    seen: SeenRequest
    since_ms: int

    def request(self) -> SeenRequest:
        """The request as the event log shows it."""
        return self.seen

    def view(self, now: int, rules: dict[int, str], held: frozenset[int]) -> WaitingView:
        """The request for the page."""
        kept = "held" if self.parked.deadline_ms is None else "delayed"
        return WaitingView(**structs.asdict(self.parked), ids=self.seen.ids, what="", kept=kept)


def now_view(hosted: Hosted, bounds: Bounds) -> NowView:
    """A cluster at this moment, read in its event loop."""
    cluster, left_out = hosted.running, dict[str, int]()
    image = cluster.controller.node.image

    def shown(kind: str, found: Iterable[T], rests: Callable[[T], bool] | None = None) -> list[T]:
        """The things that are shown, in order. If there are too many, those at rest are left out first."""
        each = list(found)
        if len(each) <= bounds.most:
            return each
        left_out[kind] = len(each) - bounds.most
        if rests is None:
            return each[: bounds.most]
        ranked = sorted(range(len(each)), key=lambda index: (rests(each[index]), index))
        return [each[index] for index in sorted(ranked[: bounds.most])]

    entries = shown("transactions", _transactions(cluster, bounds), lambda each: each[2].state in RESTING)
    led = shown("partitions", _partitions(cluster, bounds), lambda each: not each[1].producers.ongoing)
    listed = shown("groups", _groups(cluster, bounds), lambda each: each[2].group_state in RESTING_GROUPS)
    waiting = shown("waiting", _waiting(cluster, bounds))
    armed = [] if not cluster.has_rules else [each for each in cluster.rules if bounds.finds(each.name)]
    held = frozenset(id(each.wait) for rule in armed for each in rule.holding)
    rules, time = rules_by_wait(cluster), time_view(cluster)
    return NowView(
        id=hosted.id,
        bootstrap=cluster.bootstrap,
        lease_s=hosted.lease_s,
        controller=cluster.spec.controller_id,
        last_event=hosted.events.last,
        time=time,
        features=_features(image),
        brokers=broker_views(cluster),
        transactions=[view_of_transaction(*each) for each in entries],
        partitions=[view_of_partition(*each, bounds.batches) for each in led],
        leaderless=shown("leaderless", _leaderless(cluster, bounds)),
        waiting=[each.view(time.now_ms, rules, held) for each in waiting],
        rules=[each.report() for each in shown("rules", armed)],
        groups=[view_of_group(*each) for each in listed],
        left_out=left_out,
    )


def _features(image: MetadataImage) -> list[FeatureView]:
    ranges = [broker.features for broker in image.brokers.values()]
    return [
        FeatureView(
            name=name,
            level=level,
            lowest=max((each.get(name, (0, 0))[0] for each in ranges), default=0),
            highest=min((each.get(name, (0, 0))[1] for each in ranges), default=level),
        )
        for name, level in sorted(image.features.items())
    ]


def _transactions(cluster: RunningCluster, bounds: Bounds) -> list[tuple[Node, Ledger, Entry]]:
    """Transactions found by id or by a partition, by name."""
    found = [
        each for each in transactions(cluster) if bounds.finds(each[2].transactional_id, *_places(each[2], bounds))
    ]
    return sorted(found, key=lambda each: each[2].transactional_id)


def _places(entry: Entry, bounds: Bounds) -> Iterator[str]:
    """The partitions of a transaction, if a search needs them."""
    if bounds.find:
        yield from (f"{topic}-{index}" for topic, index in entry.partitions)


def _partitions(cluster: RunningCluster, bounds: Bounds) -> list[tuple[Node, Partition]]:
    """Partitions found by name, or by the id of a transaction that is open in them, by name."""
    found = sorted(led_partitions(cluster).items())
    if not bounds.find:
        return [led for _, led in found]
    open_in: dict[tuple[str, int], list[str]] = {}
    for _, _, entry in transactions(cluster):
        for key in entry.partitions:
            open_in.setdefault(key, []).append(entry.transactional_id)
    return [led for key, led in found if bounds.finds(f"{key[0]}-{key[1]}", *open_in.get(key, ()))]


def _leaderless(cluster: RunningCluster, bounds: Bounds) -> list[TopicPartitionView]:
    return [
        TopicPartitionView(topic=name, partition=index)
        for name, topic in sorted(cluster.controller.node.image.topics.items())
        for index, registered in sorted(topic.partitions.items())
        if name not in INTERNAL_TOPICS and cluster.leads(registered) == NO_LEADER and bounds.finds(f"{name}-{index}")
    ]


def _groups(cluster: RunningCluster, bounds: Bounds) -> list[tuple[Node, GroupCoordinator, ListedGroup]]:
    found = [each for each in groups(cluster) if bounds.finds(each[2].group_id)]
    return sorted(found, key=lambda each: each[2].group_id)


def _waiting(cluster: RunningCluster, bounds: Bounds) -> list[_Waiting | _SentToItself]:
    """Requests found by their text or by the rule that holds them, oldest first."""
    found: list[_Waiting | _SentToItself] = [
        _Waiting(node, *each) for node in running(cluster) for each in parked_calls(node)
    ]
    now = cluster.clock.now()
    found += [_SentToItself(view, request, now - view.age_ms) for view, request in sent_to_itself(cluster)]
    found.sort(key=lambda each: each.since_ms)
    if not bounds.find:
        return found
    rules = rules_by_wait(cluster)
    return [each for each in found if bounds.finds(*_names_of(each, rules))]


def _names_of(each: _Waiting | _SentToItself, rules: dict[int, str]) -> Iterator[object]:
    request = each.request()
    yield from (request.api, request.client_id)
    yield each.parked.rule if isinstance(each, _SentToItself) else rules.get(id(each.wait))
    yield from (name for names in request.ids.values() for name in names)
    partitions = request.ids.get("partition", ())
    yield from (f"{topic}-{index}" for topic in request.ids.get("topic", ()) for index in partitions)


def _kept(view: ParkedView, held: bool) -> str:
    if held:
        return "held"
    return "dropped" if view.deadline_ms is None else "delayed"
