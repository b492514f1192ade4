"""The border of a node: what a driver tells it (events) and what it asks of the driver (effects).

`effects = node.step(event, now)` is the whole interface; `node.wake_at()` says when to send the next `Tick`.
A connection is named by an integer: positive ones are the driver's (accepted), negative ones the node's own (dialled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from odradek.wire.registry import ApiKey

__all__ = [
    "Advance",
    "Announce",
    "Clogged",
    "Command",
    "Compute",
    "Computed",
    "Connected",
    "Dial",
    "Dialled",
    "Disconnected",
    "Drained",
    "Effect",
    "Event",
    "Hand",
    "Handed",
    "HandedRequest",
    "HandedResponse",
    "Hangup",
    "Hold",
    "Message",
    "MetadataAdvanced",
    "NextTurn",
    "Received",
    "Resume",
    "Send",
    "Started",
    "Stopping",
    "Tick",
    "Turn",
    "Work",
]

Chunk: TypeAlias = bytes | bytearray | memoryview


class Started(Struct):
    """The driver has bound the listeners; the node may take up its duties."""


class Connected(Struct):
    """A connection was accepted; `broker` is True on the inter-broker channel, which carries cluster authority.

    `listener` is the one that it came over, and `certified` the distinguished name in the certificate that the client
    has shown, which the driver has verified. A client of the same process may be one that `hands` messages over, in
    place of bytes; nothing that comes over a socket is.
    """

    conn: int
    host: str
    port: int
    broker: bool = False
    listener: str = ""
    certified: str | None = None
    hands: bool = False


class Dialled(Struct):
    """A connection that the node asked for with `Dial` stands."""

    conn: int


class Received(Struct):
    """Bytes arrived; they are immutable, and the node may keep views of them."""

    conn: int
    data: bytes


class HandedRequest(Struct):
    """A request of another broker of the process, or of a client in it, as a message of its own."""

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    request: Struct


class HandedResponse(Struct):
    """The answer to one."""

    correlation_id: int
    response: Struct


Message: TypeAlias = HandedRequest | HandedResponse


class Handed(Struct):
    """Messages arrived over a connection within the process; they belong to the node from now on."""

    conn: int
    messages: Sequence[Message]


class Disconnected(Struct):
    """The connection is gone, or could not be made."""

    conn: int


class Clogged(Struct):
    """The driver's send buffer of this connection is full: the peer reads too slowly."""

    conn: int


class Drained(Struct):
    """The driver's send buffer has room again."""

    conn: int


class MetadataAdvanced(Struct):
    """The metadata log is committed up to this offset."""

    offset: int


class LeaderAdvanced(Struct):
    """The leader of a partition that this broker has a replica of has more that may be read."""

    topic: str
    index: int


class Stopping(Struct):
    """The node is being stopped: parked requests end, nothing new is taken."""


class Command(Struct):
    """Whoever runs the cluster acts on the node: a leader is moved, a fault is lifted, a controller becomes active."""

    act: Callable[[], None]


class Tick(Struct):
    """Time has passed."""


class Turn(Struct):
    """Everybody else has had a chance since `NextTurn`: what gave way goes on."""


class Work(Protocol):
    """A call that touches nothing of the node."""

    def run(self) -> None:
        """Make the call, on any thread; nothing is raised."""

    def done(self) -> None:
        """Tell the node that it was made."""


class Computed(Struct):
    """Work that the node has asked for with `Compute` was done."""

    work: Work


_OfConnections: TypeAlias = Connected | Dialled | Received | Handed | Disconnected | Clogged | Drained
Event: TypeAlias = (
    _OfConnections | Started | MetadataAdvanced | LeaderAdvanced | Stopping | Command | Computed | Tick | Turn
)


class Send(Struct):
    """Write these chunks, in this order."""

    conn: int
    chunks: Sequence[Chunk]


class Hand(Struct):
    """Give these messages, in this order, to whoever is at the other end of a connection within the process."""

    conn: int
    messages: Sequence[Message]


class Dial(Struct):
    """Open an inter-broker connection to that node under this name; answered by `Dialled` or `Disconnected`."""

    conn: int
    node_id: int


class Hangup(Struct):
    """Close the connection after what was sent has gone out; `Disconnected` follows."""

    conn: int


class Hold(Struct):
    """Stop reading from the connection: its queue of requests is full."""

    conn: int


class Resume(Struct):
    """Read from the connection again."""

    conn: int


class Announce(Struct):
    """Tell every other node that the metadata log is committed up to this offset."""

    offset: int


class Advance(Struct):
    """Tell these brokers that a partition which they have replicas of has more that may be read."""

    node_ids: frozenset[int]
    topic: str
    index: int


class NextTurn(Struct):
    """There is more to do: send `Turn` when the sockets have been looked at."""


class Compute(Struct):
    """Run this where it holds nobody up, and send `Computed` when it is done."""

    work: Work


Effect: TypeAlias = Send | Hand | Dial | Hangup | Hold | Resume | Announce | Advance | NextTurn | Compute
