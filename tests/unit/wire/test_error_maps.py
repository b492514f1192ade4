"""Errors as older clients know them."""

import pytest

from odradek.wire.error_maps import (
    GROUP_LOG_ERRORS,
    TRANSACTION_LOG_ERRORS,
    error_of,
    for_client,
    group_log_error,
    transaction_log_error,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey


@pytest.mark.parametrize(
    ("api_key", "last_old"),
    [
        (ApiKey.INIT_PRODUCER_ID, 3),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 1),
        (ApiKey.ADD_OFFSETS_TO_TXN, 1),
        (ApiKey.END_TXN, 1),
    ],
)
def test_producer_fenced_is_news_to_old_clients(api_key: ApiKey, last_old: int) -> None:
    assert ErrorCode.INVALID_PRODUCER_EPOCH is for_client(api_key, last_old, ErrorCode.PRODUCER_FENCED)
    assert ErrorCode.PRODUCER_FENCED is for_client(api_key, last_old + 1, ErrorCode.PRODUCER_FENCED)
    assert ErrorCode.CONCURRENT_TRANSACTIONS is for_client(api_key, 0, ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize(
    ("error", "told"), [(3, 15), (19, 15), (20, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (16, 16), (0, 0)]
)
def test_errors_of_an_append(error: int, told: int) -> None:
    assert told == transaction_log_error(ErrorCode(error))


@pytest.mark.parametrize(
    ("error", "told"), [(3, 15), (19, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (4, -1), (13, 14), (20, 20)]
)
def test_errors_of_an_append_to_the_offsets(error: int, told: int) -> None:
    assert told == group_log_error(ErrorCode(error))


def test_both_coordinators_tell_of_their_logs_alike_where_kafka_does() -> None:
    for error in TRANSACTION_LOG_ERRORS.keys() & GROUP_LOG_ERRORS.keys():
        assert TRANSACTION_LOG_ERRORS[error] is GROUP_LOG_ERRORS[error]


def test_a_code_that_nobody_knows() -> None:
    assert ErrorCode.NOT_COORDINATOR is error_of(16)
    assert ErrorCode.UNKNOWN_SERVER_ERROR is error_of(9999)
