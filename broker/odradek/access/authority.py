"""The authorizer of one node, where it has one: what is decided about a request, for whoever sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.access.authorizer import Authorizer
from odradek.access.principal import RulesError, parse_principal

if TYPE_CHECKING:
    from odradek.config.security import SecurityConfig
    from odradek.host.call import Call
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings
    from odradek.metadata.image import MetadataImage

__all__ = ["Authority"]


class Authority:
    """Permissions as this node knows them. Raises `RulesError` for super users that are none."""

    def __init__(self, security: SecurityConfig, *, metadata: Metadata, settings: Settings) -> None:
        self.metadata = metadata
        """Names and ids of the topics that a request names."""
        self.settings = settings
        try:
            super_users = [parse_principal(text.strip()) for text in security.super_users.split(";") if text.strip()]
        except ValueError as error:
            raise RulesError(f"super.users: {error}") from None
        self._authorizer = Authorizer(super_users=super_users, allow_everyone=security.allow_everyone_if_no_acl_found)

    def adopt(self, before: MetadataImage, after: MetadataImage) -> None:
        """Take over the permissions of a new image."""
        if before.acls is not after.acls:
            self._authorizer.adopt(after.acls.values())

    def allows(
        self, call: Call, operation: AclOperation, kind: AclResource = AclResource.CLUSTER, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the sender of a request may do this; brokers may do everything."""
        return call.is_broker or self._authorizer.allows(call.peer.principal, call.host, operation, kind, name)

    def allows_some(self, call: Call, operation: AclOperation, kind: AclResource) -> bool:
        """Whether the sender may do this to any resource of the kind."""
        return call.is_broker or self._authorizer.allows_some(call.peer.principal, call.host, operation, kind)

    def operations(self, call: Call, kind: AclResource, name: str = CLUSTER_NAME) -> int:
        """All that the sender may do to a resource, a bit for each."""
        return self._authorizer.allowed_operations(call.peer.principal, call.host, kind, name)
