"""The topics of the cluster, as a group coordinator reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Protocol

__all__ = ["NO_TOPICS", "Topic", "Topics", "metadata_hash"]

_HASH_BYTES = 8


class Topic(Protocol):
    """A topic and its partitions by index."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, object]: ...


class Topics(Protocol):
    """The topics as of one moment; another object once anything has changed."""

    @property
    def offset(self) -> int:
        """How far the log of metadata has been read."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...


class _NoTopics:
    offset = -1
    topics: Mapping[str, Topic] = MappingProxyType({})

    def topic(self, name: str) -> None:
        return None

    def topic_by_id(self, topic_id: bytes) -> None:
        return None


NO_TOPICS: Topics = _NoTopics()
"""Before any metadata is known."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A number (int64) that changes when one of these topics appears, goes, is replaced or grows; 0 while none exists.

    Kafka's is another function over the same things (KIP-1101); each coordinator compares its own results alone.
    """
    found = [topic for name in sorted(names) if (topic := topics.topic(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=_HASH_BYTES)
    for topic in found:
        digest.update(topic.id)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
