"""Permissions of a broker's own requests: the principal is that of the listener between brokers."""

from __future__ import annotations

import pytest

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WRITE, TOPIC = AclOperation.WRITE, AclResource.TOPIC
ALLOW, DENY, LITERAL = 3, 2, 3


def may_write(topic: str, *, acl: int | None = None, **config: str) -> bool:
    """Whether a broker may write to the topic, where an ACL of User:ANONYMOUS stands on it."""
    keys = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    world = World(
        brokers=1, topics=["d:1"], config=keys | {key.replace("_", "."): value for key, value in config.items()}
    )
    if acl is not None:
        creation = AclCreation(
            resource_type=TOPIC,
            resource_name="d",
            resource_pattern_type=LITERAL,
            principal="User:ANONYMOUS",
            host="*",
            operation=WRITE,
            permission_type=acl,
        )
        answer = world.client().ask(CreateAclsRequest(creations=[creation]), 3)
        assert answer.results[0].error_code == ErrorCode.NONE
    authority = next(iter(world.nodes.values())).authority
    assert authority is not None
    return authority.allows_broker(WRITE, TOPIC, topic)


@pytest.mark.parametrize(
    ("acl", "config", "may"),
    [
        (None, {}, True),
        (ALLOW, {}, True),
        (DENY, {}, False),
        (DENY, {"super_users": "User:ANONYMOUS"}, True),
        (DENY, {"security_inter_broker_protocol": "PLAINTEXT"}, False),
        # Brokers that log in do so as somebody who may do everything.
        (DENY, {"security_inter_broker_protocol": "SASL_PLAINTEXT"}, True),
        (DENY, {"inter_broker_listener_name": "INSIDE", "listener_security_protocol_map": "INSIDE:PLAINTEXT"}, False),
        (DENY, {"inter_broker_listener_name": "INSIDE", "listener_security_protocol_map": "INSIDE:SSL"}, True),
    ],
)
def test_a_broker_is_anonymous_on_a_listener_without_login(acl: int | None, config: dict[str, str], may: bool) -> None:
    assert may_write("d", acl=acl, **config) is may


def test_an_acl_is_about_its_topic_alone() -> None:
    assert may_write("e", acl=DENY)


def test_the_right_to_create_on_the_cluster() -> None:
    world = World(brokers=1, topics=["d:1"], config={"authorizer.class.name": AUTHORIZER})
    authority = next(iter(world.nodes.values())).authority
    assert authority is not None
    assert not authority.allows_broker(AclOperation.CREATE, AclResource.CLUSTER, CLUSTER_NAME)
