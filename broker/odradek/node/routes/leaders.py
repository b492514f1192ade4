"""Who leads a partition, for a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from odradek.node.seams import HasMetadata

__all__ = ["CurrentLeader", "current_leader"]


class Node(HasMetadata, Protocol):
    """What finding a leader touches of its broker."""


class CurrentLeader(Struct, frozen=True):
    """The leader of a partition, and where it can be reached."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def current_leader(node: Node, topic: str, index: int, listener: str) -> CurrentLeader | None:
    """The leader that this broker knows of, as clients of this listener reach it; None while there is none."""
    partition = node.image.partition(topic, index)
    broker = None if partition is None else node.image.brokers.get(partition.leader)
    if partition is None or broker is None:
        return None
    reached = broker.endpoint(listener)
    return CurrentLeader(broker.id, partition.leader_epoch, reached.host, reached.port, broker.rack)
