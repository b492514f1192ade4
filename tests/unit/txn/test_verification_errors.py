"""The error tables of KIP-890 for old clients: every row."""

import pytest

from odradek.txn.decision_tables import SHIPPED
from odradek.txn.verification_errors import (
    ClientError,
    TransactionOperation,
    offset_commit_error,
    offset_commit_operation,
    produce_operation,
    retry_add_after,
)
from odradek.wire.errors import ErrorCode

DEFAULT, GENERIC, ADD = TransactionOperation
UNABLE = "Unable to verify the partition has been added to the transaction. Underlying error: "
NOT_ADDED = "Partition was not added to the transaction"


@pytest.mark.parametrize(
    ("versions", "operation"), [(range(11), DEFAULT), (range(11, 12), GENERIC), (range(12, 14), ADD)]
)
def test_operation_of_produce(versions: range, operation: TransactionOperation) -> None:
    assert {operation} == {produce_operation(version) for version in versions}


@pytest.mark.parametrize(("versions", "operation"), [(range(4), DEFAULT), (range(4, 5), GENERIC), (range(5, 7), ADD)])
def test_operation_of_txn_offset_commit(versions: range, operation: TransactionOperation) -> None:
    assert {operation} == {offset_commit_operation(version) for version in versions}


def test_only_the_newest_have_partitions_added() -> None:
    assert [True, True, False] == [operation.verifies_only for operation in TransactionOperation]


# coordinator's error; code and message for each of Produce up to v10, v11, v12 and later
PRODUCE = [
    (90, (47, None), (47, None), (47, None)),
    (120, (48, NOT_ADDED), (120, None), (120, None)),
    (51, (19, UNABLE + "CONCURRENT_TRANSACTIONS"), (19, UNABLE + "CONCURRENT_TRANSACTIONS"), (51, None)),
    *((code, *[(19, UNABLE + ErrorCode(code).name)] * 3) for code in (13, 14, 15, 16)),
    (49, (49, None), (49, None), (49, None)),
    (3, (3, None), (3, None), (3, None)),
    (55, (55, None), (55, None), (55, None)),
]


@pytest.mark.parametrize(("coordinator", "default", "generic", "add"), PRODUCE)
def test_produce(coordinator: int, default: tuple[int, str], generic: tuple[int, str], add: tuple[int, str]) -> None:
    for operation, (code, message) in zip(TransactionOperation, (default, generic, add), strict=True):
        told = SHIPPED.produce_error(operation, SHIPPED.verdict(operation, ErrorCode(coordinator)))
        assert ClientError(ErrorCode(code), message) == told


@pytest.mark.parametrize("operation", TransactionOperation)
@pytest.mark.parametrize(("code", "told"), [(31, (48, NOT_ADDED)), (35, (35, None)), (-1, (-1, None))])
def test_produce_when_the_request_as_a_whole_fails(
    operation: TransactionOperation, code: int, told: tuple[int, str]
) -> None:
    assert ClientError(ErrorCode(told[0]), told[1]) == SHIPPED.produce_error(
        operation, SHIPPED.request_verdict(ErrorCode(code))
    )


# coordinator's error; code for each of TxnOffsetCommit v0-1, v2-3, v4, v5-6
OFFSET_COMMIT = [
    (90, 47, 47, 47, 47),
    (120, 48, 48, 120, 120),
    (49, 49, 49, 49, 49),
    (51, 51, 51, 51, 51),
    (13, 15, 14, 14, 14),
    (14, 15, 14, 14, 14),
    (15, 15, 15, 15, 15),
    (16, 16, 16, 16, 16),
    (3, 15, 15, 15, 15),
    (19, 15, 15, 15, 15),
    (7, 15, 15, 15, 15),
    (6, 16, 16, 16, 16),
    (56, 16, 16, 16, 16),
    (10, -1, -1, -1, -1),
    (18, -1, -1, -1, -1),
    (4, -1, -1, -1, -1),
]


@pytest.mark.parametrize(("coordinator", "expected"), [(row[0], row[1:]) for row in OFFSET_COMMIT])
def test_txn_offset_commit(coordinator: int, expected: tuple[int, ...]) -> None:
    versions = ((0, 1), (2, 3), (4,), (5, 6))
    for code, group in zip(expected, versions, strict=True):
        for version in group:
            read = SHIPPED.verdict(offset_commit_operation(version), ErrorCode(coordinator))
            assert code == offset_commit_error(version, read)


def test_a_produce_that_adds_waits_for_the_transaction_before() -> None:
    failures = {("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER, ("t", 1): ErrorCode.CONCURRENT_TRANSACTIONS}

    def wait(operation: TransactionOperation, elapsed_ms: int) -> int | None:
        return retry_add_after(operation, failures, elapsed_ms=elapsed_ms, backoff_ms=20, backoff_max_ms=100)

    assert [20, 20, None] == [wait(ADD, 0), wait(ADD, 99), wait(ADD, 100)]
    assert [None, None] == [wait(DEFAULT, 0), wait(GENERIC, 0)]
    assert retry_add_after(ADD, {}, elapsed_ms=0, backoff_ms=20, backoff_max_ms=100) is None
