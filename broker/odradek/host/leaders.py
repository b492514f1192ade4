"""Who leads a partition, for a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from msgspec import Struct

from odradek.host.seams import HasMetadata
from odradek.metadata.image import EndpointImage

__all__ = ["CurrentLeader", "current_leader"]

E_co = TypeVar("E_co", covariant=True)
E = TypeVar("E")


class Node(HasMetadata, Protocol):
    """What finding a leader touches of its broker."""


class EndpointOf(Protocol[E_co]):
    """Makes the endpoint of a broker, as one kind of answer tells it."""

    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> E_co: ...


class CurrentLeader(Struct, frozen=True):
    """The leader of a partition, in which epoch, and where it can be reached."""

    leader_id: int
    """-1: nobody leads; then the epoch is told all the same."""
    leader_epoch: int
    reached: EndpointImage | None
    """None while it is not alive."""
    rack: str | None

    def tell_endpoint(self, endpoints: dict[int, E], kind: EndpointOf[E]) -> None:
        """Add where it is reached to the endpoints of an answer, by the ids of brokers."""
        if self.reached is not None:
            endpoints[self.leader_id] = kind(
                node_id=self.leader_id, host=self.reached.host, port=self.reached.port, rack=self.rack
            )


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
