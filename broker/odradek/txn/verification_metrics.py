"""VerificationTimeMs and VerificationFailureRate as plain numbers (KIP-890, "Metrics").

Kafka shows a histogram and a rate; whoever reads these numbers twice has both.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

__all__ = ["BUCKETS_MS", "VerificationMetrics"]

BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)


class VerificationMetrics:
    """Counts since the broker started."""

    __slots__ = ("counts", "duration_ms_max", "duration_ms_sum", "failures", "verifications")

    def __init__(self) -> None:
        self.verifications = 0
        """Questions that were answered, in whatever way."""
        self.failures = 0
        """Partitions that failed (VerificationFailureRate counts these)."""
        self.duration_ms_sum = 0
        self.duration_ms_max = 0
        self.counts = [0] * (len(BUCKETS_MS) + 1)
        """Answers by how long they took: up to each bound of `BUCKETS_MS`, and beyond the last."""

    def took(self, duration_ms: int) -> None:
        """One question was answered so late."""
        self.duration_ms_sum += duration_ms
        self.duration_ms_max = max(self.duration_ms_max, duration_ms)
        self.counts[bisect_left(BUCKETS_MS, duration_ms)] += 1

    def buckets(self) -> list[tuple[float, int]]:
        """Pairs of an upper bound (ms) and the number of answers that took no longer."""
        return list(zip((*BUCKETS_MS, float("inf")), accumulate(self.counts), strict=True))
