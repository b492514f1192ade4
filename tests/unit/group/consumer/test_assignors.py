"""Who shall have which partitions: examples, and what holds for any members and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.group.consumer.assignors import ASSIGNORS, MemberSpec, range_assignor, uniform_assignor
from odradek.group.consumer.member import Partitions

T, U, V = (bytes([number]) * 16 for number in (1, 2, 3))


def spec(*topics: bytes, target: Partitions | None = None, instance: str | None = None) -> MemberSpec:
    return MemberSpec(instance, frozenset(topics), target or {})


def counted(targets: Mapping[str, Partitions]) -> dict[str, int]:
    return {member_id: sum(map(len, target.values())) for member_id, target in targets.items()}


def test_ranges_of_each_topic() -> None:
    targets = range_assignor({"b": spec(T, U), "a": spec(T, U)}, {T: 5, U: 3})
    assert {T: frozenset({0, 1, 2}), U: frozenset({0, 1})} == targets["a"]
    assert {T: frozenset({3, 4}), U: frozenset({2})} == targets["b"]


def test_ranges_go_to_static_members_first() -> None:
    targets = range_assignor({"a": spec(T), "z": spec(T, instance="i")}, {T: 1})
    assert {"a": {}, "z": {T: frozenset({0})}} == targets


def test_uniform_moves_no_more_than_it_must() -> None:
    had = {T: frozenset(range(4))}
    targets = uniform_assignor({"a": spec(T, target=had), "b": spec(T)}, {T: 4})
    assert {"a": {T: frozenset({0, 1})}, "b": {T: frozenset({2, 3})}} == targets


def test_uniform_takes_back_what_is_not_subscribed_to_or_gone() -> None:
    had = {T: frozenset(range(4)), U: frozenset({0})}
    targets = uniform_assignor({"a": spec(T, target=had)}, {T: 2})
    assert {"a": {T: frozenset({0, 1})}} == targets


def test_no_subscription_is_no_partition() -> None:
    for assignor in ASSIGNORS.values():
        assert {"a": {}} == assignor({"a": spec()}, {})


COUNTS = st.fixed_dictionaries({T: st.integers(0, 6), U: st.integers(0, 6), V: st.integers(0, 6)})
MEMBERS = st.dictionaries(
    st.sampled_from("abcdef"), st.frozensets(st.sampled_from([T, U, V]), max_size=3), min_size=1, max_size=6
)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(members=MEMBERS, later=MEMBERS, counts=COUNTS)
def test_every_partition_has_one_owner_that_subscribes_to_it(
    name: str, members: dict[str, frozenset[bytes]], later: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    targets: dict[str, Partitions] = {}
    for subscriptions in (members, later):
        specs = {key: MemberSpec(None, topics, targets.get(key, {})) for key, topics in subscriptions.items()}
        targets = ASSIGNORS[name](specs, counts)
        owners = Counter((topic, i) for each in targets.values() for topic, indexes in each.items() for i in indexes)
        subscribed = frozenset().union(*subscriptions.values())
        assert Counter((topic, i) for topic in subscribed for i in range(counts[topic])) == owners
        for key, target in targets.items():
            assert target.keys() <= subscriptions[key]


@given(members=MEMBERS, later=MEMBERS, counts=COUNTS)
def test_uniform_is_even(
    members: dict[str, frozenset[bytes]], later: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    """Nobody has two more than another who could have one of them."""
    targets: dict[str, Partitions] = {}
    for subscriptions in (members, later):
        specs = {key: MemberSpec(None, topics, targets.get(key, {})) for key, topics in subscriptions.items()}
        targets = uniform_assignor(specs, counts)
        load = counted(targets)
        for heavy, target in targets.items():
            for light, topics in subscriptions.items():
                if topics & target.keys():
                    assert load[heavy] <= load[light] + 1


@given(counts=COUNTS, names=st.sets(st.sampled_from("abcdef"), min_size=1))
def test_uniform_stays_as_it_is_when_nothing_has_changed(counts: dict[bytes, int], names: set[str]) -> None:
    specs = {name: spec(T, U, V) for name in sorted(names)}
    targets = uniform_assignor(specs, counts)
    again = {name: spec(T, U, V, target=targets[name]) for name in specs}
    assert targets == uniform_assignor(again, counts)
