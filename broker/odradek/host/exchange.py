"""One request at a time, answers in order: what every connection does, whatever arrives over it.

A request that parks holds back the ones behind it, as in Kafka; what has arrived meanwhile waits, and when it is too
much the driver is asked to stop reading. A connection that has more to be served when its turn is over gives way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.flow import Flow
from odradek.core.turns import Pause
from odradek.host.call import CLOSED_BY_RULE, Call, CloseConnection
from odradek.host.meter import Metered
from odradek.host.outbox import HasOutbox
from odradek.host.router import Handler, HasRouter
from odradek.host.seams import HasClock, HasConfig, HasKernel, HasLog, HasTimers, HasTurns
from odradek.host.serving import HasQuotas, begin
from odradek.host.serving import Node as ServingNode
from odradek.wire.errors import EncodeError
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.events import Chunk, Message

__all__ = ["Accepted", "Exchange", "HasConnections", "Node"]


class HasConnections(Protocol):
    """The connections of clients and of other brokers."""

    @property
    def connections(self) -> dict[int, Accepted]: ...


WAIT_TO_READ = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Whoever waits for their answers waits for records."""
WAITING_BYTES_MAX = 1024 * 1024
"""Nothing more is read from a connection while so much of it waits to be served."""
ANSWER_BYTES_MAX = 256 * 1024
"""A turn of a connection is over when it has been answered so much, however soon that was."""


class Node(
    ServingNode, HasClock, HasConfig, HasKernel, HasLog, HasOutbox, HasQuotas, HasRouter, HasTimers, HasTurns, Protocol
):
    """What a connection touches of its broker."""

    @property
    def node_id(self) -> int: ...


Finish = Callable[[Handler, Call, Any, BaseException | None], None]
"""Takes the outcome of one stage of a request."""


R = TypeVar("R")
"""A request as it arrives."""


class Exchange(ABC, Generic[R]):
    """The requests of one accepted connection, and the answers to them."""

    __slots__ = (
        "_clogged",
        "_flow",
        "_gave_way",
        "_gone",
        "_held",
        "_muted",
        "_next",
        "_node",
        "_parked",
        "_postponed",
        "_waits_to_read",
        "broker",
        "closing",
        "conn",
        "host",
        "last_active",
        "messages",
        "out",
        "out_bytes",
        "peer",
        "port",
        "software",
    )

    def __init__(self, node: Node, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        self._node = node
        self.conn = conn
        self.host = host
        self.port = port
        self.broker = broker
        self.peer = peer
        self.software = ("unknown", "unknown")
        """Name and version of the client's library, if ApiVersions has said them (KIP-511)."""
        self.closing = False
        self.last_active = node.now
        self.out: list[Chunk] = []
        self.out_bytes = 0
        self.messages: list[Message] = []
        self._next: R | None = None
        """The request with which the connection goes on in its next turn."""
        self._gave_way = False
        self._gone = False
        self._flow: Flow | None = None
        self._parked: tuple[Call, int] | None = None
        """The request that has parked last, and since when (ms)."""
        self._postponed = False
        self._waits_to_read = False
        """Whether the request that parked waits for records."""
        self._held = False
        self._muted = False
        """Whether it is not heard because its client has used too much (KIP-219)."""
        self._clogged = False

    # ------------------------------------------------------------------ what arrives

    @property
    @abstractmethod
    def waiting_bytes(self) -> int:
        """How much has arrived that is not being served yet."""

    def received(self, data: bytes) -> None:
        """Bytes mean nothing where messages are handed over."""
        self.close("unexpected_bytes", bytes=len(data))

    def handed(self, messages: Sequence[Message]) -> None:
        """Messages mean nothing where bytes are sent."""
        self.close("unexpected_messages", messages=len(messages))

    @abstractmethod
    def _take(self) -> R | None:
        """The next request that has arrived as a whole."""

    @abstractmethod
    def _serve(self, request: R) -> None:
        """Begin to serve a request."""

    @abstractmethod
    def _write(self, handler: Handler, call: Call, response: object) -> None:
        """Answer a request."""

    @abstractmethod
    def _forget(self) -> None:
        """Serve nothing of what has arrived."""

    def _hold_if_full(self) -> None:
        if self.waiting_bytes >= WAITING_BYTES_MAX:
            self._hold()

    # ------------------------------------------------------------------ its turns

    def clogged(self) -> None:
        """The client reads too slowly: serve nothing more until it has caught up."""
        self._clogged = True
        self._hold()

    def drained(self) -> None:
        """The client has caught up."""
        self._clogged = False
        if self._flow is None and not self._gave_way:
            self._go_on()

    def turn(self) -> None:
        """Others have had theirs: go on with the next request."""
        self._gave_way = False
        if not self.closing:
            self._go_on()

    def gone(self) -> None:
        """The client is gone; what it has sent before is served up to the first answer, as in Kafka.

        A producer with acks=0 sends and hangs up, and nothing of that is lost; a Produce that waits for its coordinator
        is appended. Only a Fetch ends at once, because nobody is left to read what it waits for.
        """
        waits = self._gave_way or (self._muted and self.waiting_bytes > 0)
        if (self.idle and not waits) or self._clogged or self._waits_to_read:
            self.disconnected()
        else:
            self._gone = True

    def disconnected(self) -> None:
        """The connection is over at once; a parked request ends, what it has appended stands."""
        self.closing = True
        if self._muted:
            self._node.timers.set(("muted", self.conn), None, self._unmute)
        self._next = None
        self._forget()
        if self._flow is not None:
            if not self._postponed:
                self._node.kernel.close(self._flow)
            self._flow = None

    def close(self, reason: str, **fields: object) -> None:
        """Hang up, with a log line that says why."""
        if self.closing:
            return
        tell = self._node.log.info if reason == CLOSED_BY_RULE else self._node.log.warning
        tell("connection_closed", reason=reason, host=self.host, port=self.port, **fields)
        self.disconnected()
        self._node.outbox.part_with(self)

    @property
    def idle(self) -> bool:
        """Whether no request is being served or waiting."""
        return self._flow is None and self._next is None

    @property
    def parked(self) -> tuple[Call, Flow, int] | None:
        """The request that waits for something, its flow, and since when (ms); None if none does."""
        if self._flow is None or self._parked is None:
            return None
        call, since = self._parked
        return call, self._flow, since

    def _go_on(self) -> None:
        """Serve what has arrived until a request parks or the turn is over."""
        if self._clogged or self._muted:
            return
        request = self._take()
        while request is not None:
            try:
                self._serve(request)
            except Exception as error:
                self._node.log.error("step_failed", node=self._node.node_id, exc_info=error)
                self.close("internal_error")
            if self.closing:
                return
            if self._flow is not None or self._muted:
                break
            request = self._take()
            if request is not None and (self.out_bytes >= ANSWER_BYTES_MAX or self._node.turns.is_over()):
                self._next = request
                self._gave_way = True
                self._node.turns.later(self.turn)
                break
        if self._gone:
            if self._flow is None and not self._gave_way and not self._muted:
                self.disconnected()
        elif request is not None and self.waiting_bytes >= WAITING_BYTES_MAX:
            self._hold()
        elif self._held and request is None and not self.closing:
            self._held = False
            self._node.outbox.resume(self.conn)

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._node.outbox.hold(self.conn)

    def mute(self, milliseconds: int) -> None:
        """Hear nothing more of the client for so long; what it was answered leaves at once."""
        if self.closing:
            return
        self._muted = True
        self._node.timers.set(("muted", self.conn), self._node.now + milliseconds, self._unmute)
        self._hold()

    def _unmute(self) -> None:
        self._muted = False
        if not self.closing and self._flow is None and not self._gave_way:
            self._go_on()

    def answer(self, handler: Handler, call: Call, response: object) -> None:
        """Send the response to a request that the SASL gate has served."""
        self._respond(handler, call, response)

    # ------------------------------------------------------------------ one request

    def _call(self, handler: Handler, call: Call) -> None:
        serving, self._postponed = begin(self._node, handler, call)
        self._run(serving, self._served, handler, call)

    def _run(self, coroutine: Any, finish: Finish, handler: Handler, call: Call) -> None:
        """One stage of a request: it is read, served, written; only long ones park while they are read or written."""
        try:
            wait = coroutine.send(None)
        except StopIteration as stop:
            finish(handler, call, stop.value, None)
        except Exception as error:
            finish(handler, call, None, error)
        else:
            if call.meter is not None:
                call.meter.pause()
                coroutine = Metered(coroutine, call.meter)
            self._waits_to_read = handler.api_key in WAIT_TO_READ and not isinstance(wait, Pause)
            flow = Flow(coroutine, lambda value, error: self._done(finish, handler, call, value, error))
            self._flow = flow
            self._parked = call, self._node.now
            self._node.kernel.park(flow, wait)

    def _done(self, finish: Finish, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        self._flow = None
        self._waits_to_read = False
        self._postponed = False
        if self.closing:
            return
        finish(handler, call, value, error)
        if not self.closing and self._flow is None:
            self._go_on()

    def _served(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
            return
        if call.meter is not None or self._node.faults is not None:
            value = self._throttled(call, value)
        if call.is_long and value is not None:
            self._respond_long(handler, call, value)
        else:
            self._respond(handler, call, value)

    def _respond_long(self, handler: Handler, call: Call, response: object) -> None:
        """Answer a request whose answer may take long to write."""
        self._respond(handler, call, response)

    def _throttled(self, call: Call, response: Any) -> Any:
        """The answer of who has used too much, and whom a rule throttles; the connection is muted for that long."""
        if call.meter is not None and self._node.quotas is not None:
            response, milliseconds = self._node.quotas.served(call, response)
        else:
            milliseconds = getattr(response, "throttle_time_ms", 0)
        if milliseconds > 0 and not call.is_broker:
            self.mute(milliseconds)
        return response

    def _failed(self, handler: Handler, call: Call, error: BaseException) -> None:
        if isinstance(error, CloseConnection):
            self.close(str(error), api=call.api_key.name, version=call.version)
            return
        self._log_failure(call, error)
        self._answer_failure(handler, call)

    def _log_failure(self, call: Call, error: BaseException) -> None:
        fields: dict[str, object] = {"api": call.api_key.name, "version": call.version, "client_id": call.client_id}
        if isinstance(error, EncodeError):
            # A client can bring this about: what it calls things comes back inside a longer text.
            self._node.log.warning("answer_unwritable", **fields, error=str(error))
        else:
            self._node.log.error("request_failed", **fields, exc_info=error)

    def _answer_failure(self, handler: Handler, call: Call) -> None:
        """Say UNKNOWN_SERVER_ERROR where the API can say it, else hang up."""
        from odradek.host.failures import error_response  # needed by failures alone

        try:
            response = error_response(call)
            if response is not None:
                self._write(handler, call, response)
                return
        except Exception as error:
            self._log_failure(call, error)
        self.close("internal_error", api=call.api_key.name, version=call.version)

    def _respond(self, handler: Handler, call: Call, response: object) -> None:
        if response is None:
            return
        try:
            self._write(handler, call, response)
        except Exception as error:
            self._failed(handler, call, error)
        if call.meter is not None and self._node.quotas is not None:
            self._node.quotas.written(call)


Accepted: TypeAlias = Exchange[Any]
"""An accepted connection, whatever arrives over it."""
