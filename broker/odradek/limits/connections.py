"""How many connections a broker takes: of all clients, of one address, and how many new ones a second.

Kafka's acceptor of a listener takes one connection after another and waits with it in its hands until there is room
(KIP-402) and until the rate allows it (KIP-612); those behind it wait, too. A client that this lets in may still come
from an address that has enough already, and is then hung up on at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.config.addresses import address_of, parse_overrides
from odradek.config.keys import INT_MAX
from odradek.host.connection import Connection
from odradek.limits.windows import Rate, Windows

if TYPE_CHECKING:
    from odradek.host.events import Connected
    from odradek.host.exchange import Serving

__all__ = ["ConnectionLimits"]


LetIn = Callable[[], bool]
"""Lets a client in; whether it is served from now on."""


class ConnectionLimits:
    """The connections of one broker, counted from the moment on at which any limit is set."""

    def __init__(self, node: Serving) -> None:
        self._connections = node.connections
        self._settings = node.settings
        self._clock = node.clock
        self._timers = node.timers
        self._outbox = node.outbox
        self._log = node.log
        static = node.settings.at_start
        self._windows = Windows(static.quota_window_num, static.quota_window_size_seconds * 1000)
        self._rate = Rate()
        inter_broker = static.security().inter_broker_listener_name
        several = len(static.security().listeners) > 1
        self._protected = inter_broker if several else None
        """The listener of brokers, which clients cannot block, if they have another one."""
        self._counted: dict[int, tuple[str, str]] = {}
        """Listener and address of each that is in."""
        for conn, connection in node.connections.items():
            if not connection.broker:
                self._counted[conn] = connection.peer.listener, address_of(connection.host)
        self._by_address = Counter(address for _, address in self._counted.values())
        self._waiting: dict[str, deque[tuple[Connected, LetIn]]] = {}
        """By listener; the first is in the hands of the acceptor."""
        self._held: dict[int, list[bytes | memoryview]] = {}
        """Bytes of connections that wait and are not read; they may have come before the connection was held."""
        self._until: dict[str, int] = {}
        """Until when the rate has the first of a listener wait."""
        self._overrides: dict[str, int] = {}
        self.adopt()

    def adopt(self) -> None:
        """Apply new limits: waiting connections may be accepted now, and surplus ones are closed."""
        self._overrides = parse_overrides(self._settings.config.max_connections_per_ip_overrides)
        self._close_excess()
        for listener in list(self._waiting):
            self._go_on(listener)

    def arrived(self, event: Connected, let_in: LetIn) -> None:
        """A client has connected, and may come in when there is room."""
        self._waiting.setdefault(event.listener, deque()).append((event, let_in))
        self._go_on(event.listener)
        if self._waiting[event.listener]:  # the last of them is this one
            self._held[event.conn] = []
            self._outbox.hold(event.conn)

    def received(self, conn: int, data: bytes | memoryview) -> None:
        """A client says something that may be waiting."""
        if conn in self._held:
            self._held[conn].append(data)

    def left(self, conn: int) -> None:
        """A connection is gone, whether it was in or not."""
        counted = self._counted.pop(conn, None)
        if counted is not None:
            self._by_address[counted[1]] -= 1
            if not self._by_address[counted[1]]:
                del self._by_address[counted[1]]
        else:
            self._held.pop(conn, None)
            self._give_up(conn)
        for listener in list(self._waiting):
            self._go_on(listener)

    def _give_up(self, conn: int) -> None:
        for listener, waiting in self._waiting.items():
            for place, (event, _) in enumerate(waiting):
                if event.conn == conn:
                    if not place:
                        self._until.pop(listener, None)
                    del waiting[place]
                    return

    def _go_on(self, listener: str) -> None:
        waiting, now = self._waiting[listener], self._clock.now
        while waiting:
            until = self._until.get(listener)
            if until is None:
                until = self._until[listener] = now + self._throttle_ms(listener)
            if until > now:
                self._timers.set(("connection slot", listener), until, partial(self._go_on, listener))
                return
            if not self._has_room(listener):
                return
            del self._until[listener]
            self._admit(*waiting.popleft())

    def _throttle_ms(self, listener: str) -> int:
        """The time that the rate makes the next connection wait; waiting ones are counted."""
        limit, windows, now = self._settings.config.max_connection_creation_rate, self._windows, self._clock.now
        if listener == self._protected or limit == INT_MAX:
            return 0
        self._rate.record(windows, 1, now)
        return min(self._rate.throttle_ms(windows, limit, now), windows.length_ms)

    def _has_room(self, listener: str) -> bool:
        return listener == self._protected or len(self._counted) < self._settings.config.max_connections

    def _admit(self, event: Connected, let_in: LetIn) -> None:
        address = address_of(event.host)
        most = self._overrides.get(address, self._settings.config.max_connections_per_ip)
        if self._by_address[address] >= most:
            self._log.warning("connection_closed", reason="too_many_connections", host=event.host, port=event.port)
            self._outbox.hang_up(event.conn)
            return
        if let_in():
            self._counted[event.conn] = event.listener, address
            self._by_address[address] += 1
            self._close_excess()
            heard = self._held.pop(event.conn, None)
            if heard is not None:
                self._outbox.resume(event.conn)
                connection = self._connections[event.conn]
                assert isinstance(connection, Connection), "other brokers do not wait"
                for data in heard:
                    connection.received(data)

    def _close_excess(self) -> None:
        """Hang up on those that have said nothing for the longest time, until there are no more than there may be."""
        connections = self._connections
        there = [(connections[conn], listener) for conn, (listener, _) in self._counted.items()]
        there = [(connection, listener) for connection, listener in there if not connection.closing]
        excess = len(there) - self._settings.config.max_connections
        if excess <= 0:
            return
        idle = [connection for connection, listener in there if listener != self._protected]
        for connection in sorted(idle, key=lambda each: each.last_active)[:excess]:
            connection.close("too_many_connections")
