"""Which error whom: one table for each audience of a broker's refusals.

A coordinator whose own log refuses a record tells its client so in the client's terms.
An error that came later than the version of a request is told as one that this version knows.
What a client is told whose partition could not be verified stands in `txn/verification_errors`, by operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = [
    "GROUP_LOG_ERRORS",
    "PRODUCER_FENCED_SINCE",
    "TRANSACTION_LOG_ERRORS",
    "error_of",
    "for_client",
    "group_log_error",
    "transaction_log_error",
]

PRODUCER_FENCED_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 2,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 2,
    }
)
"""The first version of a request that knows PRODUCER_FENCED; those before know INVALID_PRODUCER_EPOCH (KIP-588)."""

_LOG_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

_BY_CODE = {int(error): error for error in ErrorCode}

TRANSACTION_LOG_ERRORS: Mapping[ErrorCode, ErrorCode] = MappingProxyType(
    _LOG_ERRORS | {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
"""Refusals of `__transaction_state`, as a producer is told of them (Kafka's `appendTransactionToLog`)."""

GROUP_LOG_ERRORS: Mapping[ErrorCode, ErrorCode] = MappingProxyType(
    _LOG_ERRORS
    | {
        ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
        # Of a verification (KIP-890): the coordinator of the transaction could not be reached.
        ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Refusals of `__consumer_offsets`, as a member is told of them (Kafka's `CoordinatorOperationExceptionHelper`)."""


def for_client(api_key: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """The error as this version of the request knows it."""
    if error is ErrorCode.PRODUCER_FENCED and version < PRODUCER_FENCED_SINCE[api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def transaction_log_error(error: ErrorCode) -> ErrorCode:
    """The answer to a producer whose record could not be appended to `__transaction_state`."""
    return TRANSACTION_LOG_ERRORS.get(error, error)


def group_log_error(error: ErrorCode) -> ErrorCode:
    """The answer to a member whose record could not be appended to `__consumer_offsets`."""
    return GROUP_LOG_ERRORS.get(error, error)


def error_of(code: int) -> ErrorCode:
    """The error of a code that came from another broker."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
