"""Assignors of the broker (KIP-848, "Server Side Assignors"): pure functions of members and topics.

`uniform` spreads all partitions evenly and moves as few as possible; `range` gives each member a range of each topic,
so
that topics with the same number of partitions and the same members get the same ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heapreplace
from typing import TypeAlias

from msgspec import Struct

from odradek.group.consumer.member import Partitions

__all__ = ["ASSIGNORS", "Assignor", "MemberSpec", "range_assignor", "uniform_assignor"]

TopicPartition: TypeAlias = tuple[bytes, int]


class MemberSpec(Struct, frozen=True):
    """A member, as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    """Existing topics of its subscription."""
    target: Partitions
    """Its previous target."""


Specs: TypeAlias = Mapping[str, MemberSpec]
Counts: TypeAlias = Mapping[bytes, int]
"""Number of partitions by topic id."""
Assignor: TypeAlias = Callable[[Specs, Counts], dict[str, Partitions]]


def range_assignor(members: Specs, counts: Counts) -> dict[str, Partitions]:
    """Ranges of each topic: first to static members by instance id, then to the others by member id."""
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    subscribers: dict[bytes, list[str]] = defaultdict(list)
    for member_id in sorted(members, key=lambda member_id: _range_order(member_id, members[member_id])):
        for topic_id in members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(counts[topic_id], len(member_ids))
        begin = 0
        for place, member_id in enumerate(member_ids):
            end = begin + quota + (place < extra)
            if end > begin:
                assigned[member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return dict(assigned)


def _range_order(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)


def uniform_assignor(members: Specs, counts: Counts) -> dict[str, Partitions]:
    """Numbers of partitions differ by one at most, as far as subscriptions allow."""
    subscriptions = {member.topic_ids for member in members.values()}
    return _deal(members, counts) if len(subscriptions) <= 1 else _balance(members, counts)


def _deal(members: Specs, counts: Counts) -> dict[str, Partitions]:
    """All members have the same subscription: each keeps partitions up to its share, and the rest is distributed."""
    topic_ids = next(iter(members.values())).topic_ids if members else frozenset()
    taken = {each for member in members.values() for each in _flat(member.target)}
    order = sorted(topic_ids)
    free = [(topic_id, index) for topic_id in order for index in range(counts[topic_id])]
    if taken:
        free = [each for each in free if each not in taken]
    quota, extra = divmod(sum(counts[topic_id] for topic_id in topic_ids), max(len(members), 1))
    assigned: dict[str, list[TopicPartition]] = {}
    unfilled: list[tuple[str, int]] = []
    for place, (member_id, member) in enumerate(members.items()):
        share = quota + (place < extra)
        had = [(topic_id, index) for topic_id, index in sorted(_flat(member.target)) if topic_id in topic_ids]
        had = [each for each in had if each[1] < counts[each[0]]]
        assigned[member_id] = had[:share]
        free += had[share:]
        if share > len(had):
            unfilled.append((member_id, share - len(had)))
    begin = 0
    for member_id, missing in unfilled:
        assigned[member_id] += free[begin : begin + missing]
        begin += missing
    return {member_id: _grouped(each) for member_id, each in assigned.items()}


def _balance(members: Specs, counts: Counts) -> dict[str, Partitions]:
    """Subscriptions differ: free partitions go to the member with the fewest, then single partitions move."""
    subscribers: dict[bytes, list[str]] = defaultdict(list)
    for member_id, member in members.items():
        for topic_id in member.topic_ids:
            subscribers[topic_id].append(member_id)
    owner: dict[TopicPartition, str] = {}
    for member_id, member in members.items():
        for topic_id, index in sorted(_flat(member.target)):
            if topic_id in member.topic_ids and index < counts[topic_id]:
                owner.setdefault((topic_id, index), member_id)
    load = dict.fromkeys(members, 0)
    for member_id in owner.values():
        load[member_id] += 1
    # Topics that few subscribe to come first: there is the least choice.
    order = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    for topic_id in order:
        free = [each for index in range(counts[topic_id]) if (each := (topic_id, index)) not in owner]
        if not free:
            continue
        by_load = [(load[member_id], place, member_id) for place, member_id in enumerate(subscribers[topic_id])]
        heapify(by_load)
        for each in free:
            lightest, place, member_id = by_load[0]
            owner[each] = member_id
            load[member_id] += 1
            heapreplace(by_load, (lightest + 1, place, member_id))
    _even_out([topic_id for topic_id in order if counts[topic_id]], subscribers, owner, load)
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for each, member_id in owner.items():
        assigned[member_id].append(each)
    return {member_id: _grouped(each) for member_id, each in assigned.items()}


def _even_out(
    order: Iterable[bytes],
    subscribers: Mapping[bytes, list[str]],
    owner: dict[TopicPartition, str],
    load: dict[str, int],
) -> None:
    """Move partitions of a topic from the subscriber with the most to the one with the fewest, while that helps."""
    held: dict[bytes, dict[str, list[int]]] = {topic_id: defaultdict(list) for topic_id in order}
    for (topic_id, index), member_id in sorted(owner.items()):
        held[topic_id][member_id].append(index)
    moved = True
    while moved:
        moved = False
        for topic_id, members in held.items():
            while True:
                heavy = max((load[member_id], member_id) for member_id, indexes in members.items() if indexes)[1]
                light = min(subscribers[topic_id], key=load.__getitem__)
                if load[heavy] <= load[light] + 1:
                    break
                index = members[heavy].pop()
                members[light].append(index)
                owner[topic_id, index] = light
                load[heavy] -= 1
                load[light] += 1
                moved = True


def _flat(partitions: Partitions) -> Iterable[TopicPartition]:
    return ((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def _grouped(partitions: Iterable[TopicPartition]) -> dict[bytes, frozenset[int]]:
    grouped: dict[bytes, list[int]] = {}
    last, indexes = b"", list[int]()
    for topic_id, index in partitions:
        # Most of those of a topic come one after the other.
        if topic_id is not last:
            last, indexes = topic_id, grouped.setdefault(topic_id, [])
        indexes.append(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}
"""By the names in `group.consumer.assignors` and in requests of members."""
