"""KIP-609's draft: a session of partitions that outlasts a transaction, and requests that wait for the previous one.

- EndTxn 3: PREPARE has the partitions of the request, and those of offsets; the client version is SESSION.
- Markers carry SESSION to the leaders, which stop verifying that producer in that epoch.
- At the completion the next transaction is open at once, in the partitions of the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.host.call import Call, Serve
from odradek.host.overlay import overlay
from odradek.log.producers import SESSION
from odradek.releases.dialects.tables import Tables
from odradek.txn import transitions
from odradek.txn.checks import Operation
from odradek.txn.decision_tables import Transitions, ValueFormat
from odradek.txn.entry import Entry, encode_entry
from odradek.txn.partitions import TopicPartition, sorted_partitions
from odradek.txn.states import PREPARED, TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import END_TXN
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse

if TYPE_CHECKING:
    from odradek.broker import Node

__all__ = ["SESSIONS_SINCE", "TABLES", "check", "completed", "ended"]

SESSIONS_SINCE = 3
"""The version of EndTxn with the written partitions."""
VALUE_VERSION = 1
"""Values have tagged fields at every level: the client version marks a session, also after a failover."""


class _Topic(Protocol):
    """A topic of it. A Protocol: the class is generated from a schema when the dialect is loaded."""

    name: str
    partitions: list[int]


class _Named(Protocol):
    """The fields of the draft's EndTxnRequest in addition to Kafka's.

    A Protocol: the class is generated from a schema when the dialect is loaded.
    """

    topics: list[_Topic]


def _told(request: EndTxnRequest) -> Iterable[TopicPartition]:
    for topic in cast("_Named", request).topics:
        if topic.name not in INTERNAL_TOPICS:
            yield from ((topic.name, index) for index in topic.partitions)


def ended(entry: Entry, request: EndTxnRequest, version: int) -> Entry:
    """The prepared entry with the written partitions, "so that the session gets updated".

    Partitions of offsets stay in the session: coordinators write them, and clients do not name them.
    """
    if version < SESSIONS_SINCE:
        return entry
    offsets = [partition for partition in entry.partitions if partition[0] in INTERNAL_TOPICS]
    return replace(entry, partitions=sorted_partitions((*_told(request), *offsets)), client_transaction_version=SESSION)


def completed(entry: Entry, now: int) -> Entry:
    """All markers are written. In a session the next transaction is open now, for no request will open it."""
    done = transitions.completed(entry, now)
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
    """Kafka's assertions, except where a session makes a difference."""
    if old is not None and new.state in PREPARED:
        # Markers go to the partitions that EndTxn names, whichever were registered.
        old = replace(old, partitions=new.partitions)
    if old is not None and old.state in PREPARED and new.state is TxnState.ONGOING:
        assert _keeps_session(old)
        assert (old.producer_id, old.producer_epoch) == (new.producer_id, new.producer_epoch)
        assert old.partitions == new.partitions
        return
    transitions.check_transition(old, new)


def _keeps_session(entry: Entry) -> bool:
    return entry.client_transaction_version == SESSION and bool(entry.partitions)


@overlay(END_TXN, since=SESSIONS_SINCE)
async def end_txn(node: Node, call: Call[EndTxnRequest], serve: Serve[EndTxnRequest, EndTxnResponse]) -> EndTxnResponse:
    """Ending a transaction in a topic needs WRITE on it, as writing does."""
    authority = node.authority
    if authority is not None:
        topics = {topic for topic, _ in _told(call.request)}
        if not all(authority.allows(call, AclOperation.WRITE, AclResource.TOPIC, topic) for topic in topics):
            return EndTxnResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await serve(call)


TABLES = Tables(
    # "We propose to make AddPartitionToTxn a blocking call when there is other pending transaction going on."
    waiting={Operation.ADD: True, Operation.ADD_BEFORE_4_0: True},
    transitions=Transitions(ended, completed, check),
    value=ValueFormat(encode=lambda entry, version: encode_entry(entry, VALUE_VERSION)),
)
