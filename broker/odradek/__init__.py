"""A Kafka broker for tests: one Python process that speaks the Kafka protocol and runs the real transaction
machinery.

A broker is a plain object without socket, thread or clock: bytes come in with an event, bytes go out with an effect.
Its driver is a loop. This one serves a single request over a connection that it has made up:

    from collections import deque
    from random import Random

    from structlog import get_logger

    from odradek import BrokerSpec, ClusterSpec, Config, LogStore, Node
    from odradek import Computed, Compute, Connected, Disconnected, Hangup, NextTurn, Received, Send, Started, Turn

    now = 1_700_000_000_000  # ms; a driver of a server reads a clock here, before each step
    cluster = ClusterSpec("a-cluster-of-one", controller_id=1, brokers=(BrokerSpec(1, "localhost", 9092),))
    broker = Node(node_id=1, config=Config.parse({}).for_brokers(1), store=LogStore(bytes_max=2**30),
                  cluster=cluster, random=Random(0), log=get_logger(), now=now)
    request = bytes.fromhex("0000000a 0012 0000 00000007 ffff")  # length, ApiVersions, version 0, id 7, no client id
    events = deque([Started(), Connected(1, "127.0.0.1", 50000), Received(1, request)])
    while events:
        for effect in broker.step(events.popleft(), now):
            match effect:
                case Send(conn, chunks):
                    print("to connection", conn, b"".join(chunks).hex())
                case Hangup(conn):
                    events.append(Disconnected(conn))
                case NextTurn():
                    events.append(Turn())
                case Compute(work):
                    work.run()
                    events.append(Computed(work))
    print("to be woken at", broker.wake_at())

A driver of a server waits at the end of the loop, for its sockets and for the time `wake_at()`, when it sends `Tick`.
It stops reading a connection at `Hold`, reads on at `Resume`, and reports full and empty send buffers with `Clogged`
and `Drained`. It may collect a long request at `Gather`. For a cluster it also delivers what brokers send each other:
`Dial`, `Hand`, `Announce` and `Advance`.
`odradek.host.events` describes all events and effects. `odradek.net` is the driver with real sockets; `odradek.sim` is
the one with a virtual clock and network.

To test a client, use `odradek.testing` (`Cluster`, pytest fixtures) or the command `odradek`.
The names below are imported at their first use, so that `import odradek` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in `typing`, which the start of a command is not to import."""

__version__ = "0.1.0"

if TYPE_CHECKING:
    # A type checker reads the names where they are listed, and finds mistyped ones.
    from odradek.names import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        # All names are classes; to look for a module of the package imports nothing else.
        if name != "__all__" and not name[:1].isupper():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek import names

        globals().update({each: vars(names)[each] for each in names.__all__}, __all__=[*names.__all__, "__version__"])
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
