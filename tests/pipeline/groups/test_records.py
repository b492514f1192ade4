"""What the coordinators of share, streams and consumer groups write: real logs are clean, and what is wrong is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.planting import segment

from odradek.records.batch import batches
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import GROUP_RECORDS, SHARE_RECORDS, decode_record, encode_key, encode_value
from odradek_pipeline.groups.offsets import read_group_offsets
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import find_files

Change = Callable[[list[Record], list[tuple[Any, Any]]], list[Record]]
SHARES, GROUPS = "__share_group_state", "__consumer_offsets"


def records(directory: Path, partition: str) -> list[Record]:
    return [
        record
        for batch in batches(memoryview(segment(directory, partition).read_bytes()))
        if not batch.is_control
        for record in iterate_records(batch)
    ]


def write(directory: Path, partition: str, found: list[Record]) -> None:
    path = segment(directory, partition)
    content = [
        build_batch([Record(key=one.key, value=one.value, timestamp=one.timestamp)], base_offset=at, leader_epoch=0)
        for at, one in enumerate(found)
    ]
    path.write_bytes(b"".join(map(bytes, content)))
    for beside in path.parent.iterdir():
        if beside.suffix in (".index", ".timeindex", ".snapshot"):
            beside.unlink()


def partition_of(directory: Path, topic: str, key: str) -> str:
    """A partition with at least two records of such a key."""
    table = SHARE_RECORDS if topic == SHARES else GROUP_RECORDS
    for folder in sorted(directory.glob(f"{topic}-*")):
        found = records(directory, folder.name)
        names = [type(decode_record(table, one.key or b"", one.value)[0]).__name__ for one in found]
        if names.count(key) >= 2:
            return folder.name
    raise AssertionError(f"no partition has two of {key}")


def changed(record: Record, table: dict[int, str], **values: Any) -> Record:
    """The same record with other values, as its coordinator would have encoded them."""
    _, value = decode_record(table, record.key or b"", record.value)
    assert value is not None
    version = int.from_bytes((record.value or b"")[:2])
    return Record(
        key=record.key,
        value=encode_value(msgspec.structs.replace(value, **values), version),
        timestamp=record.timestamp,
    )


def last_of(found: list[Record], table: dict[int, str], key: str) -> tuple[int, Record, Any]:
    """The last record of a key that is no tombstone."""
    for at in range(len(found) - 1, -1, -1):
        name, value = decode_record(table, found[at].key or b"", found[at].value)
        if type(name).__name__ == key and value is not None:
            return at, found[at], value
    raise AssertionError(key)


CASES = [
    ("share_groups", SHARES, "ShareSnapshotKey", {"snapshot_epoch": -1}, "share-epoch-regression"),
    ("kafka_share_at_level_2", SHARES, "ShareUpdateKey", {"snapshot_epoch": 9}, "share-epoch-regression"),
    ("kafka_share_at_level_2", SHARES, "ShareUpdateKey", {"leader_epoch": -1}, ""),
    ("kafka_share_at_level_2", SHARES, "ShareUpdateKey", {"start_offset": 0}, "share-start-regression"),
    ("share_groups", GROUPS, "ShareGroupMetadataKey", {"epoch": 1}, "group-epoch-regression"),
    ("share_groups", GROUPS, "ShareGroupTargetAssignmentMetadataKey", {"assignment_epoch": 99}, "bad-assignment"),
    ("share_groups", GROUPS, "ShareGroupCurrentMemberAssignmentKey", {"member_epoch": 99}, "bad-assignment"),
    ("streams_groups", GROUPS, "StreamsGroupMetadataKey", {"epoch": 1}, "group-epoch-regression"),
    ("streams_groups", GROUPS, "StreamsGroupCurrentMemberAssignmentKey", {"member_epoch": 99}, "bad-assignment"),
]


@pytest.mark.parametrize(("base", "topic", "key", "values", "told"), CASES)
def test_what_no_coordinator_writes_is_told(
    tmp_path: Path, base: str, topic: str, key: str, values: dict[str, Any], told: str
) -> None:
    directory = unpack(base, tmp_path) / "broker-1"
    table = SHARE_RECORDS if topic == SHARES else GROUP_RECORDS
    partition = partition_of(directory, topic, key) if key != "ShareSnapshotKey" else f"{SHARES}-0"
    found = records(directory, partition)
    at, record, _ = last_of(found, table, key)
    if key == "ShareSnapshotKey":  # one more of the same, behind it
        found.append(changed(record, table, **values))
    else:
        found[at] = changed(record, table, **values)
    write(directory, partition, found)
    names = {one.problem for one in read_group_offsets(find_files([directory]).files).problems}
    assert told in names if told else not names


def test_a_task_that_two_members_have(tmp_path: Path) -> None:
    directory = unpack("streams_groups", tmp_path) / "broker-1"
    partition = partition_of(directory, GROUPS, "StreamsGroupCurrentMemberAssignmentKey")
    found = records(directory, partition)
    at, record, value = last_of(found, GROUP_RECORDS, "StreamsGroupCurrentMemberAssignmentKey")
    assert value.active_tasks
    key, _ = decode_record(GROUP_RECORDS, record.key or b"", record.value)
    other = msgspec.structs.replace(key, member_id="three")
    found.insert(at + 1, Record(key=encode_key(other), value=record.value, timestamp=record.timestamp))
    write(directory, partition, found)
    result = audit_logs([directory])
    assert result.incidents is not None
    (row,) = (one for one in result.incidents.to_dict("records") if one["incident"] == "assigned-twice")
    assert "'three' of group 'streamers' is assigned 0-" in row["what"]
    assert "Kafka Streams task runs twice" in row["blocks"]


def with_target(found: list[Record], kind: str, member: str, **values: Any) -> list[Record]:
    """With the last target of a member once more, of another member or with other values, up to its epoch."""
    _, record, value = last_of(found, GROUP_RECORDS, f"{kind}TargetAssignmentMemberKey")
    epochs = [type(decode_record(GROUP_RECORDS, one.key or b"", one.value)[0]).__name__ for one in found]
    key, _ = decode_record(GROUP_RECORDS, record.key or b"", record.value)
    target = Record(
        key=encode_key(msgspec.structs.replace(key, member_id=member)),
        value=encode_value(msgspec.structs.replace(value, **values), 0),
        timestamp=record.timestamp,
    )
    at = found.index(record) + 1
    behind = epochs.index(f"{kind}TargetAssignmentMetadataKey", at)  # written behind the targets that it is about
    return [*found[:at], target, *found[at : behind + 1]]


@pytest.mark.parametrize(("base", "kind"), [("newer_groups", "ConsumerGroup"), ("streams_groups", "StreamsGroup")])
def test_a_target_that_gives_one_thing_to_two(tmp_path: Path, base: str, kind: str) -> None:
    directory = unpack(base, tmp_path) / "broker-1"
    for partition in sorted(path.name for path in directory.glob(f"{GROUPS}-*")):
        found = records(directory, partition)
        names = [type(decode_record(GROUP_RECORDS, one.key or b"", one.value)[0]).__name__ for one in found]
        if f"{kind}TargetAssignmentMemberKey" in names:
            break
    write(directory, partition, with_target(found, kind, "another"))
    told = read_group_offsets(find_files([directory]).files).problems
    assert ["assigned-twice"] == [one.problem for one in told]
    assert "to 'another', and to " in told[0].detail


def test_a_target_of_a_subtopology_that_there_is_not(tmp_path: Path) -> None:
    directory = unpack("streams_groups", tmp_path) / "broker-1"
    partition = partition_of(directory, GROUPS, "StreamsGroupTargetAssignmentMemberKey")
    found = records(directory, partition)
    _, _, value = last_of(found, GROUP_RECORDS, "StreamsGroupTargetAssignmentMemberKey")
    strange = [msgspec.structs.replace(value.active_tasks[0], subtopology_id="no-such")]
    write(directory, partition, with_target(found, "StreamsGroup", "another", active_tasks=strange))
    told = read_group_offsets(find_files([directory]).files).problems
    assert ["bad-assignment"] == [one.problem for one in told]
    assert "is to run no-such-0" in told[0].detail


def test_an_update_without_its_snapshot_and_a_batch_that_is_none(tmp_path: Path) -> None:
    directory = unpack("kafka_share_at_level_2", tmp_path) / "broker-1"
    partition = partition_of(directory, SHARES, "ShareUpdateKey")
    found = records(directory, partition)
    write(directory, partition, [found[1], *found[2:]])  # the first is the snapshot of those behind it
    (told, *_) = read_group_offsets(find_files([directory]).files).problems
    assert ("bad-share-state", "bad") == (told.problem, told.severity)
    assert "without the snapshot" in told.detail
    (directory / "cleaner-offset-checkpoint").unlink(missing_ok=True)
    (directory / "cleaner-offset-checkpoint").write_text(f"0\n1\n{SHARES} {partition.rpartition('-')[2]} 5\n")
    assert [] == read_group_offsets(find_files([directory]).files).problems, "retention may have removed it"
    at, record, value = last_of(found, SHARE_RECORDS, "ShareUpdateKey")
    bad = [msgspec.structs.replace(value.state_batches[0], delivery_state=9)]
    found[at] = changed(record, SHARE_RECORDS, state_batches=bad)
    write(directory, partition, found)
    (told,) = read_group_offsets(find_files([directory]).files).problems
    assert "in state 9" in told.detail


def test_a_share_group_that_is_further_than_its_partition(tmp_path: Path) -> None:
    directory = unpack("kafka_share_at_level_2", tmp_path) / "broker-1"
    partition = partition_of(directory, SHARES, "ShareUpdateKey")
    found = records(directory, partition)
    at, record, _ = last_of(found, SHARE_RECORDS, "ShareUpdateKey")
    found[at] = changed(record, SHARE_RECORDS, start_offset=90_000)
    write(directory, partition, found)
    result = audit_logs([directory])
    (told,) = (one for one in result.problems if one.problem == "offset-behind-end")
    assert "goes on from offset 90000 of of-share-0" in told.detail
    assert not result.is_bad
