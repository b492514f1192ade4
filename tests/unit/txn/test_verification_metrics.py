"""The numbers behind VerificationTimeMs and VerificationFailureRate."""

from odradek.txn.verification_metrics import BUCKETS_MS, VerificationMetrics


def test_numbers() -> None:
    metrics = VerificationMetrics()
    for duration_ms, failures in ((0, 0), (2, 3), (3, 0), (60_000, 1)):
        metrics.record(duration_ms=duration_ms, failures=failures)
    assert (4, 4, 60_005, 60_000) == (
        metrics.verifications,
        metrics.failures,
        metrics.duration_ms_sum,
        metrics.duration_ms_max,
    )
    assert {1: 1, 2: 1, 5: 1} == {
        bound: count for bound, count in zip(BUCKETS_MS, metrics.counts, strict=False) if count
    }
    assert 1 == metrics.counts[-1]
