"""What groups have committed, beside where the logs end."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.corpus.faults import FAULTS

from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek_pipeline.groups.offsets import Committed, GroupOffsets, merged, read_group_offsets
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import find_files

NAME = f"{0:020}.log"


def commit(group: str, offset: int | None, partition: int = 0) -> Record:
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    value = None if offset is None else OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1)
    return Record(key=encode_key(key), value=None if value is None else encode_value(value, 4), timestamp=1)


def offsets_of(folder: Path, *batches: bytes) -> GroupOffsets:
    log = folder / "__consumer_offsets-0"
    log.mkdir()
    (log / NAME).write_bytes(b"".join(batches))
    return read_group_offsets(find_files([folder]).files)


def test_the_last_offset_of_each_group_and_the_highest_of_all(tmp_path: Path) -> None:
    found = offsets_of(
        tmp_path,
        build_batch([commit("a", 900), commit("b", 7), commit("c", 800)]),
        build_batch([commit("a", 5), commit("c", None), commit("a", 3, partition=1)], base_offset=3),
    )
    path = str(tmp_path / "__consumer_offsets-0" / NAME)
    assert {("orders", 0): Committed(7, "b", path, 0)} == {
        at: one for at, one in found.highest.items() if at == ("orders", 0)
    }, "a went back to 5, and c was forgotten"
    assert 3 == found.highest["orders", 1].offset
    assert [] == found.problems
    assert 9 == merged([found, GroupOffsets({("orders", 0): Committed(9, "d", "", 0)}, [])]).highest["orders", 0].offset


def test_offsets_of_transactions_do_not_count(tmp_path: Path) -> None:
    inside = build_batch([commit("a", 900)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert {} == offsets_of(tmp_path, inside).highest


def test_records_of_later_versions_and_of_none(tmp_path: Path) -> None:
    known = commit("a", 5)
    assert known.value is not None
    records = [
        Record(key=known.key, value=b"\0\x63" + known.value[2:], timestamp=1),
        Record(key=b"\0\x63later", value=b"x", timestamp=1),
        Record(key=b"\0", value=b"x", timestamp=1),
        Record(key=b"\0\1\xff", value=b"x", timestamp=1),
    ]
    found = offsets_of(tmp_path, build_batch(records))
    assert ["unknown-version"] * 2 == [one.problem for one in found.problems]
    assert "version 99 of a group's record" in found.problems[0].detail
    assert "a record of kind 99" in found.problems[1].detail


def test_a_group_that_is_further_than_its_partition(tmp_path: Path) -> None:
    (fault,) = (one for one in FAULTS if one.name == "a committed offset behind the end")
    root = unpack(fault.base, tmp_path)
    fault.plant(root)
    result = audit_logs(sorted(root.glob("broker-*")))
    (told,) = (one for one in result.problems if one.problem == "offset-behind-end")
    assert "goes on from offset 90000" in told.detail
    assert not result.is_bad
