"""The topics of the cluster as a group coordinator reads them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

from odradek.metadata.image import MetadataImage

__all__ = ["NO_TOPICS", "Topics", "metadata_hash", "topic_ids_of"]

_HASH_BYTES = 8

Topics: TypeAlias = MetadataImage
"""The topics at one moment; any change creates another object."""
NO_TOPICS = MetadataImage(offset=-1)
"""The image before any metadata is known."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A 64-bit number that changes with the existence, identity and size of these topics; 0 for no topic.

    Kafka hashes the same things with another function (KIP-1101); a coordinator compares only its own results.
    """
    found = [topic for name in sorted(names) if (topic := topics.topic(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=_HASH_BYTES)
    for topic in found:
        digest.update(topic.id)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def topic_ids_of(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    return frozenset(topic.id for name in names if (topic := topics.topic(name)) is not None)
