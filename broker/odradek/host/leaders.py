"""The leader of a partition, for a client that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from odradek.metadata.image import EndpointImage, MetadataImage

__all__ = ["CurrentLeader", "current_leader"]

E = TypeVar("E")


class CurrentLeader(Struct, frozen=True):
    """The leader of a partition, its epoch, and its address."""

    leader_id: int
    """-1 without a leader; the epoch is set all the same."""
    leader_epoch: int
    reached: EndpointImage | None
    """None while it is not alive."""
    rack: str | None

    def tell_endpoint(self, endpoints: dict[int, E], kind: Callable[[int, str, int, str | None], E]) -> None:
        """Add its address to the endpoints of a response, by broker id; `kind` takes node id, host, port and rack."""
        if self.reached is not None:
            endpoints[self.leader_id] = kind(self.leader_id, self.reached.host, self.reached.port, self.rack)


def current_leader(image: MetadataImage, topic: str, index: int, listener: str) -> CurrentLeader | None:
    """The leader in this image, with its address on this listener; None if there is no such partition."""
    partition = image.partition(topic, index)
    if partition is None:
        return None
    if not image.is_alive(partition.leader):
        return CurrentLeader(partition.leader, partition.leader_epoch, None, None)
    broker = image.brokers[partition.leader]
    return CurrentLeader(partition.leader, partition.leader_epoch, broker.endpoint(listener), broker.rack)
