"""The replica that a consumer should read from (KIP-392), by `replica.selector.class`."""

from __future__ import annotations

from odradek.log.partition import Partition
from odradek.metadata.image import MetadataImage

__all__ = ["nearest_replica"]


def nearest_replica(
    image: MetadataImage, partition: Partition, *, node_id: int, rack: str, listener: str, offset: int
) -> int | None:
    """The replica in the consumer's rack to read from; None for the leader.

    It is in sync, has this offset, and is reachable over the consumer's listener; of several it is the one with the
    most
    records, then the one with the greatest id, as in Kafka's RackAwareReplicaSelector.
    """
    brokers, log = image.brokers, partition.log
    own = brokers.get(node_id)
    if not rack or (own is not None and own.rack == rack):
        return None
    near: list[tuple[int, int]] = []
    for replica in partition.followers.in_sync:
        broker = brokers.get(replica)
        if replica == node_id or broker is None or broker.fenced or broker.rack != rack:
            continue
        end = log.behind.get(replica, log.end_offset)
        reachable = not listener or any(each.name == listener for each in broker.endpoints)
        if reachable and log.start_offset <= offset <= end:
            near.append((end, replica))
    return max(near)[1] if near else None
