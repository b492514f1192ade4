"""Permissions in the node: which APIs ask for them, for whom, and until when."""

from __future__ import annotations

import pytest
from tests.security.asked import ASKED
from tests.security.permissions import ALLOW, DENY, LITERAL, READ, TOPIC, acl
from tests.unit.host.helpers import batch, fetch_request, only, only_fetched, produce_request

from odradek.access.principal import RulesError
from odradek.host.endpoint import Everybody, endpoints_of
from odradek.host.events import Command
from odradek.host.router import SERVED
from odradek.sim import World
from odradek.tools.apis import families
from odradek.txn.api import TransactionApi
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_acls_request import CreateAclsRequest
from odradek.wire.messages.create_acls_response import CreateAclsResponse
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls_request import DescribeAclsRequest
from odradek.wire.registry import ApiKey

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANY = 1


def world(super_users: str = "", *, brokers: int = 1, users: str = "") -> World:
    config = {"authorizer.class.name": AUTHORIZER, "super.users": super_users, "offsets.topic.num.partitions": "1"}
    return World(brokers=brokers, topics=["hidden", "seen"], config=config | {"odradek.sasl.users": users})


def everybody_may(made: World, operation: int, *, permission: int = ALLOW) -> None:
    """Have who may do everything, which is the node itself, let others do something."""
    granted = acl(TOPIC, "hidden", operation, principal="User:*", permission=permission)
    request = CreateAclsRequest(creations=[granted])
    node = made.nodes[1]

    async def ask() -> None:
        response = await node.peers.call_controller(ApiKey.CREATE_ACLS, request, 3, CreateAclsResponse)
        assert response is not None
        assert 0 == response.results[0].error_code

    made.post(1, Command(lambda: node.kernel.spawn(ask())))
    made.run()


def test_every_api_says_what_it_asks_for() -> None:
    """Of everybody, or of brokers and users themselves: no other API is served without a permission."""
    declared = {api_key: found.needs for api_key, found in endpoints_of(*families().values()).items()}
    assert {served.api_key for served in SERVED} == declared.keys()
    assert {api_key for api_key, needs in declared.items() if isinstance(needs, Everybody)} == {
        ApiKey.FETCH,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }


@pytest.mark.parametrize("name", ASKED)
def test_a_super_user_is_refused_nothing(name: str) -> None:
    client = world("User:ANONYMOUS").client()
    asking = ASKED[name]
    for version in asking.versions:
        told = repr(client.ask(asking.make(version), version))
        for code in (29, 30, 31, 53):
            assert f"error_code={code}" not in told


@pytest.mark.parametrize("brokers", [1, 2])
def test_permissions_are_known_to_every_broker(brokers: int) -> None:
    made = world("User:ANONYMOUS", brokers=brokers)
    asked = CreateAclsRequest(creations=[acl(TOPIC, "t", READ)])
    [created] = made.client(brokers).ask(asked, 3).results
    assert 0 == created.error_code
    made.run()
    wanted = DescribeAclsRequest(resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY)
    wanted.resource_name_filter = wanted.principal_filter = wanted.host_filter = None
    for node_id in made.nodes:
        [resource] = made.client(node_id).ask(wanted, 3).resources
        assert ["User:alice"] == [each.principal for each in resource.acls]


@pytest.mark.parametrize("name", ["create_acls", "delete_acls", "describe_acls"])
@pytest.mark.parametrize("version", range(1, 4))
def test_without_an_authorizer_there_are_no_permissions(name: str, version: int) -> None:
    told = repr(World().client().ask(ASKED[name].make(version), version))
    assert f"error_code={int(ErrorCode.SECURITY_DISABLED)}" in told


def test_permissions_survive_a_snapshot() -> None:
    from odradek.metadata.delta import Delta
    from odradek.metadata.image import EMPTY
    from odradek.metadata.snapshot import snapshot_records

    made = world("User:ANONYMOUS", users="alice:secret")
    made.client().ask(CreateAclsRequest(creations=[acl(TOPIC, "t", READ)]), 3)
    image = made.nodes[1].image
    delta = Delta(EMPTY)
    for record in snapshot_records(image):
        delta.replay(record)
    again = delta.build(offset=image.offset, epoch=image.epoch)
    assert image.acls == again.acls != {}
    assert image.scram == again.scram != {}


def test_a_deleted_permission_counts_no_more() -> None:
    made = world("User:ANONYMOUS")
    client = made.client()
    client.ask(CreateAclsRequest(creations=[acl(TOPIC, "t", READ), acl(TOPIC, "u", READ)]), 3)
    one = DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter="t",
        pattern_type_filter=LITERAL,
        operation=ANY,
        permission_type=ANY,
    )
    one.principal_filter = one.host_filter = None
    client.ask(DeleteAclsRequest(filters=[one]), 3)
    assert ["u"] == [each.resource_name for each in made.nodes[1].image.acls.values()]


def test_a_fetch_session_does_not_outlive_a_permission() -> None:
    made = world()
    everybody_may(made, READ)
    everybody_may(made, 4)
    client = made.client()
    assert 0 == only(client.ask(produce_request(batch(b"x"), topic="hidden"), 9)).error_code
    opened = client.ask(fetch_request((0, 0), topic="hidden", session_epoch=0), 12)
    assert 0 == only_fetched(opened).error_code
    assert opened.session_id
    everybody_may(made, READ, permission=DENY)
    again = client.ask(fetch_request(session_id=opened.session_id, session_epoch=1), 12)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED == only_fetched(again).error_code


def test_a_produce_that_wants_no_answer_ends_its_connection() -> None:
    made = world()
    client = made.client()
    client.send(produce_request(batch(b"x"), topic="hidden", acks=0), 9)
    made.run()
    assert client.closed
    assert 0 == made.nodes[1].partitions["hidden", 0].log.end_offset


def test_without_an_authorizer_nobody_is_asked() -> None:
    made = World(topics=["t"])
    made.client().ask(produce_request(batch(b"x")), 9)
    assert made.nodes[1].authority is None
    handler = made.nodes[1].router.handler(0, 9, broker=False)
    assert handler is not None
    assert "guards" not in handler.serve.func.__module__  # type: ignore[attr-defined]
    handler = made.nodes[1].router.handler(26, 5, broker=False)
    assert handler is not None
    assert TransactionApi.end_txn is handler.serve.func  # type: ignore[attr-defined]


def test_what_is_no_principal_cannot_be_a_super_user() -> None:
    with pytest.raises(RulesError, match=r"super\.users: A principal is TYPE:NAME, such as User:alice, not 'alice'"):
        world("alice")
