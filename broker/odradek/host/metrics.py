"""The numbers of a broker, as plain counters and gauges (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol

from odradek.host.coordinators import HasCoordinators
from odradek.host.counters import Counters
from odradek.host.exchange import HasConnections
from odradek.host.seams import HasPartitions, HasPurgatory, HasStore
from odradek.host.serving import HasQuotas

if TYPE_CHECKING:
    from odradek.txn.admission import Admission

__all__ = ["Metrics"]


class Node(HasConnections, HasCoordinators, HasPartitions, HasPurgatory, HasQuotas, HasStore, Protocol):
    """What is counted when somebody looks."""

    @property
    def admission(self) -> Admission: ...
    @property
    def telemetry(self) -> Sized: ...
    @property
    def has_telemetry(self) -> bool: ...


class Metrics(Counters):
    """What a test or the `/metrics` page reads; gauges are computed when somebody looks."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def snapshot(self) -> dict[str, float]:
        """Every number, by name; names that end in `_total` only grow."""
        node = self._node
        shards = node.coordinators.of_transactions()
        return {
            "requests_total": self.requests,
            "connections": len(node.connections),
            "purgatory_size": len(node.purgatory),
            "partitions": len(node.partitions),
            "log_bytes": node.store.bytes_held,
            "coordinator_loads_total": self.coordinator_loads,
            "coordinators_loading": node.coordinators.loading(),
            "transactional_ids": sum(1 for shard in shards for _ in shard.machine.entries()),
            "transactions_owing_markers": sum(shard.machine.transactions_owing_markers for shard in shards),
            "markers_written_total": self.markers_written,
            "telemetry_clients": len(node.telemetry) if node.has_telemetry else 0,
            "telemetry_pushes_total": self.telemetry_pushes,
            "telemetry_refused_total": self.telemetry_refused,
            "telemetry_throttled_total": self.telemetry_throttled,
            "telemetry_unknown_subscriptions_total": self.telemetry_unknown,
            **self._verification(),
            "throttles_total": sum(count for *_, count, _ in self.throttles()),
            "throttle_time_ms_total": sum(total_ms for *_, total_ms in self.throttles()),
        }

    def throttles(self) -> list[tuple[str, str, str, int, int]]:
        """Who had to wait: the limit, user, client id, how often, and for how long together (ms)."""
        quotas = self._node.quotas
        return [] if quotas is None else list(quotas.throttles())

    def _verification(self) -> dict[str, float]:
        """VerificationTimeMs and VerificationFailureRate (KIP-890, "Metrics") as what both are made of."""
        verification = self._node.admission.verifier.metrics
        return {
            "verifications_total": verification.verifications,
            "verification_failures_total": verification.failures,
            "verification_time_ms_sum": verification.duration_ms_sum,
            "verification_time_ms_max": verification.duration_ms_max,
        }

    def verification_time_buckets(self) -> list[tuple[float, int]]:
        """Verifications by how long they took: pairs of an upper bound (ms) and the number up to it."""
        return self._node.admission.verifier.metrics.buckets()
