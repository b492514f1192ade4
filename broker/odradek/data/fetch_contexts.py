"""The partitions of a Fetch: those that it names, or those of its session (KIP-227); and its response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.data.fetch_sessions import EPOCH_FINAL, EPOCH_INITIAL, FetchSession, SessionPartition
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.core.turns import Turns
    from odradek.data.fetch_sessions import FetchSessions
    from odradek.host.call import Call
    from odradek.host.metadata import Metadata
    from odradek.wire.messages.fetch_request import FetchRequest
    from odradek.wire.messages.fetch_response import NodeEndpoint

__all__ = ["NO_EPOCH", "SESSIONS_SINCE", "TOPIC_IDS_SINCE", "FetchContext", "FetchContexts", "reads_as"]

SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
NO_EPOCH = -1
NO_REPLICA = -1
Key: TypeAlias = tuple[object, int]
Results: TypeAlias = Sequence[tuple[SessionPartition, PartitionData]]


def reads_as(request: FetchRequest) -> int:
    """The broker id of a follower; negative for a consumer."""
    return max(request.replica_id, request.replica_state.replica_id)


class FetchContexts:
    """Finds the partitions that a Fetch reads, and makes its response; keeps the sessions up to date."""

    def __init__(self, sessions: FetchSessions, metadata: Metadata, clock: Clock, turns: Turns) -> None:
        self._sessions = sessions
        self._metadata = metadata
        self._clock = clock
        self._turns = turns

    async def find(self, call: Call[FetchRequest]) -> FetchContext | ErrorCode:
        """The partitions that a request reads, which updates its session; or the error of the session."""
        request = call.request
        version, sessions = call.version, self._sessions
        asked = await self._asked(call)
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
            # A session without partitions ends; the request is served once more, as without a session.
            sessions.close(session.session_id)
            return FetchContext(list(asked.values()))
        sessions.touch(session, self._clock.now)
        return FetchContext(list(session.partitions.values()), session=session, epoch=session.epoch)

    async def _asked(self, call: Call[FetchRequest]) -> dict[Key, SessionPartition]:
        by_id = call.version >= TOPIC_IDS_SINCE
        image = self._metadata.image
        asked: dict[Key, SessionPartition] = {}
        for topic in call.request.topics:
            if by_id:
                known = image.topic_by_id(topic.topic_id)
                name = "" if known is None else known.name
                named: object = topic.topic_id
            else:
                name = named = topic.topic
            async for some in self._turns.share(call, topic.partitions):
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

    async def answer(
        self, context: FetchContext, call: Call[FetchRequest], results: Results, leaders: Mapping[int, NodeEndpoint]
    ) -> FetchResponse:
        """The response, in the order of the results. A session remembers it, or is opened with it."""
        session = context.session
        if session is not None and session.epoch != context.epoch:
            return _overtaken(session)
        told: list[tuple[SessionPartition, PartitionData]] = []
        async for some in self._turns.share(call, results):
            for wanted, data in some:
                if session is not None and not _is_news(wanted, data):
                    continue
                told.append((wanted, data))
                if session is not None and data.records:
                    _move_to_end(session, wanted)
                if session is not None or context.opens:
                    _remember(wanted, data)
        if context.opens:
            session = self._open(call, told)
        return _response(session, told, leaders)

    def _open(self, call: Call[FetchRequest], told: Results) -> FetchSession | None:
        by_id = call.version >= TOPIC_IDS_SINCE
        partitions: dict[Key, SessionPartition] = {_key(wanted, by_id=by_id): wanted for wanted, _ in told}
        is_followers = reads_as(call.request) >= 0
        return self._sessions.open(partitions, uses_topic_ids=by_id, is_followers=is_followers, now=self._clock.now)


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
    """The partitions that one request reads. With a session the response holds only changes since the last one."""

    partitions: list[SessionPartition]
    session: FetchSession | None = None
    """The session that continues."""
    epoch: int = EPOCH_FINAL
    """Epoch of that session, until another request changes it."""
    opens: bool = False
    """Whether a session begins with the answer."""

    def would_answer(self, results: Results, leaders: Mapping[int, NodeEndpoint]) -> FetchResponse:
        """The response as it would be, to measure it; the session is not changed."""
        if self.session is None:
            return _response(None, results, leaders)
        if self.session.epoch != self.epoch:
            return _overtaken(self.session)
        return _response(self.session, [(wanted, data) for wanted, data in results if _is_news(wanted, data)], leaders)

    def throttled(self, throttle_ms: int) -> FetchResponse:
        """An empty response (KIP-219), which opens no session."""
        session = self.session
        if session is None:
            return FetchResponse(throttle_time_ms=throttle_ms)
        if session.epoch != self.epoch:
            return _overtaken(session, throttle_ms)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.session_id)


def _overtaken(session: FetchSession, throttle_ms: int = 0) -> FetchResponse:
    """The response to a request that waited while another one used its session."""
    error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return FetchResponse(throttle_time_ms=throttle_ms, error_code=error, session_id=session.session_id)


def _response(session: FetchSession | None, told: Results, leaders: Mapping[int, NodeEndpoint]) -> FetchResponse:
    """The response; a topic that comes twice in the results comes twice in it."""
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
    """Whether the partition belongs to this topic, by id if it has one: a request may give ids without names."""
    return topic.topic_id == wanted.topic_id and (any(topic.topic_id) or topic.topic == wanted.topic)


def _is_news(wanted: SessionPartition, data: PartitionData) -> bool:
    """Whether the response of a session must hold this partition."""
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
    """Move a partition that was read to the end, so that the next fetch begins with another one."""
    key = _key(wanted, by_id=session.uses_topic_ids)
    moved = session.partitions.pop(key, None)
    if moved is not None:
        session.partitions[key] = moved


def _key(wanted: SessionPartition, *, by_id: bool) -> Key:
    return (wanted.topic_id if by_id else wanted.topic, wanted.index)
