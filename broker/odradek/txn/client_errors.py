"""Which error a client of an older version gets, and what a failed append of the coordinator's own log is called.

PRODUCER_FENCED came after the first versions of these requests: they know INVALID_PRODUCER_EPOCH only (KIP-588).
"""

from __future__ import annotations

from types import MappingProxyType

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["APPEND_ERRORS", "FIRST_VERSION_WITH_PRODUCER_FENCED", "append_error", "error_of", "for_client"]

FIRST_VERSION_WITH_PRODUCER_FENCED = MappingProxyType(
    {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 2,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 2,
    }
)

APPEND_ERRORS = MappingProxyType(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors of an append to `__transaction_state`, as its client is told (Kafka's `appendTransactionToLog`)."""


def for_client(api_key: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """The error as this version of the request knows it."""
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED[api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def append_error(error: ErrorCode) -> ErrorCode:
    """The answer to a client whose record could not be appended."""
    return APPEND_ERRORS.get(error, error)


def error_of(code: int) -> ErrorCode:
    """The error of a code that came from another broker."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
