"""The simple assignor (KIP-932, "Assigning partitions"): every partition has a member, every member a partition.

With more members than partitions several share one. Members keep their partitions as far as that stays even.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from odradek.group.consumer.member import Partitions

__all__ = ["simple_assignor"]

TopicPartition: TypeAlias = tuple[bytes, int]


def simple_assignor(
    subscriptions: Mapping[str, frozenset[bytes]], before: Mapping[str, Partitions], partitions: Partitions
) -> dict[str, dict[bytes, frozenset[int]]]:
    """The partitions of each member. `subscriptions`: topic ids by member; `partitions`: all that may be assigned.

    Members that subscribe to the same topics share them among themselves; where subscriptions differ, each topic is
    shared by its subscribers.
    """
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in subscriptions}
    if len(set(subscriptions.values())) <= 1:
        topic_ids = next(iter(subscriptions.values()), frozenset())
        rounds = [(list(subscriptions), sorted(topic_ids & partitions.keys()))]
    else:
        subscribers: dict[bytes, list[str]] = defaultdict(list)
        for member_id, wanted in subscriptions.items():
            for topic_id in wanted & partitions.keys():
                subscribers[topic_id].append(member_id)
        rounds = [(subscribers[topic_id], [topic_id]) for topic_id in sorted(subscribers)]
    for members, shared in rounds:
        load = {member_id: sum(map(len, assigned[member_id].values())) for member_id in members}
        members = sorted(members, key=load.__getitem__)  # the order stays where loads are the same
        wanted_here = [(topic_id, index) for topic_id in shared for index in sorted(partitions[topic_id])]
        for member_id, each in _share(members, before, wanted_here).items():
            for topic_id, index in each:
                assigned[member_id].setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
        for member_id, topics in assigned.items()
    }


def _share(
    members: list[str], before: Mapping[str, Partitions], wanted: list[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """All of these members subscribe to all of these partitions."""
    if not wanted or not members:
        return {}
    sharing = -(-len(members) // len(wanted))
    """Number of members that read from each partition."""
    total = sharing * len(wanted)
    rounded = [-(-total * place // len(members)) for place in range(len(members) + 1)]
    quota = {member_id: rounded[place + 1] - rounded[place] for place, member_id in enumerate(members)}
    known = set(wanted)
    held = {
        member_id: [
            (topic_id, index)
            for topic_id, indexes in sorted(before.get(member_id, {}).items())
            for index in sorted(indexes)
            if (topic_id, index) in known
        ]
        for member_id in members
    }
    readers = Counter(each for mine in held.values() for each in mine)
    for member_id in members:
        kept: list[TopicPartition] = []
        excess = len(held[member_id]) - quota[member_id]
        for each in held[member_id]:
            if excess > 0 or readers[each] > sharing:
                readers[each] -= 1
                excess -= 1
            else:
                kept.append(each)
        held[member_id] = kept
    for member_id in members:
        missing = quota[member_id] - len(held[member_id])
        if missing > 0:
            mine = set(held[member_id])
            free = [each for each in reversed(wanted) if readers[each] < sharing and each not in mine]
            free.sort(key=readers.__getitem__)
            for each in free[:missing]:
                held[member_id].append(each)
                readers[each] += 1
    return held
