"""GetTelemetrySubscriptions, PushTelemetry (KIP-714): always served; listed by ApiVersions where there is a sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.host.endpoint import EVERYBODY, endpoint
from odradek.telemetry.receiver import COMPRESSIONS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from odradek.wire.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from odradek.wire.messages.push_telemetry_response import PushTelemetryResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.telemetry.receiver import Telemetry
    from odradek.wire.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
    from odradek.wire.messages.push_telemetry_request import PushTelemetryRequest

__all__ = ["TelemetryApi"]


class TelemetryApi:
    """GetTelemetrySubscriptions, PushTelemetry."""

    def __init__(self, node: Serving, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._connections = node.connections
        """By number; a connection knows the name and version of its client's software."""
        self._settings = node.settings

    @endpoint(
        GET_TELEMETRY_SUBSCRIPTIONS, left_out="patterns of metrics with lookaround", needs=EVERYBODY, is_told=False
    )
    async def get_subscriptions(
        self, call: Call[GetTelemetrySubscriptionsRequest]
    ) -> GetTelemetrySubscriptionsResponse:
        """GetTelemetrySubscriptions (key 71), version 0."""
        request = call.request
        instance = self._telemetry.subscribe(request.client_instance_id, self._facts(call), call.conn)
        if isinstance(instance, ErrorCode):
            return GetTelemetrySubscriptionsResponse(error_code=instance)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance.client.instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(COMPRESSIONS),
            push_interval_ms=instance.wanted.interval_ms,
            telemetry_max_bytes=self._settings.config.telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.wanted.metrics),
        )

    @endpoint(PUSH_TELEMETRY, needs=EVERYBODY, is_told=False)
    async def push(self, call: Call[PushTelemetryRequest]) -> PushTelemetryResponse:
        """PushTelemetry (key 72), version 0."""
        request = call.request
        error = await self._telemetry.push(
            request.client_instance_id,
            self._facts(call),
            call.conn,
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            compression=request.compression_type,
            metrics=bytes(request.metrics),
        )
        return PushTelemetryResponse(error_code=error)

    def _facts(self, call: Call[GetTelemetrySubscriptionsRequest] | Call[PushTelemetryRequest]) -> Mapping[str, str]:
        """Properties of the client, by the names that selectors of subscriptions use."""
        connection = self._connections.get(call.conn)
        name, version = ("unknown", "unknown") if connection is None else connection.software
        return {
            "client_id": call.client_id or "",
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": call.host,
            "client_source_port": "" if connection is None else str(connection.port),
        }
