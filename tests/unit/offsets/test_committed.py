from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.offsets.committed import NO_EXPIRY, CommittedOffset, Offsets, offset_record
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue

NOBODY = -1


class Folded:
    """Offsets with a log that counts."""

    def __init__(self) -> None:
        self.offsets = Offsets()
        self.next_offset = 0

    def put(self, offset: int | None, *, group: str = "g", partition: int = 0, producer_id: int = NOBODY) -> None:
        value = None if offset is None else OffsetCommitValue(offset=offset)
        key = OffsetCommitKey(group=group, topic="t", partition=partition)
        self.offsets.fold(key, value, record_offset=self.next_offset, producer_id=producer_id)
        self.next_offset += 1

    def get(self, *, group: str = "g", partition: int = 0) -> int | None:
        found = self.offsets.get(group, "t", partition)
        return None if found is None else found.offset


def test_the_last_offset_counts() -> None:
    folded = Folded()
    folded.put(5)
    folded.put(3)
    assert 3 == folded.get()


def test_a_tombstone_leaves_nothing_behind() -> None:
    folded = Folded()
    folded.put(5)
    folded.put(6, producer_id=7)
    folded.put(6, producer_id=8)
    folded.put(None)
    assert Offsets().durable_state() == folded.offsets.durable_state()
    assert not folded.offsets.has_open("g")


def test_an_offset_in_a_transaction_counts_when_it_commits() -> None:
    folded = Folded()
    folded.put(5)
    folded.put(6, producer_id=7)
    assert folded.offsets.is_open("g", "t", 0)
    assert 5 == folded.get()
    folded.offsets.end_transaction(7, committed=True)
    assert not folded.offsets.is_open("g", "t", 0)
    assert 6 == folded.get()


def test_an_offset_in_an_aborted_transaction_never_counts() -> None:
    folded = Folded()
    folded.put(6, producer_id=7)
    folded.offsets.end_transaction(7, committed=False)
    assert folded.get() is None
    assert Offsets().durable_state() == folded.offsets.durable_state()


def test_an_offset_written_later_outside_of_the_transaction_wins() -> None:
    folded = Folded()
    folded.put(6, producer_id=7)
    folded.put(5)
    folded.offsets.end_transaction(7, committed=True)
    assert 5 == folded.get()


def test_a_deleted_offset_does_not_come_back_with_the_marker() -> None:
    folded = Folded()
    folded.put(6, producer_id=7)
    folded.put(None)
    folded.offsets.end_transaction(7, committed=True)
    assert folded.get() is None


def test_two_transactions_hold_one_partition() -> None:
    folded = Folded()
    folded.put(6, producer_id=7)
    folded.put(9, producer_id=8)
    folded.offsets.end_transaction(8, committed=True)
    assert folded.offsets.is_open("g", "t", 0)
    assert 9 == folded.get()
    folded.offsets.end_transaction(7, committed=True)
    assert 9 == folded.get()
    assert not folded.offsets.has_open("g")


def test_a_marker_of_a_producer_without_offsets_changes_nothing() -> None:
    folded = Folded()
    folded.put(5)
    folded.offsets.end_transaction(99, committed=True)
    assert 5 == folded.get()


def test_known_are_committed_and_pending_partitions_once_each() -> None:
    folded = Folded()
    folded.put(5, partition=0)
    folded.put(5, partition=0, producer_id=7)
    folded.put(5, partition=1, producer_id=7)
    assert [("t", 0), ("t", 1)] == list(folded.offsets.known("g"))


def test_offsets_of_a_topic_are_told_apart_by_its_id() -> None:
    offsets = Offsets()
    for record_offset, (group, topic_id) in enumerate((("a", b"1" * 16), ("b", b"2" * 16), ("c", bytes(16)))):
        key = OffsetCommitKey(group=group, topic="t", partition=0)
        value = OffsetCommitValue(offset=1, topic_id=topic_id)
        offsets.fold(key, value, record_offset=record_offset, producer_id=9 if group == "c" else NOBODY)
    assert [("a", 0), ("c", 0)] == list(offsets.of_topic("t", b"1" * 16))
    assert [] == list(offsets.of_topic("u", b"1" * 16))


def test_expiry() -> None:
    lasting = CommittedOffset(5, -1, "", commit_timestamp=100, expire_timestamp=-1, topic_id=bytes(16), record_offset=0)
    assert not lasting.is_expired(109, retention_ms=10, since=None)
    assert lasting.is_expired(110, retention_ms=10, since=None)
    assert not lasting.is_expired(110, retention_ms=10, since=105)
    own = CommittedOffset(5, -1, "", commit_timestamp=100, expire_timestamp=150, topic_id=bytes(16), record_offset=0)
    assert not own.is_expired(149, retention_ms=1, since=None)
    assert own.is_expired(150, retention_ms=1000, since=149)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "commit", "abort"]),
        st.sampled_from(["g", "h"]),
        st.integers(0, 1),
        st.sampled_from([NOBODY, 7, 8]),
        st.integers(0, 99),
    ),
    max_size=40,
)


@given(STEPS)
def test_against_a_model_that_remembers_every_record(steps: list[tuple[str, str, int, int, int]]) -> None:
    folded = Folded()
    committed: dict[tuple[str, int], tuple[int, int]] = {}
    pending: dict[tuple[int, str, int], tuple[int, int]] = {}
    for step, group, partition, producer_id, offset in steps:
        written = folded.next_offset, offset
        if step == "put":
            folded.put(offset, group=group, partition=partition, producer_id=producer_id)
            if producer_id == NOBODY:
                committed[group, partition] = written
            else:
                pending[producer_id, group, partition] = written
        elif step == "delete":
            folded.put(None, group=group, partition=partition)
            committed.pop((group, partition), None)
            pending = {key: value for key, value in pending.items() if key[1:] != (group, partition)}
        else:
            folded.offsets.end_transaction(producer_id, committed=step == "commit")
            for key in [key for key in pending if key[0] == producer_id]:
                value = pending.pop(key)
                if step == "commit":
                    committed[key[1:]] = max(value, committed.get(key[1:], (-1, -1)))
    for group in ("g", "h"):
        for partition in (0, 1):
            expected = committed.get((group, partition))
            assert (None if expected is None else expected[1]) == folded.get(group=group, partition=partition)
            held = any(key[1:] == (group, partition) for key in pending)
            assert held == folded.offsets.is_open(group, "t", partition)
        assert any(key[1] == group for key in pending) == folded.offsets.has_open(group)


INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(
    key=st.builds(OffsetCommitKey, group=st.text(), topic=st.text(), partition=st.integers(0, 2**31 - 1)),
    value=st.builds(
        OffsetCommitValue,
        offset=INT64,
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.text() | st.integers(120, 135).map(lambda size: "m" * size),
        commit_timestamp=INT64,
        expire_timestamp=st.just(NO_EXPIRY) | INT64,
        topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    ),
)
def test_a_record_has_the_bytes_of_its_schema(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    record = offset_record(key, value)
    version = 4 if value.expire_timestamp == NO_EXPIRY else 1
    if version == 1:
        value = OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp, value.expire_timestamp)
    assert (encode_key(key), encode_value(value, version)) == (record.key, record.value)
