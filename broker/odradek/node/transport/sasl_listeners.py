"""What the configuration says of logins over a listener, and whom it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.node.seams import HasConfig, HasLog, HasMetadata
from odradek.node.transport.logins import LoginsRefused, SaslListener
from odradek.security.jaas import JaasError, parse_users, plain_users
from odradek.security.logins import MECHANISMS, OAUTHBEARER
from odradek.security.mechanisms import NOT_SERVED, Accounts

if TYPE_CHECKING:
    from odradek.security.credential import ScramCredential

__all__ = ["configured_users", "sasl_listener"]


class Node(HasConfig, HasLog, HasMetadata, Protocol):
    """What the logins of a broker are made of."""


def sasl_listener(node: Node, name: str) -> SaslListener:
    """How clients log in over this listener. Raises `LoginsRefused`."""
    settings = node.config.security(name)
    mechanisms = settings.sasl_enabled_mechanisms
    for mechanism in mechanisms:
        if mechanism in NOT_SERVED:
            raise LoginsRefused(f"sasl.enabled.mechanisms of listener {name}: {NOT_SERVED[mechanism]}")
        if mechanism not in MECHANISMS:
            raise LoginsRefused(
                f"sasl.enabled.mechanisms of listener {name}: there is no {mechanism}, but {', '.join(MECHANISMS)}."
            )
    if not mechanisms:
        raise LoginsRefused(f"Listener {name} has no sasl.enabled.mechanisms, and nobody could log in.")
    if OAUTHBEARER in mechanisms:
        node.log.warning("unsecured_tokens_accepted", listener=name)
    passwords = configured_users(node, name)
    return SaslListener(
        mechanisms=mechanisms,
        accounts=Accounts(password=passwords.get, scram=lambda user, number: _scram(node, user, number)),
        reauth_ms={each: node.config.security(name, each).connections_max_reauth_ms for each in mechanisms},
        receive_bytes_max=settings.sasl_server_max_receive_size,
        failed_delay_ms=settings.connection_failed_authentication_delay_ms,
    )


def configured_users(node: Node, listener: str = "") -> Mapping[str, str]:
    """The users whose passwords stand in the configuration: for PLAIN, and from the start for SCRAM as well."""
    settings = node.config.security(listener, "PLAIN")
    try:
        users = dict(parse_users(settings.odradek_sasl_users or ""))
        if listener and settings.sasl_jaas_config is not None and "PlainLoginModule" in settings.sasl_jaas_config:
            users |= plain_users(settings.sasl_jaas_config)
    except JaasError as error:
        raise LoginsRefused(str(error)) from None
    return users


def _scram(node: Node, user: str, number: int) -> ScramCredential | None:
    return node.image.scram.get((user, number))
