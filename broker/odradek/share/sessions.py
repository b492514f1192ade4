"""Sessions of ShareFetch (KIP-932): they keep the partitions of a member from one request to the next.

A member has one session at each broker. Its epoch counts the requests: 0 begins it, -1 ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.wire.messages.share_fetch_request import ShareFetchRequest

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "ShareSession", "ShareSessions", "SharedPartition"]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

TopicPartition = tuple[bytes, int]


class SharedPartition(Struct):
    """A partition of a session."""

    topic: str
    """The name of its topic when it came into the session, which never changes; empty if the id was unknown."""
    is_due: bool = False
    """Whether the next response must hold it: it is new, or had an error in the last one."""


class ShareSession(Struct):
    """The partitions by topic id and index, in the order in which they were added or served."""

    group_id: str
    member_id: str
    epoch: int = 1
    partitions: dict[TopicPartition, SharedPartition] = {}

    def served(self, told: Iterable[TopicPartition]) -> None:
        """Move partitions whose records were sent behind the others."""
        for topic_partition in told:
            partition = self.partitions.pop(topic_partition, None)
            if partition is not None:
                self.partitions[topic_partition] = partition


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._begun: dict[object, ShareSession] = {}
        """The last session of each connection, which ends with it; as in Kafka an earlier one does not."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def in_full(self, request: ShareFetchRequest) -> ShareFetchRequest:
        """The request as if it named all partitions of its session; the request itself if the session adds none."""
        from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic  # only rules ask

        session = self.get(request.group_id or "", request.member_id or "")
        if session is None or request.share_session_epoch <= INITIAL_EPOCH:
            return request
        said = {(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions}
        said |= {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
        held = [
            FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=index)])
            for topic_id, index in session.partitions
            if (topic_id, index) not in said
        ]
        return replace(request, topics=[*request.topics, *held]) if held else request

    def open(self, group_id: str, member_id: str, connection: object, *, at_most: int) -> ShareSession | ErrorCode:
        """Begin a session, in place of the member's old one."""
        key = group_id, member_id
        if key not in self._sessions and len(self._sessions) >= at_most:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(group_id, member_id)
        self._begun[connection] = session
        return session

    def find(self, group_id: str, member_id: str, epoch: int) -> ShareSession | ErrorCode:
        """The session of a request, which increments its epoch; the final request may have any epoch."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        return session

    def close(self, session: ShareSession) -> None:
        """End a session, unless another one has replaced it."""
        key = session.group_id, session.member_id
        if self._sessions.get(key) is session:
            del self._sessions[key]

    def disconnected(self, connection: object) -> tuple[ShareSession, bool] | None:
        """End the last session of a lost connection; returns it, and whether it had ended before."""
        session = self._begun.pop(connection, None)
        if session is None:
            return None
        is_over = self.get(session.group_id, session.member_id) is not session
        self.close(session)
        return session, is_over

    def has_any(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(each == group_id for each, _ in self._sessions)
