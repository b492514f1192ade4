"""Incremental fetch sessions (KIP-227): the partitions of a reader, with their state in the last response.

As in Kafka since 3.7 they lie in shards (KAFKA-9401). Each shard has its part of the slots and its own range of session
ids. New sessions go to the shards in turn, even if a shard has no room: with fewer slots than shards no session is ever
opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.clock import Rng
    from odradek.wire.messages.fetch_request import FetchRequest

__all__ = ["FetchSession", "FetchSessions", "SessionPartition", "next_epoch"]

EVICTION_MS = 120_000
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
_ID_MAX = 2**31 - 1


class SessionPartition(Struct):
    """One partition of a session: the requested position, and the state in the last response."""

    topic: str
    """Empty for an unknown topic id. A name that was found once stays, even if another topic gets it (KIP-516)."""
    topic_id: bytes
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int = -1
    """Epoch of the batch before `fetch_offset`: a reader of a truncated log gets the diverging epoch (KIP-595)."""
    told_high_watermark: int = -1
    told_last_stable_offset: int = -1
    told_log_start_offset: int = -1
    told_error: bool = False


class FetchSession(Struct):
    """A session between one consumer or follower and this broker."""

    session_id: int
    epoch: int
    uses_topic_ids: bool
    partitions: dict[tuple[object, int], SessionPartition]
    last_used: int
    created: int
    is_followers: bool = False
    size: int = 0
    """Number of partitions at its last use."""

    @property
    def is_old(self) -> bool:
        """Whether it was used longer than the time in which no other session may take its place."""
        return self.last_used - self.created > EVICTION_MS


class _Shard:
    """A part of the cache: at most `slots` sessions, with ids from `first` to `last`."""

    def __init__(self, slots: int, first: int, last: int) -> None:
        self.slots = slots
        self.ids = (first, last)
        self.sessions: dict[int, FetchSession] = {}
        """Sessions by id, in the order of their last use."""

    def make_room(self, size: int, now: int, *, for_follower: bool) -> bool:
        """Find a slot for a session with `size` partitions, and evict another one if needed; False if there is none."""
        if len(self.sessions) < self.slots:
            return True
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.last_used > EVICTION_MS:
            del self.sessions[oldest.session_id]
            return True
        worth = (for_follower, size, 0)
        evictable = [each for each in self.sessions.values() if each.is_old or (for_follower and not each.is_followers)]
        least = min(evictable, key=_worth, default=None)
        if least is None or worth < _worth(least):
            return False
        del self.sessions[least.session_id]
        return True


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    """Priority of a session against eviction."""
    return session.is_followers, session.size, session.session_id


class FetchSessions:
    """The sessions of a broker, at most `slots` of them in all shards together."""

    def __init__(self, slots: int, rng: Rng, *, shards: int) -> None:
        self._rng = rng
        self._ids_per_shard = ids = _ID_MAX // shards
        self._shards = [_Shard(slots // shards, max(1, n * ids), (n + 1) * ids - 1) for n in range(shards)]
        self._opened = 0
        """Number of sessions that were requested so far."""

    def __len__(self) -> int:
        return sum(len(shard.sessions) for shard in self._shards)

    def is_of_a_shard(self, session_id: int) -> bool:
        """Whether a shard has this id in its range; Kafka fails to look up any other id."""
        return 0 <= self._number(session_id) < len(self._shards)

    def get(self, session_id: int) -> FetchSession | None:
        return self._shard(session_id).sessions.get(session_id)

    def in_full(self, request: FetchRequest) -> FetchRequest:
        """The request as if it named all partitions of its session; the request itself if the session adds none."""
        from odradek.wire.messages.fetch_request import FetchPartition, FetchTopic  # only rules ask

        session = self.get(request.session_id) if self.is_of_a_shard(request.session_id) else None
        if session is None or request.session_epoch <= EPOCH_INITIAL:
            return request
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
        held = [
            FetchTopic(
                topic=each.topic,
                topic_id=each.topic_id,
                partitions=[FetchPartition(partition=each.index, fetch_offset=each.fetch_offset)],
            )
            for key, each in session.partitions.items()
            if key not in said and key not in forgotten
        ]
        return replace(request, topics=[*request.topics, *held]) if held else request

    def expect(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        """The session of a request, or the error."""
        session = self.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return session if session.uses_topic_ids == uses_topic_ids else ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def open(
        self,
        partitions: dict[tuple[object, int], SessionPartition],
        *,
        uses_topic_ids: bool,
        is_followers: bool,
        now: int,
    ) -> FetchSession | None:
        """A new session in the next shard; None if that has no slot."""
        shard = self._shards[self._opened % len(self._shards)]
        self._opened += 1
        if not shard.make_room(len(partitions), now, for_follower=is_followers):
            return None
        session_id = self._rng.randint(*shard.ids)
        while session_id in shard.sessions:
            session_id = self._rng.randint(*shard.ids)
        session = FetchSession(session_id, 1, uses_topic_ids, partitions, now, now, is_followers, len(partitions))
        shard.sessions[session_id] = session
        return session

    def touch(self, session: FetchSession, now: int) -> None:
        """Note that it was used now, with its present epoch."""
        session.last_used = now
        session.epoch = next_epoch(session.epoch)
        session.size = len(session.partitions)
        sessions = self._shard(session.session_id).sessions
        # Insertion order is order of use: the first session is the one to evict.
        del sessions[session.session_id]
        sessions[session.session_id] = session

    def close(self, session_id: int) -> None:
        self._shard(session_id).sessions.pop(session_id, None)

    def _shard(self, session_id: int) -> _Shard:
        return self._shards[self._number(session_id)]

    def _number(self, session_id: int) -> int:
        """The shard of an id; as in Java the quotient is truncated, so that small negative ids belong to the first."""
        if len(self._shards) == 1:
            return 0
        number = abs(session_id) // self._ids_per_shard
        return number if session_id > 0 else -number


def next_epoch(epoch: int) -> int:
    return 1 if epoch == _ID_MAX else epoch + 1
