"""The effects of a step: only this module writes them.

Responses are collected by connection, and leave at the end of the step as one `Send` each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.host.events import (
    Advance,
    Announce,
    Chunk,
    Compute,
    Dial,
    Effect,
    Gather,
    Hand,
    Hangup,
    Hold,
    Message,
    NextTurn,
    Resume,
    Send,
)

if TYPE_CHECKING:
    from odradek.host.aside import Errand

__all__ = ["Outbox", "Outgoing"]


class Outgoing:
    """A connection with responses for its peer."""

    __slots__ = ("conn", "messages", "out", "out_bytes")

    def __init__(self, conn: int) -> None:
        self.conn = conn
        self.out: list[Chunk] = []
        self.out_bytes = 0
        self.messages: list[Message] = []
        """Messages for a broker or client of the process, in place of bytes."""


class Outbox:
    """The effects of the current step, in order."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        """Each step begins with a new list; only the outbox writes to it."""
        self.dirty: list[Outgoing] = []
        """Connections with something to send in this step."""

    def flush(self) -> None:
        """End the step: send everything that connections have collected."""
        for connection in self.dirty:
            if connection.out:
                self.effects.append(Send(connection.conn, connection.out))
                connection.out = []
                connection.out_bytes = 0
            else:
                self.effects.append(Hand(connection.conn, connection.messages))
                connection.messages = []
        self.dirty.clear()

    def ask_for(self, *, another_turn: bool, works: Sequence[Errand[object]]) -> None:
        """Request another turn, or works that run beside the event loop."""
        if another_turn:
            self.effects.append(NextTurn())
        for work in works:
            self.effects.append(Compute(work))

    def send(self, conn: int, chunks: Sequence[Chunk]) -> None:
        """Send these chunks at once."""
        self.effects.append(Send(conn, chunks))

    def hand(self, conn: int, messages: Sequence[Message]) -> None:
        """Give these messages to another broker at once."""
        self.effects.append(Hand(conn, messages))

    def dial(self, conn: int, node_id: int) -> None:
        self.effects.append(Dial(conn, node_id))

    def hang_up(self, conn: int) -> None:
        self.effects.append(Hangup(conn))

    def part_with(self, connection: Outgoing) -> None:
        """Close an accepted connection after its last response."""
        if connection.out:
            self.send(connection.conn, connection.out)
            connection.out = []
            self.dirty.remove(connection)
        elif connection.messages:
            self.hand(connection.conn, connection.messages)
            connection.messages = []
            self.dirty.remove(connection)
        self.hang_up(connection.conn)

    def gather(self, conn: int, head: Sequence[bytes | memoryview], size: int) -> None:
        """Let the driver put a long request into one buffer, if it can."""
        self.effects.append(Gather(conn, head, size))

    def hold(self, conn: int) -> None:
        self.effects.append(Hold(conn))

    def resume(self, conn: int) -> None:
        self.effects.append(Resume(conn))

    def announce(self, offset: int) -> None:
        self.effects.append(Announce(offset))

    def advance(self, node_ids: frozenset[int], topic: str, index: int) -> None:
        """Tell these replicas, where readers wait, that a partition has more records."""
        self.effects.append(Advance(node_ids, topic, index))
