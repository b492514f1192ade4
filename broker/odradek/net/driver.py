"""Feeds a node with what happens on its sockets and on the clock, and carries out its effects."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from odradek.host.events import (
    Advance,
    Announce,
    Command,
    Compute,
    Computed,
    Connected,
    Dial,
    Dialled,
    Disconnected,
    Event,
    Hand,
    Handed,
    Hangup,
    Hold,
    LeaderAdvanced,
    MetadataAdvanced,
    NextTurn,
    Resume,
    Send,
    Started,
    Tick,
    Turn,
)
from odradek.net.changes import Changes
from odradek.net.protocol import ClientProtocol

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.net.clock import Clock
    from odradek.net.post import Post

__all__ = ["Driver"]

T = TypeVar("T")


def _settle(outcome: Future[T], call: Callable[[], T]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as error:
        outcome.set_exception(error)


TURN_S = 0.002
"""How long the node serves one client, or those that wait for their turn, before it looks at the others.

Long enough for the small requests that a client has in flight, so that they are answered together: one that is answered
in parts sends in parts, and each part costs what all of them would.
"""


class Driver:
    """One node on real sockets.

    `peers` are the drivers of the other nodes of the process, by node id:
    what brokers say to one another are messages, delivered by the `post` in a later turn.
    `changes` is told of each step.
    """

    def __init__(
        self,
        node: Node,
        *,
        peers: dict[int, Driver],
        clock: Clock,
        post: Post,
        loop: asyncio.AbstractEventLoop,
        changes: Changes | None = None,
    ) -> None:
        self.node = node
        self.stopped = False
        self.paused = False
        """Whether the node hears nothing: neither of clients nor of its peers."""
        self._unheard: deque[Event] = deque()
        self._held: set[int] = set()
        self._peers = peers
        self._clock = clock
        self._post = post
        self._changes = changes or Changes()
        self._loop = loop
        self._protocols: dict[int, ClientProtocol] = {}
        self._arriving = WeakSet[ClientProtocol]()
        """Those whose handshake has failed are forgotten by uvloop, and so here."""
        self._links: dict[int, tuple[Driver, int]] = {}
        self._next_conn = 1
        self._stepping = False
        self._queued: deque[Event] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        """It may be earlier than the node wants: a timer that comes in vain costs less than many set anew."""
        self._turn_ends = 0.0
        self._worker: ThreadPoolExecutor | None = None
        """One thread, so that what clients have unpacked at a time is bounded; none until there is work for it."""
        node.turns.is_over = self._turn_is_over
        node.thread_clock = time.thread_time_ns
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Hand: self._hand,
            Dial: self._dial,
            Hangup: self._hang_up,
            Hold: self._hold,
            Resume: self._resume,
            Announce: self._announce,
            Advance: self._advance,
            NextTurn: self._next_turn,
            Compute: self._compute,
        }

    def step(self, event: Event) -> None:
        """Give the node an event; one that arrives while effects are carried out waits its turn."""
        if self._stepping:
            self._queued.append(event)
            return
        self._stepping = True
        try:
            carry_out, now = self._carry_out, self._clock.now
            while True:
                self._turn_ends = time.perf_counter() + TURN_S
                for effect in self.node.step(event, now()):
                    carry_out[type(effect)](effect)
                if not self._queued:
                    break
                event = self._queued.popleft()
        finally:
            self._stepping = False
            if (watcher := self._changes.watcher) is not None:
                watcher.changed()
        at = self.node.wake_at()
        if at is not None and (self._timer_at is None or at < self._timer_at):
            self._set_timer()

    def act(self, call: Callable[[], T]) -> T:
        """Act on the node in a step of its own, so that everything that follows from it is carried out.

        Raises what the call raises, after the step.
        """
        outcome: Future[T] = Future()
        self.step(Command(partial(_settle, outcome, call)))
        if not outcome.done():
            raise RuntimeError("the node is in the middle of a step")
        return outcome.result()

    def start(self) -> None:
        """Let the node take up its duties. Raises `StartRefused` where it cannot."""
        self.step(Started())
        if self.node.start_refused is not None:
            raise self.node.start_refused

    def accept(self, protocol: ClientProtocol) -> int:
        """A name for a new connection."""
        conn = self._next_conn
        self._next_conn += 1
        self._protocols[conn] = protocol
        self._arriving.discard(protocol)
        if self.stopped:
            protocol.transport.abort()
        if self.paused:
            # Some event loops begin to read when this returns, whatever they were told before.
            protocol.hear = self._hear
            self._loop.call_soon(self._listen_or_not, conn)
        return conn

    def forget(self, conn: int) -> None:
        """The connection is gone."""
        self._protocols.pop(conn, None)
        self._held.discard(conn)

    def pause(self) -> None:
        """From now on the node hears nothing, and what it is told waits; connections stay open, its clock goes on."""
        self.paused = True
        for conn, protocol in self._protocols.items():
            protocol.hear = self._hear
            self._listen_or_not(conn)

    def resume(self) -> None:
        """Let the node hear again, what has waited first."""
        self.paused = False
        while self._unheard and not self.stopped:
            self.step(self._unheard.popleft())
        for conn, protocol in list(self._protocols.items()):
            protocol.hear = self.step
            self._listen_or_not(conn)

    def await_client(self, listener: str) -> ClientProtocol:
        """A connection has been made to a listener with TLS; its handshake follows."""
        protocol = ClientProtocol(self, listener)
        self._arriving.add(protocol)
        return protocol

    @property
    def has_arriving(self) -> bool:
        """Whether anybody is in the middle of a handshake."""
        return bool(self._arriving)

    @property
    def has_clients(self) -> bool:
        """Whether anybody is connected from outside."""
        return bool(self._protocols)

    def hang_up_clients(self) -> None:
        """Close every connection that was accepted from outside."""
        for protocol in list(self._protocols.values()):
            protocol.transport.close()

    def cut_off_clients(self) -> None:
        """End every connection that was accepted from outside at once, whatever is still to be sent."""
        for protocol in list(self._protocols.values()):
            protocol.transport.abort()

    def stop(self) -> None:
        """Nothing more is done: the timer and every connection end; peers notice."""
        self.stopped = True
        self.paused = False
        self._unheard.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None
        self.hang_up_clients()
        while self._links:
            # A broker may have dialled itself, and then both ends are here.
            _, (peer, peer_conn) = self._links.popitem()
            peer.link_lost(peer_conn)

    # ------------------------------------------------------------------ effects

    def _send(self, effect: Send) -> None:
        protocol = self._protocols.get(effect.conn)
        if protocol is None:
            return
        if len(effect.chunks) == 1:
            protocol.transport.write(effect.chunks[0])
        else:
            protocol.transport.writelines(effect.chunks)

    def _hang_up(self, effect: Hangup) -> None:
        protocol = self._protocols.get(effect.conn)
        if protocol is not None:
            protocol.transport.close()
            return
        link = self._links.pop(effect.conn, None)
        if link is not None:
            link[0].link_lost(link[1])
            self._post.send(self._hear, Disconnected(effect.conn))

    def _hold(self, effect: Hold) -> None:
        self._held.add(effect.conn)
        self._listen_or_not(effect.conn)
        # Some event loops begin to read when a connection has been made, whatever they were told meanwhile.
        self._loop.call_soon(self._listen_or_not, effect.conn)

    def _resume(self, effect: Resume) -> None:
        self._held.discard(effect.conn)
        self._listen_or_not(effect.conn)

    def _listen_or_not(self, conn: int) -> None:
        """Read from a client unless its node has asked not to, or hears nothing."""
        protocol = self._protocols.get(conn)
        if protocol is None or protocol.transport.is_closing():
            return
        if self.paused or conn in self._held:
            protocol.transport.pause_reading()
        else:
            protocol.transport.resume_reading()

    def _announce(self, effect: Announce) -> None:
        for peer in self._peers.values():
            if peer is not self:
                self._post.send(peer._hear, MetadataAdvanced(effect.offset))

    def _advance(self, effect: Advance) -> None:
        for node_id in effect.node_ids:
            if (peer := self._peers.get(node_id)) is not None:
                self._post.send(peer._hear, LeaderAdvanced(effect.topic, effect.index))

    def _next_turn(self, effect: NextTurn) -> None:
        # The loop runs what is due by then, and looks at every socket, before it gets here.
        self._post.send(self._step_unless_stopped, Turn())

    def _compute(self, effect: Compute) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"odradek-{self.node.node_id}")
        done = self._loop.run_in_executor(self._worker, effect.work.run)
        done.add_done_callback(lambda _: self._hear(Computed(effect.work)))

    def _turn_is_over(self) -> bool:
        return time.perf_counter() >= self._turn_ends

    # ------------------------------------------------------------------ the inter-broker channel

    def _dial(self, effect: Dial) -> None:
        peer = self._peers.get(effect.node_id)
        if peer is None or peer.stopped:
            self._post.send(self._hear, Disconnected(effect.conn))
            return
        peer_conn = peer._next_conn
        peer._next_conn += 1
        self._links[effect.conn] = (peer, peer_conn)
        peer._links[peer_conn] = (self, effect.conn)
        self._post.send(peer._hear, Connected(peer_conn, host="127.0.0.1", port=self.node.node_id, broker=True))
        self._post.send(self._hear, Dialled(effect.conn))

    def _hand(self, effect: Hand) -> None:
        link = self._links.get(effect.conn)
        if link is not None:
            peer, peer_conn = link
            self._post.send(peer._hear, Handed(peer_conn, effect.messages))

    def link_lost(self, conn: int) -> None:
        """The other end of an inter-broker connection is gone."""
        if self._links.pop(conn, None) is not None:
            self._post.send(self._hear, Disconnected(conn))

    def _hear(self, event: Event) -> None:
        """Something that comes from outside, in the order in which it came: at once, or when the node hears again."""
        if self.paused or self._unheard:
            self._unheard.append(event)
        else:
            self._step_unless_stopped(event)

    def _step_unless_stopped(self, event: Event) -> None:
        if not self.stopped:
            self.step(event)

    # ------------------------------------------------------------------ the clock

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at = self.node.wake_at()
        if at is None or self.stopped:
            return
        wait_ms = at - self._clock.now()
        if wait_ms <= 0:
            self._timer = self._loop.call_later(0, self._tick)
        elif not self._clock.frozen:
            self._timer = self._loop.call_later(wait_ms / 1000, self._tick)

    def wake_at(self) -> int | None:
        """When something is due (ms), or None."""
        return None if self.stopped else self.node.wake_at()

    def tick_if_due(self) -> None:
        """Time has passed: do what is due by now."""
        at = self.wake_at()
        if at is not None and at <= self._clock.now():
            self.step(Tick())

    def time_changed(self) -> None:
        """The clock was advanced, has been stopped or goes on: do what is due, and look when the next is."""
        if not self.stopped:
            self.step(Tick())
            self._set_timer()

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        self._step_unless_stopped(Tick())
        if self._timer is None:
            self._set_timer()
