"""Kafka's `listeners`, `advertised.listeners` and related keys.

A listener has a name, which is mapped to a security protocol. The brokers of one process share a configuration: the
ports in it are those of the first broker, and each further broker takes as many ports behind them as there are
listeners.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.security import SecurityConfig

if TYPE_CHECKING:
    from odradek.config.table import Config

__all__ = ["PLAINTEXT", "Listener", "ListenersError", "SecurityProtocol", "read_listeners"]

PLAINTEXT = "PLAINTEXT"
_ADDRESS = r"([^:/]+)://(?:\[([0-9a-fA-F:.]*)\]|([^:\[\]]*)):(\d+)"
_PORT_MAX = 65535


class ListenersError(ValueError):
    """Listeners that a broker cannot have; the text is one clear sentence."""


class SecurityProtocol(IntEnum):
    """The security protocol of a listener, numbered as in the registrations of brokers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether a client must log in before its requests are served."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(Struct, frozen=True, kw_only=True):
    """One listener of the first broker; port 0 stands for any free port."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised_host: str | None = None
    """The host and port that clients receive, if they are not the ones that the broker listens on."""
    advertised_port: int | None = None


def read_listeners(
    config: Config,
    *,
    host: str,
    port: int,
    advertised_host: str | None = None,
    advertised_port: int | None = None,
) -> tuple[Listener, ...]:
    """The listeners of a configuration; without any, a single one without encryption at this address.

    Raises `ListenersError`.
    """
    settings = config.security()
    protocols = _protocols(settings)
    if not settings.listeners:
        default = Listener(
            name=PLAINTEXT,
            protocol=protocols.get(PLAINTEXT, SecurityProtocol.PLAINTEXT),
            host=host,
            port=port,
            advertised_host=advertised_host,
            advertised_port=advertised_port,
        )
        return _advertised((default,), settings)
    found = []
    for name, bound_host, bound_port in _addresses("listeners", settings.listeners):
        if name in settings.controller_listener_names:
            continue  # the controller runs inside a broker, and is reached over the channel between brokers
        if name not in protocols:
            raise ListenersError(f"No security protocol is defined for listener {name}.")
        found.append(
            Listener(
                name=name,
                protocol=protocols[name],
                host=bound_host or host,
                port=bound_port,
                advertised_host=advertised_host,
            )
        )
    if not found:
        raise ListenersError("A broker has at least one listener for clients.")
    _check_inter_broker(settings, found)
    if advertised_port is not None:
        if len(found) > 1:
            raise ListenersError("With several listeners advertised.listeners says which ports clients are told.")
        found[0] = replace(found[0], advertised_port=advertised_port)
    return _advertised(tuple(found), settings)


def _protocols(settings: SecurityConfig) -> dict[str, SecurityProtocol]:
    """The security protocol of each listener name (KIP-103)."""
    protocols = {}
    for entry in settings.listener_security_protocol_map:
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not (name and colon and protocol in SecurityProtocol.__members__):
            raise ListenersError(f"listener.security.protocol.map takes NAME:PROTOCOL,…, not {entry}.")
        protocols[name.upper()] = SecurityProtocol[protocol]
    return protocols


def _addresses(key: str, entries: Iterable[str]) -> list[tuple[str, str, int]]:
    """Name, host and port of each listener."""
    found: list[tuple[str, str, int]] = []
    for entry in entries:
        match = re.fullmatch(_ADDRESS, entry)
        if match is None or int(match[4]) > _PORT_MAX:
            raise ListenersError(f"{key} takes NAME://HOST:PORT,…, not {entry}.")
        found.append((match[1].upper(), match[2] or match[3] or "", int(match[4])))
    names = [name for name, _, _ in found]
    if len(set(names)) < len(names):
        raise ListenersError(f"Each listener must have a different name: {', '.join(entries)}.")
    ports = [port for _, _, port in found if port]
    if key == "listeners" and len(set(ports)) < len(ports):
        raise ListenersError(f"Each listener must have a different port: {', '.join(entries)}.")
    return found


def _advertised(listeners: tuple[Listener, ...], settings: SecurityConfig) -> tuple[Listener, ...]:
    if not settings.advertised_listeners:
        return listeners
    told = {
        name: (host, port) for name, host, port in _addresses("advertised.listeners", settings.advertised_listeners)
    }
    names = {listener.name for listener in listeners}
    if unknown := sorted(told.keys() - names - set(settings.controller_listener_names)):
        raise ListenersError(f"advertised.listeners names {unknown[0]}, and listeners does not.")
    for name, (host, _) in told.items():
        if host == "0.0.0.0":
            raise ListenersError(f"advertised.listeners cannot tell clients of {name} to connect to 0.0.0.0.")
    return tuple(
        Listener(
            name=listener.name,
            protocol=listener.protocol,
            host=listener.host,
            port=listener.port,
            advertised_host=told[listener.name][0] or None,
            advertised_port=told[listener.name][1] or None,
        )
        if listener.name in told
        else listener
        for listener in listeners
    )


def _check_inter_broker(settings: SecurityConfig, listeners: Iterable[Listener]) -> None:
    """Check `inter.broker.listener.name` and related keys as Kafka does; brokers here use no sockets for them."""
    name, protocol = settings.inter_broker_listener_name, settings.security_inter_broker_protocol
    if name is not None and protocol is not None:
        raise ListenersError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    wanted = (name or "").upper() if name is not None else protocol
    if wanted is not None and wanted not in {listener.name for listener in listeners}:
        raise ListenersError(f"The inter-broker listener {wanted} is not one of the listeners.")
