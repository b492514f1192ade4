"""Clusters that take whoever comes over a listener for whom a test says: its principal builder, asked from outside."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from msgspec import Struct

from odradek.access.entrance import Entrance
from odradek.access.principal import Peer, parse_principal
from odradek.broker import Node
from odradek.host.events import Connected
from odradek.net.cluster import RunningCluster

__all__ = ["Builder", "NamingCluster"]

HOST = "127.0.0.1"
PATIENCE_S = 10


class Builder(Struct, frozen=True):
    """A test's builder of principals; it lives in the JVM, answers at a port there, and has a name there."""

    port: int
    name: str

    def principal(self, certified: str | None) -> str:
        """Whom it takes a client for who has shown this name in a certificate, or none. Raises OSError."""
        with socket.create_connection((HOST, self.port), PATIENCE_S) as asked:
            asked.sendall(f"{self.name}\t{certified or ''}\n".encode())
            with asked.makefile(encoding="utf-8") as answer:
                return answer.readline().rstrip("\n")


class NamingCluster(RunningCluster):
    """A cluster in which builders of principals say who comes over some of the listeners."""

    builders: Mapping[str, Builder] = {}
    """By listener; of the broker that is made next, as its configuration is."""

    def make_node(self, node_id: int) -> Node:
        """A node of this cluster, whose entrance knows the builders."""
        node = super().make_node(node_id)
        node.entrance = _Naming(node, self.builders)
        return node


class _Naming(Entrance):
    """The listeners of a node, of some of which somebody else says who comes."""

    def __init__(self, node: Node, builders: Mapping[str, Builder]) -> None:
        super().__init__(node, node.gate)
        self._builders = builders

    def peer(self, event: Connected) -> Peer | None:
        """Who comes."""
        builder = None if event.broker else self._builders.get(event.listener)
        if builder is None:
            return super().peer(event)
        return Peer(event.listener, parse_principal(builder.principal(event.certified)))
