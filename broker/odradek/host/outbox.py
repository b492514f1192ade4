"""What a node asks of its driver: the one place where effects are written.

The answers of a step are gathered by connection, and leave at its end as one `Send` for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.host.events import (
    Advance,
    Announce,
    Chunk,
    Compute,
    Dial,
    Effect,
    Hand,
    Hangup,
    Hold,
    Message,
    NextTurn,
    Resume,
    Send,
    Work,
)

__all__ = ["HasOutbox", "Outbox", "Outgoing"]


class HasOutbox(Protocol):
    """What is asked of the driver."""

    @property
    def outbox(self) -> Outbox: ...


class Outgoing(Protocol):
    """A connection that has something to say."""

    @property
    def conn(self) -> int: ...

    out: list[Chunk]
    out_bytes: int
    messages: list[Message]
    """What a broker is answered that is handed messages, in place of bytes."""


class Outbox:
    """The effects of the step that is under way, in order."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        """Each step begins with a new list; nobody else writes into it."""
        self.dirty: list[Outgoing] = []
        """The connections that have something to say; each is put here with its first words in the step."""

    def flush(self) -> None:
        """The step is over: say what connections have to say."""
        for connection in self.dirty:
            if connection.out:
                self.effects.append(Send(connection.conn, connection.out))
                connection.out = []
                connection.out_bytes = 0
            else:
                self.effects.append(Hand(connection.conn, connection.messages))
                connection.messages = []
        self.dirty.clear()

    def ask_for(self, *, another_turn: bool, works: Sequence[Work]) -> None:
        """There is more to do when the sockets have been looked at, or work to be done where it holds nobody up."""
        if another_turn:
            self.effects.append(NextTurn())
        for work in works:
            self.effects.append(Compute(work))

    def send(self, conn: int, chunks: Sequence[Chunk]) -> None:
        """Write these at once."""
        self.effects.append(Send(conn, chunks))

    def hand(self, conn: int, messages: Sequence[Message]) -> None:
        """Give these to another broker at once."""
        self.effects.append(Hand(conn, messages))

    def dial(self, conn: int, node_id: int) -> None:
        """Open a connection to another broker."""
        self.effects.append(Dial(conn, node_id))

    def hang_up(self, conn: int) -> None:
        """Close a connection after what was sent."""
        self.effects.append(Hangup(conn))

    def part_with(self, connection: Outgoing) -> None:
        """Close an accepted connection after what it was answered."""
        if connection.out:
            self.send(connection.conn, connection.out)
            connection.out = []
            self.dirty.remove(connection)
        elif connection.messages:
            self.hand(connection.conn, connection.messages)
            connection.messages = []
            self.dirty.remove(connection)
        self.hang_up(connection.conn)

    def hold(self, conn: int) -> None:
        """Read nothing more from it for now."""
        self.effects.append(Hold(conn))

    def resume(self, conn: int) -> None:
        """Read from it again."""
        self.effects.append(Resume(conn))

    def announce(self, offset: int) -> None:
        """The metadata log is committed up to this offset."""
        self.effects.append(Announce(offset))

    def advance(self, node_ids: frozenset[int], topic: str, index: int) -> None:
        """There is more of a partition that may be read, and readers wait for it at these replicas."""
        self.effects.append(Advance(node_ids, topic, index))
