"""Errors of the logs of coordinators, as their clients are told."""

import pytest

from odradek.wire.error_maps import (
    GROUP_LOG_ERRORS,
    TRANSACTION_LOG_ERRORS,
    error_of,
    group_log_error,
    transaction_log_error,
)
from odradek.wire.errors import ErrorCode


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
