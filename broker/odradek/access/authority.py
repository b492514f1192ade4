"""The authorizer of one node, if it has one: decisions about requests by the principal of their client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.access.authorizer import Authorizer
from odradek.access.principal import ANONYMOUS, RulesError, parse_principal

if TYPE_CHECKING:
    from odradek.config.security import SecurityConfig
    from odradek.host.call import Call
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings
    from odradek.metadata.image import MetadataImage

__all__ = ["Authority"]

PLAINTEXT = "PLAINTEXT"
BROKERS_HOST = "127.0.0.1"
"""The host of a broker's own requests, for permissions that name one."""


class Authority:
    """Permissions in the metadata of this node. Raises `RulesError` for super users that are not principals."""

    def __init__(self, security: SecurityConfig, *, metadata: Metadata, settings: Settings) -> None:
        self.metadata = metadata
        """Names and ids of the topics in a request."""
        self.settings = settings
        try:
            super_users = [parse_principal(text.strip()) for text in security.super_users.split(";") if text.strip()]
        except ValueError as error:
            raise RulesError(f"super.users: {error}") from None
        self._authorizer = Authorizer(super_users=super_users, allow_everyone=security.allow_everyone_if_no_acl_found)
        self._brokers_are_anonymous = _between_brokers(security) == PLAINTEXT

    def adopt(self, before: MetadataImage, after: MetadataImage) -> None:
        """Adopt the permissions of a new image."""
        if before.acls is not after.acls:
            self._authorizer.adopt(after.acls.values())

    def allows(
        self, call: Call, operation: AclOperation, kind: AclResource = AclResource.CLUSTER, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the client of a call may do this; other brokers may do everything."""
        return call.is_broker or self._authorizer.allows(call.peer.principal, call.host, operation, kind, name)

    def allows_broker(self, operation: AclOperation, kind: AclResource, name: str) -> bool:
        """Whether a broker may do this in its own name, over the listener between brokers (KIP-1191).

        There it is User:ANONYMOUS where the listener asks for no login. The principal that brokers log in as is not
        known here: it may do everything, as one of the super users.
        """
        if not self._brokers_are_anonymous:
            return True
        return self._authorizer.allows(ANONYMOUS, BROKERS_HOST, operation, kind, name)

    def allows_some(self, call: Call, operation: AclOperation, kind: AclResource) -> bool:
        """Whether the client may do this to at least one resource of the kind."""
        return call.is_broker or self._authorizer.allows_some(call.peer.principal, call.host, operation, kind)

    def operations(self, call: Call, kind: AclResource, name: str = CLUSTER_NAME) -> int:
        """All operations that the client may do on a resource, one bit each."""
        return self._authorizer.allowed_operations(call.peer.principal, call.host, kind, name)


def _between_brokers(security: SecurityConfig) -> str:
    """The security protocol of the listener between brokers."""
    name = security.inter_broker_listener_name
    if name is None:
        return security.security_inter_broker_protocol or PLAINTEXT
    protocols = dict(each.split(":", 1) for each in security.listener_security_protocol_map)
    return protocols.get(name.upper(), name.upper())
