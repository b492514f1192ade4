"""What a request of a session reads besides what it names: Fetch (KIP-227) and ShareFetch (KIP-932) name changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from odradek.data.fetch_sessions import EPOCH_INITIAL
from odradek.host.seams import HasFetchSessions, HasShareSessions
from odradek.share.sessions import INITIAL_EPOCH
from odradek.wire.messages import fetch_request, share_fetch_request
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.fetch_request import FetchRequest
    from odradek.wire.messages.share_fetch_request import ShareFetchRequest

__all__ = ["in_full"]


class Node(HasFetchSessions, HasShareSessions, Protocol):
    """Where the sessions of a broker are."""


def in_full(node: Node, call: Call) -> object:
    """The request as if it named all that its session holds; the request itself where it has no session."""
    adds = _HELD.get(call.api_key)
    held = () if adds is None else adds(node, call)
    request: object = call.request if not held else replace(call.request, topics=[*call.request.topics, *held])
    return request


def _held_by_fetch(node: Node, call: Call) -> Sequence[fetch_request.FetchTopic]:
    request: FetchRequest = call.request
    sessions = node.fetch_sessions
    if request.session_epoch <= EPOCH_INITIAL or not sessions.is_of_a_shard(request.session_id):
        return []
    session = sessions.get(request.session_id)
    if session is None:
        return []
    by_id = session.uses_topic_ids
    said = {
        (topic.topic_id if by_id else topic.topic, each.partition)
        for topic in request.topics
        for each in topic.partitions
    }
    forgotten = {
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    }
    return [
        fetch_request.FetchTopic(
            topic=each.topic,
            topic_id=each.topic_id,
            partitions=[fetch_request.FetchPartition(partition=each.index, fetch_offset=each.fetch_offset)],
        )
        for key, each in session.partitions.items()
        if key not in said and key not in forgotten
    ]


def _held_by_share_fetch(node: Node, call: Call) -> Sequence[share_fetch_request.FetchTopic]:
    request: ShareFetchRequest = call.request
    if request.share_session_epoch <= INITIAL_EPOCH or not node.has_shares:
        return []
    session = node.shares.sessions.get(request.group_id or "", request.member_id or "")
    if session is None:
        return []
    said = {(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions}
    forgotten = {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
    return [
        share_fetch_request.FetchTopic(
            topic_id=topic_id, partitions=[share_fetch_request.FetchPartition(partition_index=index)]
        )
        for topic_id, index in session.partitions
        if (topic_id, index) not in said and (topic_id, index) not in forgotten
    ]


_HELD: Mapping[ApiKey, Callable[[Node, Call], Sequence[object]]] = {
    ApiKey.FETCH: _held_by_fetch,
    ApiKey.SHARE_FETCH: _held_by_share_fetch,
}
