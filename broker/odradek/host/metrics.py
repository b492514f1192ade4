"""The metrics of a broker, as plain counters and gauges (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.host.coordinators import Coordinators
    from odradek.host.exchange import Serving
    from odradek.host.replicas import Replicas
    from odradek.host.shard import CoordinatorsOf
    from odradek.txn.admission import Admission
    from odradek.txn.shard import TransactionShard

__all__ = ["Metrics"]


class Metrics:
    """For tests and the `/metrics` page; gauges are computed when read."""

    def __init__(
        self,
        node: Serving,
        transactions: CoordinatorsOf[TransactionShard],
        coordinators: Coordinators,
        replicas: Replicas,
        *,
        admission: Callable[[], Admission],
        telemetry: Callable[[], Sized],
    ) -> None:
        """`telemetry`: the clients that push metrics."""
        self._node = node
        self._transactions = transactions
        self._coordinators = coordinators
        self._replicas = replicas
        self._admission = admission
        self._telemetry = telemetry

    def snapshot(self) -> dict[str, float]:
        """Every metric by name; names that end in `_total` only grow."""
        node, counters, verification = self._node, self._node.counters, self._admission().verifier.metrics
        shards = self._transactions.led()
        return {
            "requests_total": counters.requests,
            "connections": len(node.connections),
            "purgatory_size": len(node.purgatory),
            "partitions": len(node.partitions) + self._replicas.asleep,
            "log_bytes": node.store.bytes_held,
            "coordinator_loads_total": counters.coordinator_loads,
            "coordinators_loading": sum(each.loading for each in self._coordinators.all()),
            "transactional_ids": sum(1 for shard in shards for _ in shard.machine.entries()),
            "transactions_owing_markers": sum(shard.machine.transactions_owing_markers for shard in shards),
            "markers_written_total": counters.markers_written,
            "telemetry_clients": len(self._telemetry()),
            "telemetry_pushes_total": counters.telemetry_pushes,
            "telemetry_refused_total": counters.telemetry_refused,
            "telemetry_throttled_total": counters.telemetry_throttled,
            "telemetry_unknown_subscriptions_total": counters.telemetry_unknown,
            # VerificationTimeMs and VerificationFailureRate (KIP-890, "Metrics") as what both are made of.
            "verifications_total": verification.verifications,
            "verification_failures_total": verification.failures,
            "verification_time_ms_sum": verification.duration_ms_sum,
            "verification_time_ms_max": verification.duration_ms_max,
            "throttles_total": sum(count for *_, count, _ in self.throttles()),
            **self._dead_letters(),
            "throttle_time_ms_total": sum(total_ms for *_, total_ms in self.throttles()),
        }

    def throttles(self) -> list[tuple[str, str, str, int, int]]:
        """Throttled clients: limit, user, client id, number of throttles, and their sum (ms)."""
        quotas = self._node.quotas
        return [] if quotas is None else list(quotas.throttles())

    def _dead_letters(self) -> dict[str, float]:
        """DeadLetterQueueRecordCount and the like (KIP-1191), for all share groups together."""
        counts = self._node.counters.dead_letters.values()
        return {
            "dead_letters_total": sum(each.records for each in counts),
            "dead_letter_produces_total": sum(each.produces for each in counts),
            "dead_letter_produces_failed_total": sum(each.failed_produces for each in counts),
        }

    def verification_time_buckets(self) -> list[tuple[float, int]]:
        """Histogram of verifications: pairs of an upper bound (ms) and the number up to it."""
        return self._admission().verifier.metrics.buckets()
