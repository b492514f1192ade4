"""The border of a node: events from its driver, and effects for the driver.

`effects = node.step(event, now)` is the whole interface; `node.wake_at()` says when to send the next `Tick`.
A connection is named by an integer: positive ones are the driver's (accepted), negative ones the node's own (dialled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.aside import Errand

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
    "Gather",
    "Gathered",
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
]

Chunk: TypeAlias = bytes | bytearray | memoryview


class Started(Struct):
    """The driver has bound the listeners; the node may take up its duties."""


class Connected(Struct):
    """A connection was accepted; `broker` is True on the inter-broker channel, which carries cluster authority.

    `listener` is its listener, and `certified` the distinguished name in the client's certificate, which the driver has
    verified. With `hands`, a client of the same process hands over messages in place of bytes; connections over a
    socket never
    do.
    """

    conn: int
    host: str
    port: int
    broker: bool = False
    listener: str = ""
    certified: str | None = None
    hands: bool = False


class Dialled(Struct):
    """A connection that the node opened with `Dial` is ready."""

    conn: int


class Received(Struct):
    """Bytes arrived; they are immutable, and the node may keep views of them.

    None are a sign of life: of a long request that is being gathered some have come.
    """

    conn: int
    data: bytes | memoryview


class Gathered(Struct):
    """A long request is complete: what was given with `Gather`, and the rest, in one buffer that never changes."""

    conn: int
    data: memoryview


class HandedRequest(Struct):
    """A request of another broker of the process, or of a client in it, as a message of its own."""

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    request: Struct


class HandedResponse(Struct):
    """The response to a `HandedRequest`."""

    correlation_id: int
    response: Struct


Message: TypeAlias = HandedRequest | HandedResponse


class Handed(Struct):
    """Messages arrived over a connection within the process; the node owns them from now on."""

    conn: int
    messages: Sequence[Message]


class Disconnected(Struct):
    """The connection is closed, or could not be opened."""

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
    """The leader of a partition with a replica here has more records that may be read."""

    topic: str
    index: int


class Stopping(Struct):
    """The node is being stopped: parked requests end, and no request is accepted."""


class Command(Struct):
    """The operator of the cluster acts on the node: a leader moves, a fault is removed, a controller becomes active."""

    act: Callable[[], None]


class Tick(Struct):
    """Time has passed."""


class Turn(Struct):
    """Other sockets were read since `NextTurn`: the requests that gave way go on."""


class Computed(Struct):
    """Work that the node requested with `Compute` is done."""

    work: Errand[object]


_OfConnections: TypeAlias = Connected | Dialled | Received | Gathered | Handed | Disconnected | Clogged | Drained
Event: TypeAlias = (
    _OfConnections | Started | MetadataAdvanced | LeaderAdvanced | Stopping | Command | Computed | Tick | Turn
)


class Send(Struct):
    """Write these chunks, in this order."""

    conn: int
    chunks: Sequence[Chunk]


class Hand(Struct):
    """Give these messages, in this order, to the peer of a connection within the process."""

    conn: int
    messages: Sequence[Message]


class Dial(Struct):
    """Open an inter-broker connection to that node under this name; answered by `Dialled` or `Disconnected`."""

    conn: int
    node_id: int


class Hangup(Struct):
    """Close the connection when everything is sent; `Disconnected` follows."""

    conn: int


class Gather(Struct):
    """Much of a request is missing, and nothing is done before it is complete.

    The driver may collect `size` bytes in one buffer that begins with `head`, which has come, and hand it over with
    `Gathered`; that saves copies. It must have given the node all that it has received. It may as well go on as ever.
    """

    conn: int
    head: Sequence[bytes | memoryview]
    size: int


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
    """Tell these brokers that a partition with replicas there has more records that may be read."""

    node_ids: frozenset[int]
    topic: str
    index: int


class NextTurn(Struct):
    """Send `Turn` after reading the sockets, because there is more to do."""


class Compute(Struct):
    """Run this beside the event loop, and send `Computed` when it is done."""

    work: Errand[object]


Effect: TypeAlias = Send | Hand | Dial | Hangup | Gather | Hold | Resume | Announce | Advance | NextTurn | Compute
