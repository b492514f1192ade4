"""Clusters that take whoever comes over a listener for whom a test says: its principal builder, from outside."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.net.cluster import RunningCluster
from odradek.node.events import Connected
from odradek.node.node import Node
from odradek.node.transport.entrance import Entrance
from odradek.security.principal import Peer, Principal

__all__ = ["NamingCluster"]


class NamingCluster(RunningCluster):
    """A cluster of which some listeners have a principal each."""

    principals: Mapping[str, Principal] = {}
    """By listener; of the broker that is made next, as its configuration is."""

    def make_node(self, node_id: int) -> Node:
        """A node of this cluster, whose entrance knows the principals."""
        node = super().make_node(node_id)
        node.entrance = _Naming(node, self.principals)
        return node


class _Naming(Entrance):
    """The listeners of a node, some of which say who comes."""

    def __init__(self, node: Node, principals: Mapping[str, Principal]) -> None:
        super().__init__(node)
        self._principals = principals

    def peer(self, event: Connected) -> Peer | None:
        """Who comes."""
        known = None if event.broker else self._principals.get(event.listener)
        return super().peer(event) if known is None else Peer(event.listener, known)
