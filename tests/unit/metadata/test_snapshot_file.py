"""Snapshots of the metadata log as files (KIP-630), held against one that a real Kafka 4.4 has written."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.metadata.helpers import broker, image_of, override, topic

from odradek.log.disk import DamagedFile
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.quorum import Controllers, decode_quorum, encode_quorum, quorum_at
from odradek.metadata.snapshot_file import read_quorum, read_snapshot, write_snapshot
from odradek.records.batch import batches
from odradek.records.control import ControlType, snapshot_footer, snapshot_header, snapshot_time
from odradek.records.record import iterate_records
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
from odradek.wire.messages.voters_record import VotersRecord

KAFKAS = bytes.fromhex(
    "0000000000000000000000470000000002c95f524a002000000000000001a216b1b1cc000001a216b1b1ccffffffffffffffffffffff"
    "ffffff000000012a0000000800000003160000000001a216b1afbd00000000000000000001000000f1000000000241c69a7e00000000"
    "0005000001a216b1b333000001a216b1b333ffffffffffffffffffffffffffff000000063a000000012e010c00116d65746164617461"
    "2e76657273696f6e002100005a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e"
    "00010000340000040128010c000e67726f75702e76657273696f6e00010000340000060128010c000e73686172652e76657273696f6e"
    "0002000038000008012c010c001073747265616d732e76657273696f6e000100004000000a0134010c00147472616e73616374696f6e"
    "2e76657273696f6e0002000000000000000000070000003f0000000002a09b97b3002000000000000001a216b1b35a000001a216b1b3"
    "5affffffffffffffffffffffffffff000000011a00000008000000040600000000"
)
"""With which `kafka-storage format` begins a directory: the features of a new cluster."""
STANDALONE = bytes.fromhex(
    "00000000000000000000009a0000000002239cb00c002000000002000001a21aa7aaf0000001a21aa7aaf0ffffffffffffffffffffff"
    "ffffff000000032a0000000800000003160000000001a21aa7aa4300001e00000208000000050a000000010000820100000408000000"
    "066e00000200000001d227307f58e1492d8c0249f5d89861da020b434f4e54524f4c4c45520a3132372e302e302e314f020000000001"
    "00000000"
)
"""The header after `kafka-storage format --standalone`, with the version of the quorum and its voter (KIP-853)."""
NOW = 1_700_000_000_000


def test_a_snapshot_of_kafka_is_read() -> None:
    levels = {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    records = read_snapshot(KAFKAS)
    assert levels == {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)}
    assert len(levels) == len(records)


def test_header_and_footer_are_written_as_by_kafka() -> None:
    header, _, footer = batches(memoryview(KAFKAS))
    (last_timestamp,) = (int.from_bytes(header.view[-10:-2]),)
    ours = snapshot_header(last_timestamp=last_timestamp, timestamp=header.max_timestamp)
    assert bytes(header.view[16:]) == bytes(ours.view[16:])
    ours = snapshot_footer(timestamp=footer.max_timestamp)
    assert bytes(footer.view[16:]) == bytes(ours.view[16:])


def test_the_voters_of_a_quorum_are_in_the_header_as_kafka_writes_them() -> None:
    [header] = batches(memoryview(STANDALONE))
    [first, *quorum] = iterate_records(header)
    assert [ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS] == list(read_quorum(STANDALONE))
    ours = snapshot_header(last_timestamp=snapshot_time(first), timestamp=header.max_timestamp, quorum=quorum)
    assert bytes(header.view[16:]) == bytes(ours.view[16:])
    image = image_of(FeatureLevelRecord(name="metadata.version", feature_level=33))
    data = write_snapshot(image, epoch=7, last_timestamp=NOW, now=NOW, quorum=quorum)
    assert [record.value for record in quorum] == [record.value for record in read_quorum(data).values()]
    [level, voters, feature] = read_snapshot(data)
    assert KRaftVersionRecord(k_raft_version=1) == level
    assert [1] == [voter.voter_id for voter in cast("VotersRecord", voters).voters]
    assert FeatureLevelRecord(name="metadata.version", feature_level=33) == feature
    assert [record.value for record in quorum] == [record.value for record in encode_quorum([level, voters])]
    assert {} == read_quorum(KAFKAS) == read_quorum(b"\xa5" * 100)


def test_a_quorum_is_written_as_kafka_writes_it() -> None:
    """The level and the voters of `kafka-storage format --standalone`, from the voter that it names."""
    [header] = batches(memoryview(STANDALONE))
    [_, *quorum] = iterate_records(header)
    [voter] = cast("VotersRecord", decode_quorum(read_quorum(STANDALONE))[1]).voters
    [endpoint] = voter.endpoints
    where = (voter.voter_directory_id, endpoint.host, endpoint.port)
    ours = encode_quorum(quorum_at(1, Controllers(endpoint.name, {voter.voter_id: where})))
    assert [(each.key, each.value) for each in quorum] == [(each.key, each.value) for each in ours]


def test_the_level_of_the_quorum_is_in_the_image_and_not_among_the_features() -> None:
    image = image_of(
        KRaftVersionRecord(k_raft_version=1), FeatureLevelRecord(name="metadata.version", feature_level=33)
    )
    quorum = encode_quorum(quorum_at(1, Controllers("CONTROLLER", {})))
    records = read_snapshot(write_snapshot(image, epoch=7, last_timestamp=NOW, now=NOW, quorum=quorum))
    assert image == MetadataLoader().load_snapshot(records, offset=image.offset, epoch=image.epoch)
    assert ["metadata.version"] == [each.name for each in records if isinstance(each, FeatureLevelRecord)]


def test_an_image_is_the_same_after_it() -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=33),
        broker(1),
        *(topic(f"t{n}") for n in range(700)),
        override("k", "v", of="t1"),
    )
    data = write_snapshot(image, epoch=7, last_timestamp=NOW - 5, now=NOW)
    found = list(batches(memoryview(data)))
    assert {7} == {batch.partition_leader_epoch for batch in found}
    ends = [batch.next_offset for batch in found]
    assert [0, *ends[:-1]] == [batch.base_offset for batch in found]
    assert 1 < len([batch for batch in found if not batch.is_control])
    again = MetadataLoader().load_snapshot(read_snapshot(data), offset=image.offset, epoch=image.epoch)
    assert image == again


@pytest.mark.parametrize("kept", [0, 60, 82, 340, len(KAFKAS) - 1])
def test_a_part_of_a_snapshot_is_none(kept: int) -> None:
    with pytest.raises(DamagedFile):
        read_snapshot(KAFKAS[:kept])


def test_a_bit_that_has_changed_is_seen() -> None:
    broken = bytearray(KAFKAS)
    broken[200] ^= 1
    with pytest.raises(DamagedFile, match="checksum"):
        read_snapshot(bytes(broken))
