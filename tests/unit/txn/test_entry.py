"""Entries as records of the log."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from odradek.records.state import encode_value
from odradek.txn.entry import (
    EPOCH_USED_TAG,
    LAST_PRODUCER_EPOCH_TAG,
    NONE,
    TIMEOUT_NEVER,
    VALUE_VERSIONS,
    Entry,
    decode_entry,
    decode_id,
    encode_entry,
    encode_id,
    log_value,
)
from odradek.txn.partitions import sorted_partitions
from odradek.txn.states import TxnState

PREPARED = Entry(
    transactional_id="x",
    producer_id=7,
    producer_epoch=32767,
    timeout_ms=60_000,
    state=TxnState.PREPARE_COMMIT,
    last_update_timestamp=2,
    start_timestamp=1,
    partitions=(("a", 0), ("a", 2), ("b", 1)),
    previous_producer_id=7,
    next_producer_id=8,
    last_producer_epoch=32766,
    client_transaction_version=2,
)
VALUE_V1 = (
    "0001 0000000000000007 7fff 0000ea60 02"
    "03 0261 03 00000000 00000002 00 0262 02 00000001 00"
    "0000000000000002 0000000000000001"
    "04 00 08 0000000000000007 01 08 0000000000000008 02 02 0002 e802 02 7ffe"
)
VALUE_V0 = (
    "0000 0000000000000007 7fff 0000ea60 02"
    "00000002 0001 61 00000002 00000000 00000002 0001 62 00000001 00000001"
    "0000000000000002 0000000000000001"
)

stored_states = st.sampled_from([state for state in TxnState if state < TxnState.DEAD])
epochs = st.integers(-1, 32767)
partitions = st.lists(st.tuples(st.sampled_from(["a", "b", "__consumer_offsets"]), st.integers(0, 50)), max_size=8)
entries = st.builds(
    Entry,
    transactional_id=st.just("x"),
    producer_id=st.integers(0, 2**62),
    producer_epoch=epochs,
    timeout_ms=st.integers(1, TIMEOUT_NEVER),
    state=stored_states,
    last_update_timestamp=st.integers(0, 2**60),
    start_timestamp=st.integers(-1, 2**60),
    partitions=partitions.map(sorted_partitions),
    previous_producer_id=st.integers(-1, 2**62),
    next_producer_id=st.integers(-1, 2**62),
    next_producer_epoch=epochs,
    last_producer_epoch=epochs,
    client_transaction_version=st.sampled_from([0, 1, 2]),
    epoch_used=st.booleans(),
)


def test_the_key_is_the_version_and_the_id() -> None:
    assert bytes.fromhex("0000 0003 626964") == encode_id("bid")
    assert "bid" == decode_id(encode_id("bid"))


def test_another_kind_of_key_is_no_id() -> None:
    assert decode_id(bytes.fromhex("0001 0003 626964")) is None


def test_bytes_of_the_value_with_tagged_fields() -> None:
    assert bytes.fromhex(VALUE_V1) == encode_entry(PREPARED, 1)
    assert decode_entry("x", bytes.fromhex(VALUE_V1)) == PREPARED


def test_bytes_of_the_value_without_tagged_fields() -> None:
    assert bytes.fromhex(VALUE_V0) == encode_entry(PREPARED.fitting(0), 0)


def test_partitions_are_null_in_state_empty_only() -> None:
    empty = replace(PREPARED, state=TxnState.EMPTY, partitions=())
    # 2 + 8 + 2 + 4 + 1 bytes on is the array: 0 for null, 1 for an empty one
    assert 0 == encode_entry(empty, 1)[17]
    assert 1 == encode_entry(replace(empty, state=TxnState.ONGOING), 1)[17]


@given(entries)
def test_version_1_holds_everything(entry: Entry) -> None:
    entry = replace(entry, partitions=() if entry.state is TxnState.EMPTY else entry.partitions)
    assert entry == decode_entry("x", encode_entry(entry, 1))


@given(entries)
def test_the_bytes_of_a_value_are_those_of_its_message(entry: Entry) -> None:
    assert encode_entry(entry, 1) == encode_value(log_value(entry, 1), 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_bytes_of_a_value_whatever_it_has_of_tagged_fields(version: int) -> None:
    for previous, next_id, next_epoch, last, used in product((NONE, 3), (NONE, 4), (NONE, 5), (NONE, 6), (False, True)):
        entry = replace(
            PREPARED,
            previous_producer_id=previous,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            last_producer_epoch=last,
            client_transaction_version=version,
            epoch_used=used,
        )
        assert encode_entry(entry, 1) == encode_value(log_value(entry, 1), 1)
        assert entry == decode_entry("x", encode_entry(entry, 1))


def test_the_bytes_of_many_partitions_with_long_names_are_those_of_the_message() -> None:
    partitions = sorted_partitions((f"{'t' * (index % 200 + 1)}{index // 3}", index) for index in range(500))
    entry = replace(PREPARED, partitions=partitions)
    assert encode_entry(entry, 1) == encode_value(log_value(entry, 1), 1)


@given(entries)
def test_version_0_holds_what_as_stored_says(entry: Entry) -> None:
    entry = replace(entry, partitions=() if entry.state is TxnState.EMPTY else entry.partitions)
    assert entry.as_stored(0) == decode_entry("x", encode_entry(entry.fitting(0), 0))


def test_version_0_cannot_say_how_a_client_ends_transactions() -> None:
    with pytest.raises(AssertionError):
        encode_entry(PREPARED, 0)


@pytest.mark.parametrize("key", ["", "00", "0000 0005 61"])
def test_what_is_no_key_is_no_id(key: str) -> None:
    assert decode_id(bytes.fromhex(key)) is None


@pytest.mark.parametrize("value", ["", "00", "0001 00", "0002 0000000000000007", "0001" + "00" * 14 + "06" + "00" * 18])
def test_unknown_versions_and_states_are_no_entry(value: str) -> None:
    assert decode_entry("x", bytes.fromhex(value)) is None


def test_a_tag_of_somebody_else_is_skipped() -> None:
    foreign = bytes.fromhex(VALUE_V1.replace("e802 02 7ffe", "e902 02 7ffe"))
    read = decode_entry("x", foreign)
    assert read == replace(PREPARED, last_producer_epoch=NONE)


def test_the_tags_of_ours_are_none_that_kafka_uses() -> None:
    assert EPOCH_USED_TAG > LAST_PRODUCER_EPOCH_TAG > 3


@pytest.mark.parametrize(("tv", "version"), [(0, 0), (1, 1), (2, 1)])
def test_VALUE_VERSIONS_follows_the_level(tv: int, version: int) -> None:
    assert version == VALUE_VERSIONS[tv]
