"""Whether a watch may see everything it judges by.

Kafka leaves out of its lists what a user may not see, without a word: topics of Metadata, and transactions of
ListTransactions. A transaction that is hidden there looks as if no coordinator knew it. So it is asked for by name,
also for a name that nobody has: who may see that one may see all.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_producers_response import DescribeProducersResponse
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.registry import ApiKey
from odradek_pipeline.logs.layout import TRANSACTION_STATE
from odradek_pipeline.watch.brokers import Brokers

__all__ = ["NOBODY", "hides_transactions", "missing_rights"]

NOBODY = "odradek-watch-asks-for-nobody"
"""A name that no topic and no transactional id has."""


def missing_rights(brokers: Brokers, topics: Iterable[str] = ()) -> list[str]:
    """The rights that this user lacks, in the words of ACLs; `topics` empty means all."""
    wanted = sorted(topics)
    names = [TRANSACTION_STATE, *(wanted or [NOBODY])]
    # Topics are refused before anything else is looked at, so any broker can say it of any topic.
    request = DescribeProducersRequest([TopicRequest(name, [0]) for name in names])
    said = brokers.ask_any(request, ApiKey.DESCRIBE_PRODUCERS, DescribeProducersResponse)
    refused = {
        topic.name
        for topic in (said.topics if said is not None else ())
        for one in topic.partitions
        if one.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    missing = []
    if NOBODY in refused:
        missing.append("READ on all topics (or name those to watch with --topic)")
    missing += [f"READ on topic {name}" for name in names if name in refused and name != NOBODY]
    if hides_transactions(brokers):
        missing.append("DESCRIBE on all transactional ids")
    return missing


def hides_transactions(brokers: Brokers) -> bool:
    """Whether coordinators leave out transactions that this user may not see."""
    request = DescribeTransactionsRequest([NOBODY])
    said = brokers.ask_any(request, ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsResponse)
    states = said.transaction_states if said is not None else ()
    return any(one.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one in states)
