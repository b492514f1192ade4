"""The partitions of a transaction: sets that grow from each other, and what growing costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counted import calls_of

from odradek.txn.entry import Entry, decode_entry, encode_entry
from odradek.txn.partitions import FEW_MAX, ManyPartitions, TopicPartition, by_topic, includes, sorted_partitions
from odradek.txn.states import TxnState
from odradek.txn.transitions import added

named = st.tuples(st.sampled_from(["a", "b", "t" * 200]), st.integers(0, 60))
some = st.lists(named, max_size=40)
numbers = st.integers(0, 10)


def entry_of(partitions: list[TopicPartition]) -> Entry:
    return Entry(
        transactional_id="x",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=60_000,
        state=TxnState.ONGOING,
        last_update_timestamp=2,
        start_timestamp=1,
        partitions=sorted_partitions(partitions),
    )


@given(some, st.lists(st.tuples(numbers, some), max_size=8), some)
def test_versions_that_grow_from_each_other_are_the_sets_that_they_were(
    first: list[TopicPartition], grown: list[tuple[int, list[TopicPartition]]], others: list[TopicPartition]
) -> None:
    """Any version may grow, also one from which another has grown before, whose record was refused."""
    versions, models = [entry_of(first)], [set(first)]
    for which, new in grown:
        of = which % len(versions)
        versions.append(added(versions[of], new, client_version=0, now=3))
        models.append(models[of] | set(new))
    for entry, model in zip(versions, models, strict=True):
        partitions = entry.partitions
        assert (model, len(model)) == (set(partitions), len(partitions))
        assert (len(model) > FEW_MAX) is isinstance(partitions, ManyPartitions)
        assert sorted_partitions(model) == partitions
        assert {each for each in others if each in model} == {each for each in others if each in partitions}
        assert by_topic(sorted(model)) == (by_topic(partitions) if model else {})
        read = decode_entry("x", encode_entry(entry, 1))
        assert read is not None
        assert read.partitions == partitions
    for larger, model in zip(versions, models, strict=True):
        for smaller, part in zip(versions, models, strict=True):
            assert (part <= model) is includes(larger.partitions, smaller.partitions)
            assert (part == model) is (larger.partitions == smaller.partitions)


def test_each_topic_is_named_once_in_a_record() -> None:
    entry = entry_of([(f"t{index % 3}", index) for index in range(30)])
    for index in range(30, 60):
        entry = added(entry, [(f"t{index % 4}", index)], client_version=0, now=3)
    value = encode_entry(entry, 1)
    assert [1] * 4 == [value.count(f"t{number}".encode()) for number in range(4)]


@pytest.mark.parametrize("topics", [1, 1_000])
def test_what_joins_costs_the_same_whatever_is_there(topics: int) -> None:
    # The counts in the record are a byte longer.
    assert calls_of_joining(10_000, topics) <= calls_of_joining(1_000, topics) + 2


def calls_of_joining(present: int, topics: int) -> int:
    """Calls of Python and of C while twenty partitions join so many, and the record is made."""
    entry = entry_of([(f"t{index % topics}", index) for index in range(present)])
    entry = added(entry, [(f"t{index % topics}", present + index) for index in range(20)], client_version=0, now=3)
    new = [(f"t{index % topics}", present + 20 + index) for index in range(20)]
    return calls_of(lambda: encode_entry(added(entry, new, client_version=0, now=3), 1))


def test_a_set_that_grows_twice_does_not_get_what_the_first_got() -> None:
    base = entry_of([("t", index) for index in range(30)])
    refused = added(base, [("t", 30)], client_version=0, now=3)
    added(refused, [("t", 31)], client_version=0, now=3)
    grown = added(base, [("u", 0)], client_version=0, now=3).partitions
    assert {*base.partitions, ("u", 0)} == set(grown)
    assert 31 == len(grown)
    assert ("t", 30) not in grown
    assert not includes(grown, refused.partitions)
