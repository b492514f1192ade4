"""Sessions of ShareFetch (KIP-932): which partitions a member reads from, from one request to the next.

A session is a member's at one broker. Its epoch counts the requests: 0 begins it, -1 ends it.
"""

from __future__ import annotations

from msgspec import Struct

from odradek.wire.errors import ErrorCode

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "ShareSession", "ShareSessions"]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

TopicPartition = tuple[bytes, int]


class ShareSession(Struct):
    """The partitions by topic id and index, in the order in which they came."""

    group_id: str
    member_id: str
    connection: object
    """Over which it began: it ends with it."""
    epoch: int = 1
    partitions: dict[TopicPartition, None] = {}
    untold: set[TopicPartition] = set()
    """Partitions that no answer has told of yet: the next one does, whether there are records or not."""

    def add(self, partition: TopicPartition) -> None:
        """Fetch from this partition, too."""
        if partition not in self.partitions:
            self.partitions[partition] = None
            self.untold.add(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Fetch from this partition no more."""
        self.partitions.pop(partition, None)
        self.untold.discard(partition)

    def rotated(self) -> list[TopicPartition]:
        """The partitions, each first in its turn: none starves behind the others."""
        every = list(self.partitions)
        turn = self.epoch % len(every) if every else 0
        return every[turn:] + every[:turn]


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._begun: dict[object, set[str]] = {}
        """The groups of the sessions that ever began over a connection."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, connection: object, *, at_most: int) -> ShareSession | ErrorCode:
        """Begin a session; one that the member had is forgotten."""
        key = group_id, member_id
        if key not in self._sessions and len(self._sessions) >= at_most:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(group_id, member_id, connection)
        self._begun.setdefault(connection, set()).add(group_id)
        return session

    def find(self, group_id: str, member_id: str, epoch: int) -> ShareSession | ErrorCode:
        """The session of a request, whose next epoch is counted; the last request may have any."""
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
        """The session is over, unless another one has taken its place."""
        key = session.group_id, session.member_id
        if self._sessions.get(key) is session:
            del self._sessions[key]

    def of_connection(self, connection: object) -> list[ShareSession]:
        """The sessions that began over this connection."""
        return [each for each in self._sessions.values() if each.connection is connection]

    def forget(self, connection: object) -> list[str]:
        """The connection is gone: the groups it had sessions of, in order."""
        return sorted(self._begun.pop(connection, ()))

    def has_any(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(each == group_id for each, _ in self._sessions)
