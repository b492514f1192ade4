"""Who a new connection is, by the listener it came over and the certificate it has shown, or how it will be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.access.listeners import SecurityProtocol
from odradek.access.principal import SOMEBODY, MappingRules, Peer

if TYPE_CHECKING:
    from odradek.access.gate import Gate
    from odradek.access.listener_logins import SaslListener
    from odradek.core.clock import Rng
    from odradek.host.cluster_spec import Endpoint
    from odradek.host.events import Connected
    from odradek.host.facts import Logger
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings

__all__ = ["Entrance"]


class Entrance:
    """The listeners of one node, as it needs to know them; a node without any lets in whoever comes."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        metadata: Metadata,
        settings: Settings,
        secrets: Rng,
        log: Logger,
        gate: Callable[[SaslListener], Gate],
    ) -> None:
        """`gate` makes one for a connection over a listener with logins."""
        self._strangers: dict[str, Peer] = {}
        self._rules: dict[str, MappingRules] = {}
        self._sasl: dict[str, SaslListener] = {}
        self._make_gate = gate
        for endpoint in endpoints:
            self._strangers[endpoint.name] = Peer(listener=endpoint.name)
            protocol = SecurityProtocol(endpoint.security_protocol)
            if protocol.uses_sasl:
                from odradek.access.sasl_listeners import sasl_listener  # most nodes have none

                self._sasl[endpoint.name] = sasl_listener(
                    endpoint.name, settings=settings, metadata=metadata, secrets=secrets, log=log
                )
            if protocol is SecurityProtocol.SSL:
                rules = settings.config.security(endpoint.name).ssl_principal_mapping_rules
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
        return self._make_gate(self._sasl[event.listener])
