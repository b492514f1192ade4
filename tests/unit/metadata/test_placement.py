"""Who holds a partition and who leads it."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.metadata.helpers import broker, image_of

from odradek.metadata.placement import elect, in_sync, place, random_id


def test_ids_are_random_uuids_that_do_not_look_like_options() -> None:
    dice = Random(1)

    ids = [random_id(dice) for _ in range(500)]

    assert 500 == len(set(ids))
    assert {4} == {drawn[6] >> 4 for drawn in ids}
    assert {2} == {drawn[8] >> 6 for drawn in ids}
    assert 62 not in {drawn[0] >> 2 for drawn in ids}


@given(st.integers(1, 6), st.integers(1, 20), st.data())
def test_leaders_and_replicas_are_spread(brokers: int, partitions: int, data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, brokers))
    image = image_of([broker(broker_id) for broker_id in range(1, brokers + 1)])

    placed = place(image.brokers.values(), partitions=partitions, replicas=replicas, rng=Random(3))

    assert partitions == len(placed)
    assert all(len(set(each)) == replicas for each in placed)
    leaders = Counter(each[0] for each in placed)
    assert max(leaders.values()) - (min(leaders.values()) if len(leaders) == brokers else 0) <= 1
    held = Counter(holder for each in placed for holder in each)
    assert sum(held.values()) == partitions * replicas


def test_a_fenced_broker_gets_a_replica_only_where_others_are_missing() -> None:
    image = image_of(broker(1), broker(2, fenced=True), broker(3))

    two = place(image.brokers.values(), partitions=4, replicas=2, rng=Random(1))
    three = place(image.brokers.values(), partitions=4, replicas=3, rng=Random(1))

    assert {1, 3} == {holder for each in two for holder in each}
    assert {2} == {each[2] for each in three}


@given(st.integers())
def test_racks_take_turns(seed: int) -> None:
    image = image_of(broker(1, rack="a"), broker(2, rack="a"), broker(3, rack="b"), broker(4, rack="b"))

    placed = place(image.brokers.values(), partitions=8, replicas=3, rng=Random(seed))

    assert all(set(each[:2]) not in ({1, 2}, {3, 4}) for each in placed)
    assert {2} == set(Counter(each[0] for each in placed).values())


def test_the_first_replica_that_is_there_leads() -> None:
    image = image_of(broker(1, fenced=True), broker(2), broker(3))

    assert 2 == elect([1, 2, 3], image)
    assert 3 == elect([3, 2], image)
    assert -1 == elect([1, 9], image)
    assert [2, 3] == in_sync([1, 2, 3], image)
