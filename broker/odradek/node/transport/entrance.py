"""Who a new connection is, by the listener it came over and the certificate it has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.security.listeners import SecurityProtocol
from odradek.security.principal import SOMEBODY, MappingRules, Peer

if TYPE_CHECKING:
    from odradek.node.cluster_spec import Endpoint
    from odradek.node.events import Connected
    from odradek.node.node import Node

__all__ = ["Entrance"]


class Entrance:
    """The listeners of one node, as it needs to know them; a node without any lets in whoever comes."""

    def __init__(self, node: Node) -> None:
        self._strangers: dict[str, Peer] = {}
        self._rules: dict[str, MappingRules] = {}
        for endpoint in _endpoints(node):
            self._strangers[endpoint.name] = Peer(listener=endpoint.name)
            if SecurityProtocol(endpoint.security_protocol) is SecurityProtocol.SSL:
                rules = node.config.security(endpoint.name).ssl_principal_mapping_rules
                self._rules[endpoint.name] = MappingRules(rules)

    def peer(self, event: Connected) -> Peer | None:
        """Who comes; None for the owner of a certificate whose name no rule maps to a principal (KIP-371)."""
        if event.broker:
            return SOMEBODY
        rules = self._rules.get(event.listener) if event.certified is not None else None
        if rules is None or event.certified is None:
            return self._strangers.get(event.listener, SOMEBODY)
        principal = rules.principal(event.certified)
        return None if principal is None else Peer(event.listener, principal)


def _endpoints(node: Node) -> tuple[Endpoint, ...]:
    for broker in node.cluster.brokers:
        if broker.node_id == node.node_id:
            return broker.endpoints
    return ()
