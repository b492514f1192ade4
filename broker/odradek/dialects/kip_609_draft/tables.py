"""KIP-609's draft: a session of partitions that outlasts a transaction, and requests that wait for the one before.

EndTxn 3        PREPARE has the partitions that it names, and those of offsets; the client version says SESSION
markers         tell leaders SESSION, and they ask no more about that producer in that epoch
completion      the next transaction is open at once, in the partitions of the session
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.dialects.tables import Tables
from odradek.log.producers import SESSION
from odradek.txn import transitions
from odradek.txn.checks import Operation
from odradek.txn.entry import Entry, encode_entry
from odradek.txn.partitions import TopicPartition, sorted_partitions
from odradek.txn.rules import Transitions, ValueFormat
from odradek.txn.states import PREPARED, TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.host.router import Call, Serve

__all__ = ["SESSIONS_SINCE", "TABLES", "check", "completed", "ended"]

SESSIONS_SINCE = 3
"""The version of EndTxn that names what was written."""
VALUE_VERSION = 1
"""Values have tagged fields at every level: the client version tells a session, also after a failover."""


class _Topic(Protocol):
    name: str
    partitions: list[int]


class _Named(Protocol):
    """What the draft's EndTxnRequest has beside Kafka's."""

    topics: list[_Topic]


def _told(request: EndTxnRequest) -> Iterable[TopicPartition]:
    for topic in cast("_Named", request).topics:
        if topic.name not in INTERNAL_TOPICS:
            yield from ((topic.name, index) for index in topic.partitions)


def ended(entry: Entry, request: EndTxnRequest, version: int) -> Entry:
    """The prepared entry with what was written, "so that the session gets updated".

    Offsets are written by coordinators, whose partitions no client names: they stay in the session.
    """
    if version < SESSIONS_SINCE:
        return entry
    offsets = [partition for partition in entry.partitions if partition[0] in INTERNAL_TOPICS]
    return replace(entry, partitions=sorted_partitions((*_told(request), *offsets)), client_transaction_version=SESSION)


def completed(entry: Entry, *, now: int) -> Entry:
    """All markers are written; in a session the next transaction is open now, for nobody will say when it begins."""
    done = transitions.completed(entry, now=now)
    if not _keeps_session(entry):
        return done
    return replace(
        done,
        state=TxnState.ONGOING,
        partitions=entry.partitions,
        start_timestamp=now,
        client_transaction_version=0,
        epoch_used=False,
    )


def check(old: Entry | None, new: Entry) -> None:
    """Kafka's assertions, but where a session makes the difference."""
    if old is not None and new.state in PREPARED:
        # What EndTxn names is what is marked, whatever was registered.
        old = replace(old, partitions=new.partitions)
    if old is not None and old.state in PREPARED and new.state is TxnState.ONGOING:
        assert _keeps_session(old)
        assert (old.producer_id, old.producer_epoch) == (new.producer_id, new.producer_epoch)
        assert old.partitions == new.partitions
        return
    transitions.check_transition(old, new)


def _keeps_session(entry: Entry) -> bool:
    return entry.client_transaction_version == SESSION and bool(entry.partitions)


async def end_txn(node: Node, call: Call, serve: Serve) -> EndTxnResponse:
    """Who may not write to a topic ends nothing there either."""
    request: EndTxnRequest = call.request
    authority = node.authority
    if call.version >= SESSIONS_SINCE and authority is not None:
        topics = {topic for topic, _ in _told(request)}
        if not all(authority.allows(call, AclOperation.WRITE, AclResource.TOPIC, topic) for topic in topics):
            return EndTxnResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer: EndTxnResponse = await serve(call)
    return answer


TABLES = Tables(
    # "We propose to make AddPartitionToTxn a blocking call when there is other pending transaction going on."
    waiting={Operation.ADD: True, Operation.ADD_BEFORE_4_0: True},
    transitions=Transitions(ended, completed, check),
    value=ValueFormat(encode=lambda entry, version: encode_entry(entry, VALUE_VERSION)),
    around={ApiKey.END_TXN: end_txn},
)
