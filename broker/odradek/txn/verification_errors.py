"""The errors for a client whose partition could not be verified or added: the tables of KIP-890, "Old Clients".

What a request of the leader to the coordinator may do follows from the version the client spoke.
Errors pass two tables: how the leader reads the coordinator's answer, and how the answer is put to this client.
Old clients take most errors that are news to them for fatal, hence NOT_ENOUGH_REPLICAS with a message: they retry that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache, cached_property
from itertools import product
from types import MappingProxyType

from msgspec import Struct

from odradek.wire.error_maps import group_log_error
from odradek.wire.errors import ErrorCode

__all__ = [
    "ERROR_DESCRIPTIONS",
    "NOT_ADDED_MESSAGE",
    "OFFSET_COMMIT_ERRORS",
    "PRODUCE_ERRORS",
    "REQUEST_VERDICTS",
    "SINCE",
    "VERDICTS",
    "ClientError",
    "Since",
    "TransactionOperation",
    "offset_commit_error",
    "offset_commit_operation",
    "produce_operation",
    "retry_add_after",
]


class TransactionOperation(Enum):
    """The question to the coordinator on behalf of a client; it also determines the errors that the client knows."""

    DEFAULT_ERROR = "verify for a client that knows the old errors only"
    GENERIC_ERROR_SUPPORTED = "verify for a client that knows TRANSACTION_ABORTABLE"
    ADD_PARTITION = "add"

    @cached_property
    def verifies_only(self) -> bool:
        """Whether the coordinator adds nothing."""
        return self is not TransactionOperation.ADD_PARTITION


_DEFAULT = TransactionOperation.DEFAULT_ERROR
_GENERIC = TransactionOperation.GENERIC_ERROR_SUPPORTED
_ADD = TransactionOperation.ADD_PARTITION


class Since(Struct, frozen=True, kw_only=True):
    """The first version of each request with a part of KIP-890."""

    end_bumps: int = 5
    """EndTxn bumps the epoch."""
    produce_aborts: int = 11
    """Clients of Produce know TRANSACTION_ABORTABLE."""
    produce_adds: int = 12
    """Produce adds its partitions to the transaction."""
    offsets_abort: int = 4
    """Clients of TxnOffsetCommit know TRANSACTION_ABORTABLE."""
    offsets_add: int = 5
    """TxnOffsetCommit adds the partition of its offsets."""


SINCE = Since()


@cache
def produce_operation(version: int, since: Since = SINCE) -> TransactionOperation:
    """The operation for a Produce of this version."""
    if version >= since.produce_adds:
        return _ADD
    return _GENERIC if version >= since.produce_aborts else _DEFAULT


@cache
def offset_commit_operation(version: int, since: Since = SINCE) -> TransactionOperation:
    """The operation for a TxnOffsetCommit of this version."""
    if version >= since.offsets_add:
        return _ADD
    return _GENERIC if version >= since.offsets_abort else _DEFAULT


VERDICTS: Mapping[tuple[TransactionOperation, ErrorCode], ErrorCode] = MappingProxyType(
    {(operation, ErrorCode.PRODUCER_FENCED): ErrorCode.INVALID_PRODUCER_EPOCH for operation in TransactionOperation}
    | {(_DEFAULT, ErrorCode.TRANSACTION_ABORTABLE): ErrorCode.INVALID_TXN_STATE}
)
"""The coordinator's answers for a partition that the leader reads as something else."""

REQUEST_VERDICTS: Mapping[ErrorCode, ErrorCode] = MappingProxyType(
    # No client is to hear that a broker lacks a right: it has to know only that nothing was verified.
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE}
)
"""The same for the answer to a request as a whole."""


class ClientError(Struct, frozen=True):
    """An error code and the message that goes with it from Produce v8 on."""

    error: ErrorCode
    message: str | None = None


NOT_ADDED_MESSAGE = "Partition was not added to the transaction"
UNVERIFIED_MESSAGE = "Unable to verify the partition has been added to the transaction. Underlying error: {}"

_RETRIED_AS_NOT_ENOUGH_REPLICAS = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def _unverified(error: ErrorCode) -> ClientError:
    return ClientError(ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED_MESSAGE.format(error.name))


PRODUCE_ERRORS: Mapping[tuple[TransactionOperation, ErrorCode], ClientError] = MappingProxyType(
    {
        (operation, error): _unverified(error)
        for operation, error in product(TransactionOperation, _RETRIED_AS_NOT_ENOUGH_REPLICAS)
    }
    # A client that has its partitions added retries CONCURRENT_TRANSACTIONS itself.
    | {
        (operation, ErrorCode.CONCURRENT_TRANSACTIONS): _unverified(ErrorCode.CONCURRENT_TRANSACTIONS)
        for operation in (_DEFAULT, _GENERIC)
    }
    | {
        (operation, ErrorCode.INVALID_TXN_STATE): ClientError(ErrorCode.INVALID_TXN_STATE, NOT_ADDED_MESSAGE)
        for operation in TransactionOperation
    }
)
"""Verdicts that a Produce answers with another error."""

ERROR_DESCRIPTIONS: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
            "The producer attempted to use a producer id which is not currently assigned to its transactional id."
        ),
    }
)
"""Messages that Kafka 3.6 adds to verdicts that a Produce passes on unchanged."""

OFFSET_COMMIT_ERRORS: Mapping[tuple[TransactionOperation, ErrorCode], ErrorCode] = MappingProxyType({})
"""Verdicts that a TxnOffsetCommit maps in another way than errors of the group's log."""

_LOAD_IN_PROGRESS_VERSION = 2


def offset_commit_error(version: int, error: ErrorCode) -> ErrorCode:
    """A verdict, or the error of the append, as the error of a TxnOffsetCommit of this version.

    CONCURRENT_TRANSACTIONS reaches every version.
    """
    mapped = group_log_error(error)
    if mapped is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOAD_IN_PROGRESS_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return mapped


def retry_add_after(
    operation: TransactionOperation,
    failures: Mapping[tuple[str, int], ErrorCode],
    *,
    elapsed_ms: int,
    backoff_ms: int,
    backoff_max_ms: int,
) -> int | None:
    """The delay (ms) before a Produce adds its partitions again; None if the client gets the verdicts.

    While the previous transaction is about to end, the broker waits in the client's place.
    """
    if operation is not _ADD or ErrorCode.CONCURRENT_TRANSACTIONS not in failures.values():
        return None
    return backoff_ms if elapsed_ms < backoff_max_ms else None
