"""Clients that have looked for the coordinator of a group, and have not asked it for anything yet.

The first generation of a classic group waits for them, so that members that start together have one rebalance and not
three; the second and third would begin with the next heartbeat of the first member, 3 s later in most clients.
"""

from __future__ import annotations

from collections import deque

__all__ = ["GATHERING_MS", "Seekers"]

GATHERING_MS = 100
"""How long a first generation waits at most: librdkafka joins up to 50 ms after it has found the coordinator."""


class Seekers:
    """The connections that have looked for a group lately; of one connection only the group that it named last.

    librdkafka looks over its first connection, ends that, and looks again over the next one. So a connection that has
    ended counts until another one looks: expected are as many clients as have had connections at the same time.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[int, int]] = {}
        """When (ms) each connection looked, by group; those that have ended are negative."""
        self._group_of: dict[int, str] = {}
        """The group of each connection that is open."""
        self._ended: deque[tuple[int, str, int]] = deque()
        """When a connection has ended (ms), its group, and its negative number."""

    def looked(self, group_id: str, conn: int, now: int) -> None:
        """A client was told that its coordinator is here."""
        self._forget(self._group_of.pop(conn, None), conn)
        self._forget_ended(now)
        seekers = self.groups.setdefault(group_id, {})
        ended = next((each for each in seekers if each < 0), None)
        if ended is not None:
            del seekers[ended]
        seekers[conn] = now
        self._group_of[conn] = group_id

    def expected(self, group_id: str, now: int) -> int:
        """How many clients may be about to join this group."""
        return sum(when > now - GATHERING_MS for when in self.groups.get(group_id, {}).values())

    def found(self, group_id: str) -> None:
        """The group has a generation, or somebody wanted something else of it than to join: expect nobody."""
        for conn in self.groups.pop(group_id, ()):
            self._group_of.pop(conn, None)

    def gone(self, conn: int, now: int) -> None:
        """A connection has ended."""
        group_id = self._group_of.pop(conn, None)
        if group_id is not None:
            seekers = self.groups[group_id]
            seekers[-conn] = seekers.pop(conn)
            self._ended.append((now, group_id, -conn))
            self._forget_ended(now)

    def _forget_ended(self, now: int) -> None:
        while self._ended and self._ended[0][0] <= now - GATHERING_MS:
            _, group_id, conn = self._ended.popleft()
            self._forget(group_id, conn)

    def _forget(self, group_id: str | None, conn: int) -> None:
        seekers = self.groups.get(group_id) if group_id is not None else None
        if seekers is not None and seekers.pop(conn, None) is not None and not seekers:
            assert group_id is not None
            del self.groups[group_id]
