"""DescribeTransactions and ListTransactions of one coordinator partition (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.core.machine import Refused
from odradek.txn.partitions import by_topic
from odradek.txn.states import STATE_NAMES
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import describe_transactions_response, list_transactions_response
from odradek.wire.patterns import InvalidPattern, matcher

if TYPE_CHECKING:
    from odradek.txn.entry import Entry
    from odradek.txn.partitions import TopicPartition
    from odradek.wire.messages.list_transactions_request import ListTransactionsRequest

__all__ = ["TransactionFilter", "described"]


class TransactionFilter:
    """The conditions of a ListTransactions, prepared once for all partitions of a node."""

    def __init__(self, request: ListTransactionsRequest, matches: Callable[[str], bool] | None) -> None:
        self.unknown_state_filters = [name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES]
        # A filter of nothing but unknown names is a filter all the same: nothing passes it.
        self._states = {STATE_NAMES[name] for name in request.state_filters if name in STATE_NAMES}
        self._filters_states = bool(request.state_filters)
        self._producer_ids = set(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._matches = matches

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> TransactionFilter | Refused:
        """The filter of a request, or the refusal of its pattern."""
        pattern = request.transactional_id_pattern
        matches = matcher(pattern) if pattern else None
        if isinstance(matches, InvalidPattern):
            return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
        return cls(request, matches)

    def listed(self, entries: Iterable[Entry], *, now: int) -> Iterator[list_transactions_response.TransactionState]:
        """The matching entries, as the response shows them."""
        for entry in entries:
            if self._passes(entry, now):
                yield list_transactions_response.TransactionState(
                    transactional_id=entry.transactional_id,
                    producer_id=entry.producer_id,
                    transaction_state=entry.state.title,
                )

    def _passes(self, entry: Entry, now: int) -> bool:
        if self._filters_states and entry.state not in self._states:
            return False
        if self._producer_ids and entry.producer_id not in self._producer_ids:
            return False
        # Where no transaction was started the start is -1, so that the id counts as very old.
        if self._duration_ms >= 0 and now - entry.start_timestamp <= self._duration_ms:
            return False
        return self._matches is None or self._matches(entry.transactional_id)


def described(entry: Entry, partitions: Collection[TopicPartition]) -> describe_transactions_response.TransactionState:
    """An entry as DescribeTransactions shows it, with its remaining partitions."""
    return describe_transactions_response.TransactionState(
        transactional_id=entry.transactional_id,
        transaction_state=entry.state.title,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=entry.start_timestamp,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        topics=[
            describe_transactions_response.TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
    )
