"""Metadata and assignments of consumers in the classic protocol: their subscriptions, and the partitions of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct as Layout
from typing import TYPE_CHECKING

from odradek.group.consumer.member import EpochsOfPartitions
from odradek.wire.errors import DecodeError
from odradek.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.registry import reader, valid_versions, writer

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics

__all__ = [
    "CONSUMER_PROTOCOL_TYPE",
    "assignment_bytes",
    "owned_of",
    "read_assignment",
    "read_subscription",
    "subscribed_topics",
]

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION = Layout(">h")


def _version(data: bytes, cls: type) -> int:
    """The version to read: unknown later versions begin with the fields of the newest known one."""
    if len(data) < _VERSION.size:
        raise DecodeError("it is shorter than its version", field="version", offset=0)
    (version,) = _VERSION.unpack_from(data)
    low, high = valid_versions(cls)
    if version < low:
        raise DecodeError(f"there is no version {version}", field="version", offset=0)
    return min(int(version), high)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription of a member. Raises DecodeError."""
    version = _version(metadata, ConsumerProtocolSubscription)
    return reader(ConsumerProtocolSubscription, version)(memoryview(metadata), _VERSION.size)[0]


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """The assignment of a member. Raises DecodeError."""
    version = _version(assignment, ConsumerProtocolAssignment)
    return reader(ConsumerProtocolAssignment, version)(memoryview(assignment), _VERSION.size)[0]


def assignment_bytes(assigned: EpochsOfPartitions, metadata: bytes, topics: Topics) -> bytes:
    """The partitions in the version of the member's subscription; deleted topics are left out."""
    version = _version(metadata, ConsumerProtocolSubscription)
    partitions = [
        TopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in assigned.items()
        if (topic := topics.topic_by_id(topic_id)) is not None
    ]
    out = bytearray(_VERSION.pack(version))
    message = ConsumerProtocolAssignment(assigned_partitions=partitions)
    writer(ConsumerProtocolAssignment, version)(message, out, [])
    return bytes(out)


def owned_of(named: Iterable[tuple[str, Iterable[int]]], topics: Topics) -> Mapping[bytes, frozenset[int]]:
    """Partitions by topic id; topics that do not exist are left out."""
    return {topic.id: frozenset(indexes) for name, indexes in named if (topic := topics.topic(name)) is not None}


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions; None if one cannot be read. All versions begin with version 0's fields."""
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < _VERSION.size:
            return None
        try:
            parsed, _ = read(memoryview(subscription), _VERSION.size)
        except DecodeError:
            return None
        topics.update(parsed.topics)
    return frozenset(topics)
