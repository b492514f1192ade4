from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.records.state import (
    GROUP_RECORDS,
    REMOTE_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    Unknown,
    decode_key,
    decode_metadata,
    decode_record,
    decode_remote,
    decode_value,
    encode_key,
    encode_metadata,
    encode_remote,
    encode_value,
)
from odradek.wire.errors import DecodeError
from odradek.wire.messages.group_metadata_key import GroupMetadataKey
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord
from odradek.wire.messages.topic_record import TopicRecord
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek.wire.registry import message_type

VECTORS = Path(__file__).parents[2] / "vectors" / "data" / "vectors-dev.jsonl.gz"
KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def vectors(kind: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [vector for vector in map(json.loads, lines) if kind == vector["type"]]


def test_every_key_that_kafka_writes() -> None:
    tables = {**TRANSACTION_RECORDS, **SHARE_RECORDS, **GROUP_RECORDS}
    seen = set()
    for vector in vectors("coordinator-key"):
        data = bytes.fromhex(vector["framedHex"])
        key = decode_key(data, message_type(vector["name"]))
        assert key is not None
        assert data == encode_key(key)
        seen.add(vector["name"])
    assert {f"{stem}Key" for stem in tables.values()} <= seen
    assert len(TRANSACTION_RECORDS) + len(GROUP_RECORDS) + len(SHARE_RECORDS) == len(seen)


def test_every_value_that_kafka_writes() -> None:
    for vector in vectors("coordinator-value"):
        data = bytes.fromhex(vector["framedHex"])
        value = decode_value(data, message_type(vector["name"]))
        assert value is not None
        assert data == encode_value(value, vector["version"])


def test_every_metadata_record_that_kafka_writes() -> None:
    # The records of tiered storage live in a log of their own, with numbers of their own.
    found = [vector for vector in vectors("metadata") if vector["artifact"] == "kafka-metadata"]
    assert len(found) > 300
    for vector in found:
        data = bytes.fromhex(vector["framedHex"])
        message = decode_metadata(data)
        assert vector["name"] == type(message).__name__
        assert data == encode_metadata(message, vector["version"])


def test_every_note_on_remote_segments_that_kafka_writes() -> None:
    found = [vector for vector in vectors("metadata") if vector["name"] in REMOTE_RECORDS.values()]
    assert set(REMOTE_RECORDS.values()) == {vector["name"] for vector in found}
    for vector in found:
        data = bytes.fromhex(vector["framedHex"])
        message = decode_remote(data)
        assert vector["name"] == type(message).__name__
        assert data == encode_remote(message, vector["version"])
    assert Unknown(9, 0, b"\x01\x09\x00later") == decode_remote(b"\x01\x09\x00later")


def test_keys_and_values_of_a_log_are_found_by_its_table() -> None:
    value = OffsetCommitValue(offset=42, metadata="m")
    assert (KEY, value) == decode_record(GROUP_RECORDS, encode_key(KEY), encode_value(value, 3))
    assert (KEY, None) == decode_record(GROUP_RECORDS, encode_key(KEY), None)
    key = TransactionLogKey(transactional_id="id")
    entry = TransactionLogValue(producer_id=4)
    assert (key, entry) == decode_record(TRANSACTION_RECORDS, encode_key(key), encode_value(entry, 1))


def test_what_a_later_release_wrote_is_a_value() -> None:
    known = encode_key(KEY)
    assert (KEY, Unknown(-1, 99, b"\0\x63later")) == decode_record(GROUP_RECORDS, known, b"\0\x63later")
    assert (Unknown(77, -1, b"\0\x4dk"), Unknown(77, -1, b"v")) == decode_record(GROUP_RECORDS, b"\0\x4dk", b"v")
    assert (Unknown(77, -1, b"\0\x4dk"), None) == decode_record(GROUP_RECORDS, b"\0\x4dk", None)
    assert decode_value(b"\0\x63later", OffsetCommitValue) is None
    assert decode_key(known, GroupMetadataKey) is None
    assert Unknown(99, 0, b"\x01\x63\x00later") == decode_metadata(b"\x01\x63\x00later")
    assert Unknown(2, 9, b"\x01\x02\x09later") == decode_metadata(b"\x01\x02\x09later")


def test_the_frame_of_metadata_records() -> None:
    data = encode_metadata(ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000), 0)
    assert b"\x01\x0f\x00" == data[:3]
    assert ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000) == decode_metadata(data)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x02", b"\x02\x02\x00", b"\x01\x02\x00", b"\xff" * 9])
def test_damaged_metadata_records_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_metadata(data)


def test_bytes_behind_a_metadata_record_are_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="bytes follow"):
        decode_metadata(encode_metadata(TopicRecord(name="t"), 0) + b"!")


def test_damaged_coordinator_records_are_a_decode_error() -> None:
    for data in (b"", b"\0"):
        with pytest.raises(DecodeError):
            decode_key(data, OffsetCommitKey)
        with pytest.raises(DecodeError):
            decode_record(GROUP_RECORDS, encode_key(KEY), data)
    with pytest.raises(DecodeError):
        decode_key(encode_key(KEY)[:-1], OffsetCommitKey)
