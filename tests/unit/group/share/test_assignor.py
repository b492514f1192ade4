"""The simple assignor: everything to somebody, something for everybody, and little that moves."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from odradek.group.share.assignor import simple_assignor

T, U = b"t" * 16, b"u" * 16


Targets = dict[str, dict[bytes, frozenset[int]]]


def spread(members: str, partitions: int, before: Targets | None = None) -> Targets:
    subscriptions = {member: frozenset({T}) for member in members}
    return simple_assignor(subscriptions, before or {}, {T: frozenset(range(partitions))})


@pytest.mark.parametrize(("members", "partitions"), [(1, 3), (2, 3), (4, 3), (3, 1), (7, 3), (5, 5), (3, 0)])
def test_partitions_and_members_are_spread_evenly(members: int, partitions: int) -> None:
    targets = spread("abcdefghij"[:members], partitions)

    loads = sorted(sum(map(len, each.values())) for each in targets.values())
    readers = Counter(index for each in targets.values() for index in each.get(T, ()))
    if partitions:
        assert loads[-1] - loads[0] <= 1
        assert loads[0] >= 1 or members > partitions * members
        assert set(readers) == set(range(partitions))
        assert {-(-members // partitions)} == set(readers.values())


def test_members_keep_what_they_have() -> None:
    first = spread("ab", 4)
    second = spread("abc", 4, first)

    kept = sum(len(first[member][T] & second[member][T]) for member in "ab")
    assert 3 == kept
    assert first == spread("ab", 4, first)
    crossed = {"a": {T: frozenset({0, 3})}, "b": {T: frozenset({1, 2})}}
    assert crossed == spread("ab", 4, crossed)
    assert crossed["a"] == spread("ac", 4, crossed)["a"]


@pytest.mark.parametrize("seed", range(40))
def test_where_subscriptions_differ_each_topic_is_shared_by_its_subscribers(seed: int) -> None:
    roll = random.Random(seed)
    partitions = {T: frozenset(range(roll.randint(1, 5))), U: frozenset(range(roll.randint(1, 5)))}
    before: dict[str, dict[bytes, frozenset[int]]] = {}
    for _ in range(5):
        members = roll.sample("abcdef", roll.randint(1, 6))
        subscriptions = {each: frozenset(roll.sample([T, U], roll.randint(1, 2))) for each in members}
        before = simple_assignor(subscriptions, before, partitions)
        for topic_id, indexes in partitions.items():
            subscribers = [member for member, topics in subscriptions.items() if topic_id in topics]
            readers = Counter(index for member in subscribers for index in before[member].get(topic_id, ()))
            if subscribers:
                assert set(readers) == indexes
        assert all(set(before[member]) <= topics for member, topics in subscriptions.items())
