"""What a Fetch reads: the partitions that it names, or those of its session (KIP-227); and what of them is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from odradek.data.fetch_sessions import EPOCH_FINAL, EPOCH_INITIAL, FetchSession, SessionPartition
from odradek.host.seams import HasClock, HasFetchSessions, HasMetadata, HasTurns
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.fetch_request import FetchRequest
    from odradek.wire.messages.fetch_response import NodeEndpoint

__all__ = ["NO_EPOCH", "SESSIONS_SINCE", "TOPIC_IDS_SINCE", "FetchContext", "find_context", "reads_as"]

SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
NO_EPOCH = -1
NO_REPLICA = -1
Key: TypeAlias = tuple[object, int]
Results: TypeAlias = Sequence[tuple[SessionPartition, PartitionData]]


class Node(HasClock, HasFetchSessions, HasMetadata, HasTurns, Protocol):
    """What the sessions of a Fetch touch of their broker."""


def reads_as(request: FetchRequest) -> int:
    """The broker that a follower says it is; negative for a consumer."""
    return max(request.replica_id, request.replica_state.replica_id)


async def find_context(node: Node, call: Call) -> FetchContext | ErrorCode:
    """What a request reads, which changes its session; or why it has no session."""
    request: FetchRequest = call.request
    version, sessions = call.version, node.fetch_sessions
    asked = await _asked(node, request, call)
    if version < SESSIONS_SINCE:
        return FetchContext(list(asked.values()))
    if request.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
        sessions.close(request.session_id)
        return FetchContext(list(asked.values()), opens=request.session_epoch == EPOCH_INITIAL)
    by_id = version >= TOPIC_IDS_SINCE
    session = sessions.expect(request.session_id, request.session_epoch, uses_topic_ids=by_id)
    if isinstance(session, ErrorCode):
        return session
    _update(session, request, asked, by_id=by_id)
    if not session.partitions:
        # A session that has nothing left is over; what was asked is read once more, as without one.
        sessions.close(session.session_id)
        return FetchContext(list(asked.values()))
    sessions.touch(session, node.now)
    return FetchContext(list(session.partitions.values()), session=session, epoch=session.epoch)


async def _asked(node: Node, request: FetchRequest, call: Call) -> dict[Key, SessionPartition]:
    by_id = call.version >= TOPIC_IDS_SINCE
    image = node.image
    asked: dict[Key, SessionPartition] = {}
    for topic in request.topics:
        if by_id:
            known = image.topic_by_id(topic.topic_id)
            name = "" if known is None else known.name
            named: object = topic.topic_id
        else:
            name = named = topic.topic
        async for some in node.turns.share(call, topic.partitions):
            for partition in some:
                asked[named, partition.partition] = SessionPartition(
                    name,
                    topic.topic_id,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    max(NO_EPOCH, partition.current_leader_epoch),
                    max(NO_EPOCH, partition.last_fetched_epoch),
                )
    return asked


def _update(session: FetchSession, request: FetchRequest, asked: dict[Key, SessionPartition], *, by_id: bool) -> None:
    known = session.partitions
    for key, partition in asked.items():
        before = known.get(key)
        if before is None:
            known[key] = partition
            continue
        before.fetch_offset = partition.fetch_offset
        before.max_bytes = partition.max_bytes
        before.current_leader_epoch = partition.current_leader_epoch
        before.last_fetched_epoch = partition.last_fetched_epoch
    for topic in request.forgotten_topics_data:
        named: object = topic.topic_id if by_id else topic.topic
        for index in topic.partitions:
            known.pop((named, index), None)


class FetchContext(Struct):
    """What one request reads, and how it is answered: in full, or what has changed since the session's last answer."""

    partitions: list[SessionPartition]
    session: FetchSession | None = None
    """The session that goes on."""
    epoch: int = EPOCH_FINAL
    """Of that session, while no other request has changed it."""
    opens: bool = False
    """Whether a session begins with the answer."""

    async def answer(
        self, node: Node, call: Call, results: Results, leaders: Mapping[int, NodeEndpoint]
    ) -> FetchResponse:
        """In the order of the results; a session that goes on remembers what is told, one that begins is opened."""
        session = self.session
        if session is not None and session.epoch != self.epoch:
            return _overtaken(session)
        told: list[tuple[SessionPartition, PartitionData]] = []
        async for some in node.turns.share(call, results):
            for wanted, data in some:
                if session is not None and not _is_news(wanted, data):
                    continue
                told.append((wanted, data))
                if session is not None and data.records:
                    _move_to_end(session, wanted)
                if session is not None or self.opens:
                    _remember(wanted, data)
        if self.opens:
            session = self._open(node, call, told)
        return _response(session, told, leaders)

    def _open(self, node: Node, call: Call, told: Results) -> FetchSession | None:
        by_id = call.version >= TOPIC_IDS_SINCE
        partitions: dict[Key, SessionPartition] = {_key(wanted, by_id=by_id): wanted for wanted, _ in told}
        is_followers = reads_as(call.request) >= 0
        return node.fetch_sessions.open(partitions, uses_topic_ids=by_id, is_followers=is_followers, now=node.now)

    def would_answer(self, results: Results, leaders: Mapping[int, NodeEndpoint]) -> FetchResponse:
        """The answer as it would be, for its size: the session does not hear of it."""
        if self.session is None:
            return _response(None, results, leaders)
        if self.session.epoch != self.epoch:
            return _overtaken(self.session)
        return _response(self.session, [(wanted, data) for wanted, data in results if _is_news(wanted, data)], leaders)

    def throttled(self, throttle_ms: int) -> FetchResponse:
        """An empty answer (KIP-219); a session that would begin does not."""
        session = self.session
        if session is None:
            return FetchResponse(throttle_time_ms=throttle_ms)
        if session.epoch != self.epoch:
            return _overtaken(session, throttle_ms)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.session_id)


def _overtaken(session: FetchSession, throttle_ms: int = 0) -> FetchResponse:
    """The answer to a request that waited, while the session went on with another one."""
    error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return FetchResponse(throttle_time_ms=throttle_ms, error_code=error, session_id=session.session_id)


def _response(session: FetchSession | None, told: Results, leaders: Mapping[int, NodeEndpoint]) -> FetchResponse:
    """A topic that comes twice in the results comes twice in the answer."""
    topics: list[FetchableTopicResponse] = []
    for wanted, data in told:
        if not topics or not _is_of(topics[-1], wanted):
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
        topics[-1].partitions.append(data)
    return FetchResponse(
        session_id=0 if session is None else session.session_id,
        responses=topics,
        node_endpoints=list(leaders.values()),
    )


def _is_of(topic: FetchableTopicResponse, wanted: SessionPartition) -> bool:
    """Whether the partition is of this topic, by its id where it has one: some may have been named without a name."""
    return topic.topic_id == wanted.topic_id and (any(topic.topic_id) or topic.topic == wanted.topic)


def _is_news(wanted: SessionPartition, data: PartitionData) -> bool:
    """Whether the answer of a session that goes on names this partition."""
    return (
        data.error_code != ErrorCode.NONE
        or wanted.told_error
        or data.diverging_epoch.epoch != NO_EPOCH
        or data.preferred_read_replica != NO_REPLICA
        or bool(data.records)
        or data.high_watermark != wanted.told_high_watermark
        or data.last_stable_offset != wanted.told_last_stable_offset
        or data.log_start_offset != wanted.told_log_start_offset
    )


def _remember(wanted: SessionPartition, data: PartitionData) -> None:
    wanted.told_high_watermark = data.high_watermark
    wanted.told_last_stable_offset = data.last_stable_offset
    wanted.told_log_start_offset = data.log_start_offset
    wanted.told_error = data.error_code != ErrorCode.NONE


def _move_to_end(session: FetchSession, wanted: SessionPartition) -> None:
    """A partition that was served moves to the end of the round, so that the next fetch begins with another one."""
    key = _key(wanted, by_id=session.uses_topic_ids)
    moved = session.partitions.pop(key, None)
    if moved is not None:
        session.partitions[key] = moved


def _key(wanted: SessionPartition, *, by_id: bool) -> Key:
    return (wanted.topic_id if by_id else wanted.topic, wanted.index)
