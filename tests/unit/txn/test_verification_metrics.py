"""The numbers behind VerificationTimeMs and VerificationFailureRate."""

from odradek.txn.verification import BUCKETS_MS, Verifier
from odradek.txn.verification_errors import TransactionOperation
from odradek.wire.errors import ErrorCode


def test_numbers() -> None:
    verifier = Verifier(request_timeout_ms=100_000)
    for duration_ms, failures in ((0, 0), (2, 3), (3, 0), (60_000, 1)):
        partitions = [("t", index) for index in range(3)]
        verifier.ask(
            coordinator=1,
            transactional_id="x",
            producer_id=1,
            producer_epoch=0,
            partitions=partitions,
            operation=TransactionOperation.GENERIC_ERROR_SUPPORTED,
            now=0,
        )
        [request] = verifier.due(0)
        failed = dict.fromkeys(partitions[:failures], ErrorCode.INVALID_TXN_STATE)
        verifier.decided(request, {"x": dict.fromkeys(partitions, ErrorCode.NONE) | failed}, duration_ms)
    metrics = verifier.metrics
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
