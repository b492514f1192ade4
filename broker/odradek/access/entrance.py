"""Who a new connection is, by the listener it came over and the certificate it has shown, or how it will be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.access.listeners import SecurityProtocol
from odradek.access.principal import SOMEBODY, MappingRules, Peer
from odradek.host.router import HasRouter
from odradek.host.seams import HasConfig, HasCounters, HasIdentity, HasLog, HasMetadata, HasRandom, HasTimers
from odradek.host.serving import Telling

if TYPE_CHECKING:
    from odradek.access.gate import Gate
    from odradek.access.listener_logins import SaslListener
    from odradek.host.cluster_spec import Endpoint
    from odradek.host.events import Connected

__all__ = ["Entrance"]


class Node(
    Telling,
    HasConfig,
    HasCounters,
    HasIdentity,
    HasLog,
    HasMetadata,
    HasRandom,
    HasRouter,
    HasTimers,
    Protocol,
):
    """What the entrance of a broker touches of it."""


class Entrance:
    """The listeners of one node, as it needs to know them; a node without any lets in whoever comes."""

    def __init__(self, node: Node) -> None:
        self._strangers: dict[str, Peer] = {}
        self._rules: dict[str, MappingRules] = {}
        self._node = node
        self._sasl: dict[str, SaslListener] = {}
        for endpoint in _endpoints(node):
            self._strangers[endpoint.name] = Peer(listener=endpoint.name)
            protocol = SecurityProtocol(endpoint.security_protocol)
            if protocol.uses_sasl:
                from odradek.access.sasl_listeners import sasl_listener  # most nodes have none

                self._sasl[endpoint.name] = sasl_listener(node, endpoint.name)
            if protocol is SecurityProtocol.SSL:
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

    def gate(self, event: Connected) -> Gate | None:
        """What a client of this connection has to pass first; None where it need not log in."""
        if event.broker or event.listener not in self._sasl:
            return None
        from odradek.access.gate import Gate  # most nodes have none

        return Gate(self._node, self._sasl[event.listener], self._node.config.socket_request_max_bytes)


def _endpoints(node: Node) -> tuple[Endpoint, ...]:
    for broker in node.cluster.brokers:
        if broker.node_id == node.node_id:
            return broker.endpoints
    return ()
