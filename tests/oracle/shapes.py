"""Short forms of requests: the words of a step, made into the fields of the request.

A request without a short form, and every field that a short form does not name, is written `field=value` with the
schema's names in snake case. In a short form a partition is `topic-index`, and the `key=value` words behind it say
more about that partition; those before the first partition are fields of the request.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from crc32c import crc32c
from tests.oracle.language import LanguageError, Scope, is_option, split_option

from odradek.records.batch import COMPRESSION_MASK, TimestampType
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch

__all__ = ["CAPTURED", "SHAPES", "Fields", "request_fields"]

Fields = dict[str, Any]
CHECKSUM_AT, CHECKED_FROM, ATTRIBUTES_AT = 17, 21, 22
"""Where the checksum of a batch stands, what it covers, and the byte of the attributes that has the codec."""
PARTITION = re.compile(r"(?P<topic>[A-Za-z_][\w.]*)-(?P<index>\d+)")
FLAGS = frozenset({"verify", "commit", "abort", "committed", "stable", "transaction", "group"})

CAPTURED: Mapping[str, tuple[str, ...]] = {
    "InitProducerId": ("producer_id", "producer_epoch"),
    "EndTxn": ("producer_id", "producer_epoch"),
    "JoinGroup": ("member_id", "generation_id"),
    "ConsumerGroupHeartbeat": ("member_epoch",),
    "StreamsGroupHeartbeat": ("member_epoch",),
    "ShareGroupHeartbeat": ("member_epoch",),
    "GetTelemetrySubscriptions": ("subscription_id",),
}
"""What `-> a b` takes from an answer, if it does not say."""


@dataclass
class Partition:
    """A partition that a request names, and what it says about it."""

    topic: str
    index: int
    options: Fields = field(default_factory=dict)

    def take(self, key: str, default: Any = None) -> Any:
        return self.options.pop(key, default)


@dataclass
class Words:
    """The words of a request, evaluated."""

    version: int
    scope: Scope
    topic_ids: Mapping[str, bytes]
    values: list[Any] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    fields: Fields = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    def read(self, words: tuple[str, ...]) -> None:
        for word in words:
            if is_option(word):
                key, text = split_option(word)
                target = self.partitions[-1].options if self.partitions else self.fields
                target[key] = self.scope.value(text)
            elif word in FLAGS:
                self.flags.add(word)
            elif (found := PARTITION.fullmatch(word)) and found["topic"] not in self.scope.variables:
                name = found["topic"] if found["topic"].startswith("__") else self.scope.unique(found["topic"])
                self.partitions.append(Partition(name, int(found["index"])))
            else:
                self.values.append(self.scope.value(word))

    def take(self, count: int) -> list[Any]:
        """The values in front, which are exactly so many."""
        if len(self.values) != count:
            raise LanguageError(f"{count} values are expected, {len(self.values)} given: {self.values}")
        return self.values

    def topics(self) -> Iterator[tuple[str, bytes, list[Partition]]]:
        """The partitions by topic, with the topic's id."""
        for name, partitions in groupby(self.partitions, key=lambda partition: partition.topic):
            members = list(partitions)
            topic_id = next((p.options.pop("id") for p in members if "id" in p.options), None)
            yield name, topic_id or self.topic_ids.get(name, bytes(16)), members

    def indexes(self) -> list[Fields]:
        """The partitions by topic, with their indexes only."""
        return [{"name": name, "partitions": [p.index for p in members]} for name, _, members in self.topics()]


def request_fields(
    api: str, version: int, words: tuple[str, ...], scope: Scope, topic_ids: Mapping[str, bytes]
) -> Fields:
    """The fields of a request, short form or not."""
    read = Words(version, scope, topic_ids)
    read.read(words)
    if not (read.values or read.partitions or read.flags):
        return read.fields
    shape = SHAPES.get(api)
    if shape is None:
        raise LanguageError(f"{api} has no short form: {' '.join(words)}")
    fields = shape(read)
    return {**fields, **read.fields}


def init_producer_id(words: Words) -> Fields:
    """InitProducerId v5 tid [producer_id epoch]"""
    transactional_id, *producer = words.values
    fields: Fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 60000}
    if producer:
        fields["producer_id"], fields["producer_epoch"] = producer
    return fields


def add_partitions_to_txn(words: Words) -> Fields:
    """AddPartitionsToTxn v3 tid producer_id epoch t-0 t-1; from v4 on also `verify`"""
    transactional_id, producer_id, epoch = words.take(3)
    transaction = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
    if words.version > 3:
        only = {"verify_only": "verify" in words.flags}
        return {"transactions": [{**transaction, **only, "topics": words.indexes()}]}
    fields = {f"v3_and_below_{key}": value for key, value in transaction.items()}
    return {**fields, "v3_and_below_topics": words.indexes()}


def add_offsets_to_txn(words: Words) -> Fields:
    """AddOffsetsToTxn v3 tid producer_id epoch group"""
    return dict(zip(("transactional_id", "producer_id", "producer_epoch", "group_id"), words.take(4), strict=True))


def end_txn(words: Words) -> Fields:
    """EndTxn v5 tid producer_id epoch commit|abort"""
    fields: Fields = dict(zip(("transactional_id", "producer_id", "producer_epoch"), words.take(3), strict=True))
    if len(words.flags & {"commit", "abort"}) != 1:
        raise LanguageError("EndTxn commits or aborts")
    return {**fields, "committed": "commit" in words.flags}


def write_txn_markers(words: Words) -> Fields:
    """WriteTxnMarkers v2 producer_id epoch commit|abort transaction_version=2 coordinator_epoch=0 t-0"""
    producer_id, epoch = words.take(2)
    marker: Fields = {"producer_id": producer_id, "producer_epoch": epoch}
    marker["transaction_result"] = "commit" in words.flags
    marker["coordinator_epoch"] = words.fields.pop("coordinator_epoch", 0)
    marker["transaction_version"] = words.fields.pop("transaction_version", 0)
    marker["topics"] = [{"name": n, "partition_indexes": [p.index for p in ps]} for n, _, ps in words.topics()]
    return {"markers": [marker]}


def produce(words: Words) -> Fields:
    """Produce v11 tid producer_id epoch acks=1 t-0 sequence=0 records=3 compression="gzip\""""
    transactional_id, producer_id, epoch = words.take(3)
    if transactional_id is None and producer_id is None:
        producer_id, epoch = -1, -1
    topics = []
    for name, topic_id, members in words.topics():
        data = [
            {"index": p.index, "records": batch(p, producer_id, epoch, transactional_id is not None)} for p in members
        ]
        topics.append({"name": name, "topic_id": topic_id, "partition_data": data})
    return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5000, "topic_data": topics}


def batch(partition: Partition, producer_id: int, epoch: int, transactional: bool) -> bytes:
    """The records for a partition: one batch unless its options say otherwise.

    `key`, `value` and `timestamp` hold for all records, or are a list with one for each; `headers` hold for all.
    """
    raw = partition.take("raw")
    if raw is not None:
        assert isinstance(raw, bytes)
        return raw
    batches = partition.take("batches", 1)
    given = [partition.take("timestamp", int(time.time() * 1000)), partition.take("key"), partition.take("value", "v")]
    headers = tuple((name, value.encode()) for name, value in partition.take("headers", []))
    count = partition.take("records", max(len(each) if isinstance(each, list) else 1 for each in given))
    columns = [each if isinstance(each, list) else [each] * count for each in given]
    records = [
        Record(
            timestamp=timestamp,
            key=None if key is None else key.encode(),
            value=None if value is None else value.encode(),
            headers=headers,
        )
        for timestamp, key, value in zip(*columns, strict=True)
    ]
    data = build_batch(
        records,
        compression=Compression[partition.take("compression", "none").upper()],
        producer_id=partition.take("producer_id", producer_id),
        producer_epoch=partition.take("epoch", epoch),
        base_sequence=partition.take("sequence", -1),
        base_offset=partition.take("base_offset", 0),
        transactional=partition.take("transactional", transactional),
        control=partition.take("control", False),
        timestamp_type=TimestampType.CREATE_TIME,
    )
    codec = partition.take("codec")
    if codec is not None:
        data = of_codec(data, codec)
    corrupted = partition.take("flip")
    if corrupted is not None:
        data = data[:corrupted] + bytes([data[corrupted] ^ 1]) + data[corrupted + 1 :]
    if partition.options:
        raise LanguageError(f"a batch has no {', '.join(partition.options)}")
    return bytes(data * batches)


def of_codec(batch: bytes, codec: int) -> bytes:
    """The batch with this number of a compression type in its attributes, whatever its records are."""
    view = memoryview(bytearray(batch))
    view[ATTRIBUTES_AT] = view[ATTRIBUTES_AT] & ~COMPRESSION_MASK | codec
    view[CHECKSUM_AT:CHECKED_FROM] = crc32c(view[CHECKED_FROM:]).to_bytes(4)
    return bytes(view)


def txn_offset_commit(words: Words) -> Fields:
    """TxnOffsetCommit v5 tid group producer_id epoch t-0 offset=5"""
    keys = ("transactional_id", "group_id", "producer_id", "producer_epoch")
    return {**dict(zip(keys, words.take(4), strict=True)), "topics": committed(words)}


def offset_commit(words: Words) -> Fields:
    """OffsetCommit v8 group t-0 offset=5"""
    (group,) = words.take(1)
    return {"group_id": group, "generation_id_or_member_epoch": -1, "topics": committed(words)}


def committed(words: Words) -> list[Fields]:
    topics = []
    for name, topic_id, members in words.topics():
        partitions = [
            {
                "partition_index": p.index,
                "committed_offset": p.options.get("offset", 0),
                "committed_leader_epoch": p.options.get("leader_epoch", -1),
                "committed_metadata": p.options.get("metadata", ""),
            }
            for p in members
        ]
        topics.append({"name": name, "topic_id": topic_id, "partitions": partitions})
    return topics


def offset_fetch(words: Words) -> Fields:
    """OffsetFetch v7 group [stable] t-0; without a partition, of all that are committed"""
    (group,) = words.take(1)
    stable: Fields = {"require_stable": "stable" in words.flags} if words.version >= 7 else {}
    topics: list[Fields] | None = [
        {"name": name, "topic_id": topic_id, "partition_indexes": [p.index for p in members]}
        for name, topic_id, members in words.topics()
    ] or None
    if words.version < 8:
        return {"group_id": group, "topics": without(topics, "topic_id"), **stable}
    if words.version < 10:
        topics = without(topics, "topic_id")
    return {"groups": [{"group_id": group, "topics": topics}], **stable}


def without(topics: list[Fields] | None, key: str) -> list[Fields] | None:
    return topics and [{k: v for k, v in topic.items() if k != key} for topic in topics]


def list_offsets(words: Words) -> Fields:
    """ListOffsets v8 [committed] t-0 at=-1"""
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": p.index,
                    "timestamp": p.options.get("at", -1),
                    "current_leader_epoch": p.options.get("leader_epoch", -1),
                }
                for p in members
            ],
        }
        for name, _, members in words.topics()
    ]
    return {"replica_id": -1, "isolation_level": int("committed" in words.flags), "topics": topics}


def fetch(words: Words) -> Fields:
    """Fetch v12 [committed] t-0 offset=0"""
    topics = [
        {
            "topic": name,
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition": p.index,
                    "fetch_offset": p.options.get("offset", 0),
                    "partition_max_bytes": p.options.get("bytes", 1 << 20),
                    "current_leader_epoch": p.options.get("leader_epoch", -1),
                    "last_fetched_epoch": p.options.get("last_fetched_epoch", -1),
                }
                for p in members
            ],
        }
        for name, topic_id, members in words.topics()
    ]
    wait: Fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 24, "session_id": 0, "session_epoch": -1}
    return {**wait, "isolation_level": int("committed" in words.flags), "topics": topics}


def describe_producers(words: Words) -> Fields:
    """DescribeProducers v0 t-0"""
    return {"topics": [{"name": n, "partition_indexes": [p.index for p in ps]} for n, _, ps in words.topics()]}


def describe_transactions(words: Words) -> Fields:
    """DescribeTransactions v0 tid tid..."""
    return {"transactional_ids": words.values}


def find_coordinator(words: Words) -> Fields:
    """FindCoordinator v4 transaction|group name..."""
    kind: Fields = {"key_type": int("transaction" in words.flags)} if words.version >= 1 else {}
    return {**kind, "coordinator_keys": words.values} if words.version >= 4 else {**kind, "key": words.take(1)[0]}


def join_group(words: Words) -> Fields:
    """JoinGroup v5 group member"""
    group, member = words.take(2)
    protocols = [{"name": "range", "metadata": b""}]
    fields: Fields = {"group_id": group, "member_id": member, "session_timeout_ms": 10000, "protocol_type": "consumer"}
    return {**fields, "protocols": protocols, **({"rebalance_timeout_ms": 10000} if words.version >= 1 else {})}


def sync_group(words: Words) -> Fields:
    """SyncGroup v3 group member generation"""
    return dict(zip(("group_id", "member_id", "generation_id"), words.take(3), strict=True))


def consumer_group_heartbeat(words: Words) -> Fields:
    """ConsumerGroupHeartbeat v1 group member epoch topic... t-0 t-1: subscribed to these, owning those"""
    if not words.values:
        return {}
    group, member, epoch, *topics = words.values
    fields: Fields = {"group_id": group, "member_id": member, "member_epoch": epoch}
    owned = [{"topic_id": topic_id, "partitions": [p.index for p in owns]} for _, topic_id, owns in words.topics()]
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 30000, "topic_partitions": []}
    if topics:
        fields["subscribed_topic_names"] = topics
    return fields | ({"topic_partitions": owned} if owned else {})


TASK_TYPES = ("active", "standby", "warmup")


def streams_group_heartbeat(words: Words) -> Fields:
    """StreamsGroupHeartbeat v1 group member epoch topology active="0_0 0_1" standby="1_0": having these tasks"""
    if not words.values:
        return {}
    group, member, epoch, *topology = words.values
    fields: Fields = {"group_id": group, "member_id": member, "member_epoch": epoch}
    owned = {kind: tasks(words.fields.pop(kind)) for kind in TASK_TYPES if kind in words.fields}
    if owned or epoch == 0:
        fields |= {f"{kind}_tasks": owned.get(kind, []) for kind in TASK_TYPES}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 30000, "process_id": f"p-{member}"}
    if topology:
        fields["topology"] = topology[0]
    return fields


def tasks(text: str) -> list[Fields]:
    """Tasks as Kafka Streams calls them, by subtopology: `0_1` is partition 1 of subtopology 0."""
    found = sorted(task.rsplit("_", 1) for task in text.split())
    return [
        {"subtopology_id": subtopology, "partitions": [int(index) for _, index in members]}
        for subtopology, members in groupby(found, key=lambda task: task[0])
    ]


def share_group_heartbeat(words: Words) -> Fields:
    """ShareGroupHeartbeat v1 group member epoch topic...: subscribed to these"""
    group, member, epoch, *topics = words.values
    fields: Fields = {"group_id": group, "member_id": member, "member_epoch": epoch}
    return fields | ({"subscribed_topic_names": topics} if topics else {})


def share_fetch(words: Words) -> Fields:
    """ShareFetch v2 group member session_epoch t-0 ack=[[0, 3, [1]], [4, 4, [2]]]"""
    limits: Fields = {"max_wait_ms": 1000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
    return share_acknowledge(words) | limits


def share_acknowledge(words: Words) -> Fields:
    """ShareAcknowledge v2 group member session_epoch t-0 ack=[[0, 3, [1]]]: first and last offset, and types"""
    group, member, epoch = words.take(3)
    topics = [
        {"topic_id": topic_id, "partitions": [acknowledged(partition) for partition in partitions]}
        for _, topic_id, partitions in words.topics()
    ]
    return {"group_id": group, "member_id": member, "share_session_epoch": epoch, "topics": topics}


def acknowledged(partition: Partition) -> Fields:
    acknowledgements = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in partition.take("ack", [])
    ]
    if partition.options:
        raise LanguageError(f"a partition that is acknowledged has no {', '.join(partition.options)}")
    return {"partition_index": partition.index, "acknowledgement_batches": acknowledgements}


def share_state(words: Words) -> Fields:
    """ReadShareGroupState v0 group t-0 leader_epoch=0 t-1: each of the APIs of a share coordinator"""
    (group,) = words.take(1)
    topics = [
        {
            "topic_id": topic_id,
            "partitions": [{"partition": partition.index, **partition.options} for partition in partitions],
        }
        for _, topic_id, partitions in words.topics()
    ]
    return {"group_id": group, "topics": topics}


def leave_group(words: Words) -> Fields:
    """LeaveGroup v3 group member..."""
    group, *members = words.values
    if words.version < 3:
        return {"group_id": group, "member_id": members[0]}
    return {"group_id": group, "members": [{"member_id": member} for member in members]}


SHAPES: Mapping[str, Callable[[Words], Fields]] = {
    "AddOffsetsToTxn": add_offsets_to_txn,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "DeleteShareGroupState": share_state,
    "DescribeProducers": describe_producers,
    "DescribeTransactions": describe_transactions,
    "EndTxn": end_txn,
    "Fetch": fetch,
    "FindCoordinator": find_coordinator,
    "Heartbeat": sync_group,
    "InitProducerId": init_producer_id,
    "InitializeShareGroupState": share_state,
    "JoinGroup": join_group,
    "LeaveGroup": leave_group,
    "ListOffsets": list_offsets,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "Produce": produce,
    "StreamsGroupHeartbeat": streams_group_heartbeat,
    "ReadShareGroupState": share_state,
    "ReadShareGroupStateSummary": share_state,
    "ShareAcknowledge": share_acknowledge,
    "ShareFetch": share_fetch,
    "ShareGroupHeartbeat": share_group_heartbeat,
    "SyncGroup": sync_group,
    "TxnOffsetCommit": txn_offset_commit,
    "WriteShareGroupState": share_state,
    "WriteTxnMarkers": write_txn_markers,
}
