"""The cluster a node belongs to: who the brokers are and who is the controller."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["BrokerSpec", "ClusterSpec"]


class BrokerSpec(Struct):
    """A broker and the address that clients are told."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class ClusterSpec(Struct):
    """Shared by the nodes of a cluster; the driver changes `controller_id` when the controller moves."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerSpec, ...]

    def broker(self, node_id: int) -> BrokerSpec:
        """One of the brokers. Raises KeyError if there is none with this id."""
        for broker in self.brokers:
            if broker.node_id == node_id:
                return broker
        raise KeyError(node_id)
