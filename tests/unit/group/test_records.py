from __future__ import annotations

from tests.unit.group.desk import subscription

from odradek.core.machine import LogRecord
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import Member
from odradek.group.classic.states import GroupState
from odradek.group.records import empty_group_record, group_of, group_record, group_tombstone
from odradek.offsets.committed import offset_record, offset_tombstone
from odradek.records.state import decode_value
from odradek.wire.messages.group_metadata_value import GroupMetadataValue
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue


def stable_group() -> ClassicGroup:
    group = ClassicGroup("g")
    for member_id, instance in (("a", None), ("b", "i")):
        protocols = (("sticky", b"own"), ("range", subscription(["t"])))
        member = Member(member_id, instance, "client", "/h", 600, 100, protocols, assignment=member_id.encode())
        group.add(member, "consumer")
    group.enter(GroupState.PREPARING_REBALANCE, 1)
    group.begin_generation(2)
    group.protocol = "range"
    return group


def value_of(record: LogRecord) -> GroupMetadataValue:
    assert record.value is not None
    value = decode_value(record.value, GroupMetadataValue)
    assert value is not None
    return value


def test_keys_name_the_kind_and_the_group() -> None:
    assert b"\x00\x02\x00\x01g" == group_tombstone("g").key
    assert b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x05" == offset_tombstone("g", "t", 5).key
    assert group_tombstone("g").value is None
    assert offset_tombstone("g", "t", 5).value is None


def test_a_generation_is_read_back_as_it_was() -> None:
    group = stable_group()
    read = group_of("g", value_of(group_record(group)))
    assert (GroupState.STABLE, 1, "consumer", "range", "a") == (
        read.state,
        read.generation,
        read.protocol_type,
        read.protocol,
        read.leader,
    )
    assert [b"a", b"b"] == [member.assignment for member in read.members.values()]
    assert (600, 100) == (read.members["b"].rebalance_timeout_ms, read.members["b"].session_timeout_ms)
    assert {"i": "b"} == read.static_members
    assert (("range", subscription(["t"])),) == read.members["a"].protocols
    assert read.is_subscribed_to("t")
    assert {"a", "b"} == read.sessions_to_begin
    assert group_record(group) == group_record(read)


def test_given_assignments_stand_in_place_of_the_members_own() -> None:
    value = value_of(group_record(stable_group(), {"b": b"new"}))
    assert [b"", b"new"] == [member.assignment for member in value.members]


def test_a_group_without_members_is_read_back_empty() -> None:
    group = stable_group()
    group.enter(GroupState.PREPARING_REBALANCE, 3)
    group.remove("a")
    group.remove("b")
    group.begin_generation(4)
    read = group_of("g", value_of(group_record(group)))
    assert (GroupState.EMPTY, 2, "consumer", None, 4) == (
        read.state,
        read.generation,
        read.protocol_type,
        read.protocol,
        read.state_timestamp,
    )


def test_a_new_group_is_recorded_as_nothing_yet() -> None:
    group = ClassicGroup("g")
    group.state_timestamp = 9
    expected = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=9)
    assert expected == value_of(empty_group_record(group))
    assert group_of("g", expected).protocol_type is None


def test_the_oldest_records_know_one_timeout_only() -> None:
    value = value_of(group_record(stable_group()))
    for member in value.members:
        member.rebalance_timeout = -1
    assert 100 == group_of("g", value).members["a"].rebalance_timeout_ms


def test_only_an_offset_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    key = OffsetCommitKey("g", "t", 0)
    lasting = offset_record(key, OffsetCommitValue(offset=5, commit_timestamp=1)).value
    expiring = offset_record(key, OffsetCommitValue(offset=5, commit_timestamp=1, expire_timestamp=8)).value
    assert lasting is not None
    assert expiring is not None
    assert (b"\x00\x04", b"\x00\x01") == (lasting[:2], expiring[:2])
    assert OffsetCommitValue(offset=5, commit_timestamp=1, expire_timestamp=8) == decode_value(
        expiring, OffsetCommitValue
    )


def test_an_older_release_writes_an_offset_without_the_id_of_its_topic() -> None:
    key = OffsetCommitKey("g", "t", 0)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=1, topic_id=bytes(range(16)))
    older = offset_record(key, value, 3).value
    assert older is not None
    assert b"\x00\x03" == older[:2]
    assert OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=1) == decode_value(
        older, OffsetCommitValue
    )


def test_a_generation_is_written_in_the_version_that_all_releases_write() -> None:
    for record in (group_record(stable_group()), empty_group_record(stable_group())):
        assert record.value is not None
        assert b"\x00\x03" == record.value[:2]
