"""The answers of a broker to clients that offer metrics (KIP-714, "Broker request handling").

The order of the checks, and the state after a failed request, are those of Kafka's `ClientMetricsManager`, recorded in
`tests/oracle/scenarios/telemetry_taken.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from odradek.core.machine import Fact
from odradek.metadata.client_metrics import Subscription, subscriptions
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.records.compression import Compression
from odradek.telemetry.instances import Client, Instance, Instances, wanted_of
from odradek.telemetry.sink import BIG_BYTES, NoMetrics, Push, Sink, unpack
from odradek.wire.errors import ErrorCode
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.host.host import Host

__all__ = ["COMPRESSIONS", "Telemetry"]

COMPRESSIONS = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""Compression types of pushes, the best first."""
_ZERO, _ONE = bytes(16), bytes(15) + b"\x01"
_RESERVED = (_ZERO, _ONE)
_ID_BYTES = 16


class Telemetry:
    """The clients of a broker that offer metrics; made for the first of them."""

    def __init__(self, node: Host) -> None:
        self._random = node.random
        self._settings = node.settings
        self._clock = node.clock
        self._timers = node.timers
        self._aside = node.aside
        self._counters = node.counters
        self._facts = node.facts
        self._log = node.log
        self._instances = Instances()
        self._subscriptions: list[Subscription] = subscriptions(node.metadata.image)
        self._generation = 0
        self.sink = Sink() if node.settings.config.odradek_telemetry else None

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def pushes(self) -> list[Push]:
        """The newest pushes, oldest first; none without a sink."""
        return [] if self.sink is None else list(self.sink.pushes)

    def adopt(self, before: MetadataImage, after: MetadataImage) -> None:
        """Subscriptions may have changed: every client learns it with its next request."""
        if before.configs is not after.configs and _resources(before) != _resources(after):
            self._subscriptions = subscriptions(after)
            self._generation += 1

    def disconnected(self, conn: int) -> None:
        """A connection has ended: forget its client."""
        instance_id = self._instances.disconnected(conn)
        if instance_id is not None:
            self._forget_in(instance_id, None)

    def subscribe(self, instance_id: bytes, facts: Mapping[str, str], conn: int) -> Instance | ErrorCode:
        """The subscription of a client; a client without an id gets one."""
        if instance_id == _ZERO:
            instance_id = self._new_id()
        instance = self._heard(instance_id, facts, conn)
        if not instance.may_ask(self._clock.now):
            self._counters.telemetry_throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance

    async def push(
        self,
        instance_id: bytes,
        facts: Mapping[str, str],
        conn: int,
        *,
        subscription_id: int,
        terminating: bool,
        compression: int,
        metrics: bytes,
    ) -> ErrorCode:
        """Take the metrics of a client."""
        if instance_id in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._heard(instance_id, facts, conn)
        error = self._refusal(instance, subscription_id, terminating, compression, len(metrics))
        instance.terminating = terminating
        if error is ErrorCode.NONE and metrics and self.sink is not None:
            error = await self._take(self.sink, instance, terminating, Compression(compression), metrics)
        instance.last_error = error
        return error

    def _refusal(
        self, instance: Instance, subscription_id: int, terminating: bool, compression: int, size: int
    ) -> ErrorCode:
        counted = self._counters
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._clock.now) and not terminating:
            counted.telemetry_throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            counted.telemetry_unknown += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if compression not in (Compression.NONE, *COMPRESSIONS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if size > self._settings.config.telemetry_max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    async def _take(
        self, sink: Sink, instance: Instance, terminating: bool, compression: Compression, metrics: bytes
    ) -> ErrorCode:
        client = instance.client
        read = partial(unpack, compression, metrics)
        told: dict[str, object] = {
            "client_instance_id": client.facts["client_instance_id"],
            "client_id": client.facts["client_id"],
        }
        try:
            content = await self._aside.do(read) if len(metrics) > BIG_BYTES else read()
        except NoMetrics as error:
            self._counters.telemetry_refused += 1
            self._log.error("telemetry_refused", **told, error=str(error))
            return ErrorCode.INVALID_RECORD
        self._counters.telemetry_pushes += 1
        push = Push(
            at_ms=self._clock.now,
            client_instance_id=client.facts["client_instance_id"],
            client_id=client.facts["client_id"],
            client_software_name=client.facts["client_software_name"],
            client_software_version=client.facts["client_software_version"],
            subscription_id=instance.subscription_id,
            terminating=terminating,
            compression=compression.name.lower(),
            compressed_bytes=len(metrics),
            content=content,
        )
        sink.pushes.append(push)
        if self._facts.told:
            self._facts.emit((_pushed(push),))
        return ErrorCode.NONE

    def _heard(self, instance_id: bytes, facts: Mapping[str, str], conn: int) -> Instance:
        """A client; its subscription is made anew if it has none, or if subscriptions have changed since."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.generation < self._generation:
            known = None if instance is None else instance.client
            client = known or Client(instance_id, {**facts, "client_instance_id": uuid_text(instance_id)})
            instance = Instance(client, wanted_of(client, self._subscriptions), self._generation, conn)
            for gone in self._instances.put(instance):
                self._forget_in(gone, None)
        self._forget_in(instance_id, instance.silence_ms_max)
        return instance

    def _forget_in(self, instance_id: bytes, milliseconds: int | None) -> None:
        at = None if milliseconds is None else self._clock.now + milliseconds
        self._timers.set(("telemetry", instance_id), at, partial(self._instances.forget, instance_id))

    def _new_id(self) -> bytes:
        while True:
            instance_id = self._random.randbytes(_ID_BYTES)
            # Kafka's ids are random UUIDs, of version 4 and variant 2, and none begins with a dash in its text.
            number = int.from_bytes(instance_id, "big") & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
            instance_id = number.to_bytes(_ID_BYTES, "big")
            if instance_id not in self._instances and not uuid_text(instance_id).startswith("-"):
                return instance_id


def _resources(image: MetadataImage) -> dict[str, Mapping[str, str]]:
    return {name: values for (kind, name), values in image.configs.items() if kind == ResourceType.CLIENT_METRICS}


def _pushed(push: Push) -> Fact:
    content = push.content
    return Fact(
        "telemetry_pushed",
        {
            "client_instance_id": push.client_instance_id,
            "client_id": push.client_id,
            "client_software_name": push.client_software_name,
            "client_software_version": push.client_software_version,
            "subscription_id": push.subscription_id,
            "terminating": push.terminating,
            "compression": push.compression,
            "compressed_bytes": push.compressed_bytes,
            "bytes": content.bytes,
            "labels": dict(content.labels),
            "metrics": [
                {"name": each.name, "value": each.value, "attributes": dict(each.attributes)}
                for each in content.metrics
            ],
        },
    )
