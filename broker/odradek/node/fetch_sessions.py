"""Incremental fetch sessions (KIP-227): what a consumer reads, and what it was told last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from odradek.node.rng import Rng

__all__ = ["FetchSession", "FetchSessions", "SessionPartition"]

EVICTION_MS = 120_000
EPOCH_INITIAL = 0
EPOCH_FINAL = -1


class SessionPartition(Struct):
    """One partition of a session: the position asked for, and the state last told."""

    topic: str
    topic_id: bytes
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int = -1
    """Of the batch before `fetch_offset`: who has read what is no longer so is told where the two part (KIP-595)."""
    told_high_watermark: int = -1
    told_last_stable_offset: int = -1
    told_log_start_offset: int = -1
    told_error: bool = False


class FetchSession(Struct):
    """A session between one consumer and this broker."""

    session_id: int
    epoch: int
    uses_topic_ids: bool
    partitions: dict[tuple[object, int], SessionPartition]
    last_used: int


class FetchSessions:
    """The sessions of a broker, at most `slots` of them."""

    def __init__(self, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """A known session."""
        return self._sessions.get(session_id)

    def open(
        self, partitions: dict[tuple[object, int], SessionPartition], *, uses_topic_ids: bool, now: int
    ) -> FetchSession | None:
        """A new session, or None where the cache is full of sessions in use."""
        if len(self._sessions) >= self._slots and not self._evict(now):
            return None
        session_id = self._rng.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, 2**31 - 1)
        session = FetchSession(session_id, 1, uses_topic_ids, partitions, now)
        self._sessions[session_id] = session
        return session

    def touch(self, session: FetchSession, now: int) -> None:
        """It was used now, with its present epoch."""
        session.last_used = now
        session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        # Insertion order is order of use: the first session is the one to evict.
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session

    def close(self, session_id: int) -> None:
        """It is over."""
        self._sessions.pop(session_id, None)

    def _evict(self, now: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used <= EVICTION_MS:
            return False
        self.close(oldest.session_id)
        return True
