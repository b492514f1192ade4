"""Which error whom: one table for each audience of a broker's refusals.

A coordinator whose own log refuses a record tells its client so in the client's terms.
An error that older versions of a request do not know is named at its endpoint (`odradek.host.endpoint.Since`).
What a client is told whose partition could not be verified stands in `txn/verification_errors`, by operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from odradek.wire.errors import ErrorCode

__all__ = [
    "GROUP_LOG_ERRORS",
    "TRANSACTION_LOG_ERRORS",
    "error_of",
    "group_log_error",
    "transaction_log_error",
]

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
"""Append errors of `__transaction_state`, and the errors for producers (Kafka's `appendTransactionToLog`)."""

GROUP_LOG_ERRORS: Mapping[ErrorCode, ErrorCode] = MappingProxyType(
    _LOG_ERRORS
    | {
        ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
        # Errors of a verification (KIP-890): the coordinator of the transaction could not be reached.
        ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Append errors of `__consumer_offsets`, and those for members (Kafka's `CoordinatorOperationExceptionHelper`)."""


def transaction_log_error(error: ErrorCode) -> ErrorCode:
    """The answer to a producer whose record could not be appended to `__transaction_state`."""
    return TRANSACTION_LOG_ERRORS.get(error, error)


def group_log_error(error: ErrorCode) -> ErrorCode:
    """The answer to a member whose record could not be appended to `__consumer_offsets`."""
    return GROUP_LOG_ERRORS.get(error, error)


def error_of(code: int) -> ErrorCode:
    """The error of a code that came from another broker."""
    return _BY_CODE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
