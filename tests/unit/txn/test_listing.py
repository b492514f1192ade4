"""ListTransactions and DescribeTransactions."""

import pytest
from tests.unit.txn.helpers import FIRST_ID, OFFSETS, P, Q, Shard

from odradek.core.machine import Answered, Refused
from odradek.txn.listing import TransactionFilter
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest

X = FIRST_ID


@pytest.fixture
def shard() -> Shard:
    """`a` is empty, `b` open for a second, `bb` open just now."""
    shard = Shard()
    for tid in ("a", "b", "bb"):
        shard.init(tid)
    shard.add((X + 1, 0), P, tid="b")
    shard.after(1000)
    shard.add((X + 2, 0), P, tid="bb")
    return shard


def listed(shard: Shard, request: ListTransactionsRequest) -> list[str]:
    wanted = TransactionFilter.of(request)
    assert isinstance(wanted, TransactionFilter)
    return [state.transactional_id for state in shard.machine.listed(wanted, now=shard.now)]


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, ["a", "b", "bb"]),
        ({"state_filters": ["Ongoing"]}, ["b", "bb"]),
        ({"state_filters": ["Ongoing", "Nonsense"]}, ["b", "bb"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"state_filters": ["Dead"]}, []),
        ({"producer_id_filters": [X, X + 2]}, ["a", "bb"]),
        ({"duration_filter": 0}, ["a", "b"]),
        ({"duration_filter": 999}, ["a", "b"]),
        ({"duration_filter": 1000}, ["a"]),
        ({"duration_filter": -2}, ["a", "b", "bb"]),
        ({"transactional_id_pattern": "b"}, ["b"]),
        ({"transactional_id_pattern": "b+"}, ["b", "bb"]),
        ({"transactional_id_pattern": ""}, ["a", "b", "bb"]),
        # All that is given has to hold (KIP-994, KIP-1152).
        ({"duration_filter": 0, "state_filters": ["Ongoing"]}, ["b"]),
        ({"duration_filter": 0, "transactional_id_pattern": "b+"}, ["b"]),
        ({"duration_filter": 0, "producer_id_filters": [X + 2]}, []),
        ({"transactional_id_pattern": "b+", "producer_id_filters": [X, X + 2]}, ["bb"]),
        ({"transactional_id_pattern": ".*", "state_filters": ["Empty"]}, ["a"]),
    ],
)
def test_filters(shard: Shard, fields: dict[str, object], ids: list[str]) -> None:
    assert ids == listed(shard, ListTransactionsRequest(**fields))  # type: ignore[arg-type]


def test_unknown_state_names_are_reported() -> None:
    wanted = TransactionFilter.of(ListTransactionsRequest(state_filters=["Ongoing", "ongoing", "Dead", "Nonsense"]))
    assert isinstance(wanted, TransactionFilter)
    assert ["ongoing", "Nonsense"] == wanted.unknown_state_filters


def test_a_pattern_that_is_none() -> None:
    refused = TransactionFilter.of(ListTransactionsRequest(transactional_id_pattern="("))
    assert isinstance(refused, Refused)
    assert ErrorCode.INVALID_REGULAR_EXPRESSION is refused.error


def test_describe(shard: Shard) -> None:
    shard.add((X + 1, 0), Q, OFFSETS, tid="b")
    described = shard.machine.describe("b")
    assert isinstance(described, Answered)
    state = described.reply
    assert ("b", "Ongoing", 60_000, shard.now - 1000, X + 1, 0) == (
        state.transactional_id,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        state.producer_id,
        state.producer_epoch,
    )
    assert {"t": [0, 1], "__consumer_offsets": [7]} == {topic.topic: topic.partitions for topic in state.topics}


@pytest.mark.parametrize(("tid", "error"), [("", 42), ("nobody", 105)])
def test_describe_refuses(shard: Shard, tid: str, error: int) -> None:
    refused = shard.machine.describe(tid)
    assert isinstance(refused, Refused)
    assert error == refused.error
