"""GetTelemetrySubscriptions, PushTelemetry (KIP-714): served by every broker, told by one that has a sink for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.host.exchange import HasConnections
from odradek.host.seams import HasConfig
from odradek.telemetry.telemetry import COMPRESSIONS, HasTelemetry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from odradek.wire.messages.push_telemetry_response import PushTelemetryResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
    from odradek.wire.messages.push_telemetry_request import PushTelemetryRequest

__all__ = ["get_telemetry_subscriptions", "push_telemetry"]


class Node(HasConfig, HasConnections, HasTelemetry, Protocol):
    """What these routes touch of their broker."""


async def get_telemetry_subscriptions(node: Node, call: Call) -> GetTelemetrySubscriptionsResponse:
    """GetTelemetrySubscriptions (key 71), version 0."""
    request: GetTelemetrySubscriptionsRequest = call.request
    instance = node.telemetry.subscribe(request.client_instance_id, _facts(node, call), call.conn)
    if isinstance(instance, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=instance)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.client.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=node.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


async def push_telemetry(node: Node, call: Call) -> PushTelemetryResponse:
    """PushTelemetry (key 72), version 0."""
    request: PushTelemetryRequest = call.request
    error = await node.telemetry.push(
        request.client_instance_id,
        _facts(node, call),
        call.conn,
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression=request.compression_type,
        metrics=bytes(request.metrics),
    )
    return PushTelemetryResponse(error_code=error)


def _facts(node: Node, call: Call) -> Mapping[str, str]:
    """What is known of the client, by the selectors of subscriptions."""
    connection = node.connections.get(call.conn)
    name, version = ("unknown", "unknown") if connection is None else connection.software
    return {
        "client_id": call.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": call.host,
        "client_source_port": "" if connection is None else str(connection.port),
    }
