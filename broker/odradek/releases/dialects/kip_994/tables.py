"""KIP-994: the time of the last change of each described transaction, for clients of DescribeTransactions v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from odradek.core.machine import Refused
from odradek.host.overlay import overlay
from odradek.wire.messages.apis import DESCRIBE_TRANSACTIONS

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.host.call import Call, Serve
    from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
    from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse

__all__ = ["described"]

LAST_UPDATES_SINCE = 1


class _Told(Protocol):
    """The field of the text in addition to Kafka's.

    A Protocol: the class is generated from a schema when the dialect is loaded.
    """

    transaction_last_update_time_ms: int


@overlay(DESCRIBE_TRANSACTIONS, since=LAST_UPDATES_SINCE)
async def described(
    node: Node,
    call: Call[DescribeTransactionsRequest],
    serve: Serve[DescribeTransactionsRequest, DescribeTransactionsResponse],
) -> DescribeTransactionsResponse:
    """Tell the time of the last change, whatever the state; a transaction that is refused has none."""
    answer = node.codecs.own(await serve(call))
    for state in answer.transaction_states:
        shard = None if state.error_code else node.transaction_coordinators.of(state.transactional_id)
        entry = None if shard is None or isinstance(shard, Refused) else shard.machine.entry(state.transactional_id)
        if entry is not None:
            cast("_Told", state).transaction_last_update_time_ms = entry.last_update_timestamp
    return answer
