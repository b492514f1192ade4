"""The identity of a new connection: from its listener and client certificate, or from a later login."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.access.listeners import SecurityProtocol
from odradek.access.principal import SOMEBODY, MappingRules, Peer

if TYPE_CHECKING:
    from odradek.access.gate import Gate
    from odradek.access.mechanisms import SaslListener
    from odradek.host.events import Connected
    from odradek.host.host import Host

__all__ = ["Entrance"]


class Entrance:
    """The listeners of one node. A node without listeners accepts every connection as anonymous."""

    def __init__(self, node: Host, gate: Callable[[SaslListener], Gate]) -> None:
        """`gate` creates the login for a connection over a listener that requires one."""
        self._strangers: dict[str, Peer] = {}
        self._rules: dict[str, MappingRules] = {}
        self._sasl: dict[str, SaslListener] = {}
        self._make_gate = gate
        for endpoint in node.cluster.endpoints_of(node.node_id):
            self._strangers[endpoint.name] = Peer(listener=endpoint.name)
            protocol = SecurityProtocol(endpoint.security_protocol)
            if protocol.uses_sasl:
                from odradek.access.sasl_listeners import sasl_listener  # most nodes have no rules of principals

                self._sasl[endpoint.name] = sasl_listener(
                    endpoint.name, settings=node.settings, metadata=node.metadata, secrets=node.secrets, log=node.log
                )
            if protocol is SecurityProtocol.SSL:
                rules = node.settings.config.security(endpoint.name).ssl_principal_mapping_rules
                self._rules[endpoint.name] = MappingRules(rules)

    def peer(self, event: Connected) -> Peer | None:
        """The peer of a new connection; None if no rule maps the certificate's name to a principal (KIP-371)."""
        if event.broker:
            return SOMEBODY
        rules = self._rules.get(event.listener) if event.certified is not None else None
        if rules is None or event.certified is None:
            return self._strangers.get(event.listener, SOMEBODY)
        principal = rules.principal(event.certified)
        return None if principal is None else Peer(event.listener, principal)

    def gate(self, event: Connected) -> Gate | None:
        """The login that this connection has to pass first; None if its listener requires none."""
        if event.broker or event.listener not in self._sasl:
            return None
        return self._make_gate(self._sasl[event.listener])
