"""Clients that have to say who they are, and may do what they need and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient
from tests.clients.matrix.plan import MECHANISMS

from odradek.testing import Cluster

__all__ = ["AUTHORIZED", "USERS", "admitted"]

api: Any = confluent_admin
PLAYER = "player"
USERS = {"admin": "admin-secret", PLAYER: "player-secret"}
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
PREFIXED = ("TOPIC", "GROUP", "TRANSACTIONAL_ID")
AS_BROKERS = {"platformatic": ("CLUSTER_ACTION",)}
"""Of the cluster, what a client needs that sends requests which are meant for brokers: AddPartitionsToTxn v5."""
PATIENCE_S = 20


def admitted(cluster: Cluster, family: str) -> Mapping[str, str]:
    """Let the player do everything to what begins with the family's name; what its environment is to say."""
    granted = [_acl(kind, family, "PREFIXED", "ALL") for kind in PREFIXED]
    granted += [_acl("BROKER", "kafka-cluster", "LITERAL", each) for each in ("DESCRIBE", *AS_BROKERS.get(family, ()))]
    admin: Any = AdminClient(dict(cluster.access.librdkafka))
    for created in admin.create_acls(granted).values():
        created.result(PATIENCE_S)
    certificates = cluster.access.certificates
    assert certificates is not None, "it has TLS"
    return {
        "CLIENT_SSL_CA": str(certificates.ca),
        "CLIENT_SASL_MECHANISM": MECHANISMS[family],
        "CLIENT_SASL_USERNAME": PLAYER,
        "CLIENT_SASL_PASSWORD": USERS[PLAYER],
    }


def _acl(kind: str, name: str, pattern: str, operation: str) -> Any:
    return api.AclBinding(
        getattr(api.ResourceType, kind),
        name,
        getattr(api.ResourcePatternType, pattern),
        f"User:{PLAYER}",
        "*",
        getattr(api.AclOperation, operation),
        api.AclPermissionType.ALLOW,
    )
