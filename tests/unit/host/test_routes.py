"""Every route takes what the real node is: mypy compares them here, because the table names them by strings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from msgspec import Struct

from odradek.broker import Node
from odradek.group.classic import api as groups
from odradek.group.consumer import api as consumer_groups
from odradek.group.offsets import api as offsets
from odradek.group.streams import api as streams_groups
from odradek.host.call import Call
from odradek.host.router import BROKER_ROUTES, ROUTES
from odradek.telemetry import api as telemetry
from odradek.wire.registry import ApiKey

SERVED: dict[ApiKey, Callable[[Node, Call], Coroutine[object, None, Struct | None]]] = {
    ApiKey.OFFSET_COMMIT: offsets.offset_commit,
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.OFFSET_DELETE: offsets.offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_groups.streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_groups.streams_group_describe,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: streams_groups.streams_group_topology_description_update,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: telemetry.push_telemetry,
}


def test_the_table_names_every_route_by_its_module_and_function() -> None:
    table = {route.api_key: route.target for route in (*ROUTES, *BROKER_ROUTES)}
    named = {key: f"{serve.__module__.removeprefix('odradek.')}:{serve.__name__}" for key, serve in SERVED.items()}
    assert table == named
