"""Feeds a node with events of its sockets and of the clock, and carries out its effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from odradek.core.by_type import taken
from odradek.core.timers import NEVER
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
    Gather,
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
from odradek.net.outside import TURN_S, Watch
from odradek.net.protocol import ClientProtocol

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.net.clock import Clock
    from odradek.net.outside import Calls, Handle
    from odradek.net.post import Post

__all__ = ["Driver"]

T = TypeVar("T")


def _settle(outcome: Future[T], call: Callable[[], T]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as error:
        outcome.set_exception(error)


class Driver:
    """One node on real sockets.

    `peers` are the drivers of the other nodes of the process, by node id: brokers send each other messages, which the
    `post` delivers in a later turn. `changes` is notified of each step.
    """

    def __init__(
        self,
        node: Node,
        *,
        peers: dict[int, Driver],
        clock: Clock,
        post: Post,
        loop: Calls,
        changes: Changes | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.node = node
        self.stopped = False
        self.paused = False
        """Whether the node is paused: it receives nothing from clients or peers."""
        self._unheard: deque[Event] = deque()
        self._held: set[int] = set()
        self._peers = peers
        self._clock = clock
        self._post = post
        self._changes = changes or Changes()
        self._loop = loop
        self._protocols: dict[int, ClientProtocol] = {}
        self._arriving = WeakSet[ClientProtocol]()
        """Connections in a TLS handshake; uvloop drops failed ones, and so does this weak set."""
        self._links: dict[int, tuple[Driver, int]] = {}
        self._next_conn = 1
        self._stepping = False
        self._queued: deque[Event] = deque()
        self._timer: Handle | None = None
        self._timer_at: int | None = None
        """It may be earlier than the node wants: an unneeded timer costs less than setting many timers again."""
        self._alarm = node.alarm
        self._watch = watch = watch or Watch()
        self._worker: ThreadPoolExecutor | None = None
        """One thread, which bounds the memory for decompressed batches; created for the first work."""
        node.turns.is_over = watch.turn_is_over
        node.thread_clock = watch.worked_ns
        self._carry_out = dict(
            (
                taken(Send, self._send),
                taken(Hand, self._hand),
                taken(Dial, self._dial),
                taken(Hangup, self._hang_up),
                taken(Gather, self._gather),
                taken(Hold, self._hold),
                taken(Resume, self._resume),
                taken(Announce, self._announce),
                taken(Advance, self._advance),
                taken(NextTurn, self._next_turn),
                taken(Compute, self._compute),
            )
        )

    def step(self, event: Event) -> None:
        """Give the node an event; one that arrives while effects are carried out waits its turn."""
        if self._stepping:
            self._queued.append(event)
            return
        self._stepping = True
        try:
            carry_out, now, watch = self._carry_out, self._clock.now, self._watch
            while True:
                watch.turn_ends = perf_counter() + TURN_S
                for effect in self.node.step(event, now()):
                    carry_out[type(effect)](effect)
                if not self._queued:
                    break
                event = self._queued.popleft()
        finally:
            self._stepping = False
            if (watcher := self._changes.watcher) is not None:
                watcher.changed()
        if (alarm := self._alarm).at < NEVER:
            if self._timer_at is None or alarm.at < self._timer_at:
                self._set_timer()
            alarm.at = NEVER

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
        """A number for a new connection."""
        conn = self._next_conn
        self._next_conn += 1
        self._protocols[conn] = protocol
        self._arriving.discard(protocol)
        if self.stopped:
            protocol.transport.abort()
        if self.paused:
            # Some event loops begin to read when this returns, even if reading was paused before.
            protocol.hear = self._hear
            self._loop.call_soon(self._listen_or_not, conn)
        return conn

    def forget(self, conn: int) -> None:
        """The connection is gone."""
        self._protocols.pop(conn, None)
        self._held.discard(conn)

    def pause(self) -> None:
        """Pause the node: its input waits, connections stay open, its clock goes on."""
        self.paused = True
        for conn, protocol in self._protocols.items():
            protocol.hear = self._hear
            self._listen_or_not(conn)

    def resume(self) -> None:
        """Resume the node; waiting input comes first."""
        self.paused = False
        while self._unheard and not self.stopped:
            self.step(self._unheard.popleft())
        for conn, protocol in list(self._protocols.items()):
            protocol.hear = self.step
            self._listen_or_not(conn)

    def await_client(self, protocol: ClientProtocol) -> ClientProtocol:
        """A connection has been made to a listener with TLS; its handshake follows."""
        self._arriving.add(protocol)
        return protocol

    @property
    def has_arriving(self) -> bool:
        """Whether a handshake is under way."""
        return bool(self._arriving)

    @property
    def has_clients(self) -> bool:
        """Whether a client is connected."""
        return bool(self._protocols)

    def hang_up_clients(self) -> None:
        for protocol in list(self._protocols.values()):
            protocol.transport.close()

    def cut_off_clients(self) -> None:
        """Close every client connection at once and discard its unsent data."""
        for protocol in list(self._protocols.values()):
            protocol.transport.abort()

    def stop(self) -> None:
        """Stop: the timer and every connection end; peers notice."""
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

    def _gather(self, effect: Gather) -> None:
        protocol = self._protocols.get(effect.conn)
        if protocol is not None and not self._unheard:  # some of what has not been heard may be behind the head
            protocol.gather(effect.head, effect.size)

    def _hold(self, effect: Hold) -> None:
        self._held.add(effect.conn)
        self._listen_or_not(effect.conn)
        # Some event loops begin to read when a connection has been made, even if reading was paused meanwhile.
        self._loop.call_soon(self._listen_or_not, effect.conn)

    def _resume(self, effect: Resume) -> None:
        self._held.discard(effect.conn)
        self._listen_or_not(effect.conn)

    def _listen_or_not(self, conn: int) -> None:
        """Read from a client unless its node has asked not to, or is paused."""
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
        # Before it gets here the loop runs everything due by then, and looks at every socket.
        self._post.send(self._step_unless_stopped, Turn())

    def _compute(self, effect: Compute) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"odradek-{self.node.node_id}")
        done = self._loop.run_in_executor(self._worker, effect.work.run)
        done.add_done_callback(lambda _: self._hear(Computed(effect.work)))

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
        """Input from outside, in the order of its arrival: handled at once, or after the node is resumed."""
        if self.paused or self._unheard:
            self._unheard.append(event)
        else:
            self._step_unless_stopped(event)

    def _step_unless_stopped(self, event: Event) -> None:
        if not self.stopped:
            self.step(event)

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
        """When the next work is due (ms), or None."""
        return None if self.stopped else self.node.wake_at()

    def tick_if_due(self) -> None:
        """Time has passed: do all work that is due."""
        at = self.wake_at()
        if at is not None and at <= self._clock.now():
            self.step(Tick())

    def time_changed(self) -> None:
        """The clock was advanced, stopped or started: do all due work, and set the timer for the next."""
        if not self.stopped:
            self.step(Tick())
            self._set_timer()

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        self._step_unless_stopped(Tick())
        if self._timer is None:
            self._set_timer()
