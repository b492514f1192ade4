"""The numbers of a broker, as plain counters; named as Kafka's metrics where Kafka has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.node.node import Node

__all__ = ["Metrics"]


class Metrics:
    """What a test or the `/metrics` page reads; nothing is computed until somebody looks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.markers_written = 0
        self.partition_loads = 0
        self.partition_load_time_ms = 0

    def snapshot(self) -> dict[str, float]:
        """Every number, by name."""
        node = self._node
        verification = node.verification.verifier.metrics
        return {
            "Verifications": float(verification.verifications),
            "VerificationFailures": float(verification.failures),
            "VerificationTimeMsSum": float(verification.duration_ms_sum),
            "VerificationTimeMsMax": float(verification.duration_ms_max),
            "PurgatorySize": float(len(node.purgatory)),
            "ConnectionCount": float(len(node.connections)),
            "PartitionCount": float(len(node.partitions)),
            "LogBytes": float(node.store.bytes_held),
            "PartitionLoads": float(self.partition_loads),
            "PartitionLoadTimeMs": float(self.partition_load_time_ms),
            "MarkersWritten": float(self.markers_written),
            "TransactionsOwingMarkers": float(
                sum(shard.machine.transactions_owing_markers for shard in node.txn_shards())
            ),
        }
