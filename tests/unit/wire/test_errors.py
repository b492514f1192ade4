"""Error codes and what errors say."""

from __future__ import annotations

import pytest

from odradek.wire.errors import DecodeError, EncodeError, ErrorCode, WireError


def test_codes_have_no_gap() -> None:
    assert list(range(-1, 137)) == sorted(ErrorCode)


@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (47, "INVALID_PRODUCER_EPOCH", False),
        (51, "CONCURRENT_TRANSACTIONS", True),
        (120, "TRANSACTION_ABORTABLE", False),
    ],
)
def test_samples(code: int, name: str, *, retriable: bool) -> None:
    assert name == ErrorCode(code).name
    assert retriable == ErrorCode(code).retriable


def test_decode_error_says_where() -> None:
    error = DecodeError("null is not allowed here", field="topics[2].name", offset=17, message="FetchRequest")
    assert "topics[2].name" == error.field
    assert 17 == error.offset
    assert "FetchRequest: topics[2].name at byte 17: null is not allowed here" == str(error)
    assert isinstance(error, WireError)


def test_encode_error_says_where() -> None:
    error = EncodeError("null is not allowed in this version", field="topics", message="FetchRequest")
    assert "FetchRequest: topics: null is not allowed in this version" == str(error)
