"""Who leads a partition, for a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from odradek.metadata.image import EndpointImage
from odradek.node.seams import HasMetadata

__all__ = ["CurrentLeader", "current_leader"]


class Node(HasMetadata, Protocol):
    """What finding a leader touches of its broker."""


class CurrentLeader(Struct, frozen=True):
    """The leader of a partition, in which epoch, and where it can be reached."""

    leader_id: int
    """-1: nobody leads; then the epoch is told all the same."""
    leader_epoch: int
    reached: EndpointImage | None
    """None while it is not alive."""
    rack: str | None


def current_leader(node: Node, topic: str, index: int, listener: str) -> CurrentLeader | None:
    """The leader that this broker knows of, as clients of this listener reach it; None if there is no partition."""
    image = node.image
    partition = image.partition(topic, index)
    if partition is None:
        return None
    if not image.is_alive(partition.leader):
        return CurrentLeader(partition.leader, partition.leader_epoch, None, None)
    broker = image.brokers[partition.leader]
    return CurrentLeader(partition.leader, partition.leader_epoch, broker.endpoint(listener), broker.rack)
