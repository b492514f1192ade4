"""The metadata of consumers of the classic protocol: the topics that they subscribe to."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.wire.errors import DecodeError
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.registry import reader

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions together; None if one of them cannot be read.

    Every version begins with the fields of version 0, so no later version has to be known here.
    """
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < _VERSION_BYTES:
            return None
        try:
            parsed, _ = read(memoryview(subscription), _VERSION_BYTES)
        except DecodeError:
            return None
        topics.update(parsed.topics)
    return frozenset(topics)
