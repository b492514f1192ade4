"""One request at a time, responses in order: common to all connections, with bytes or with messages.

A parked request holds back the requests behind it, as in Kafka; arrived bytes wait, and above a limit the driver has to
stop reading. A connection with more requests when its turn is over gives way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.flow import Flow
from odradek.core.machine import Fact
from odradek.core.turns import Pause
from odradek.host.bodies import Kept, kept_frame, kept_message
from odradek.host.call import CLOSED_BY_RULE, Call, CloseConnection
from odradek.host.host import Host
from odradek.host.meter import Metered
from odradek.host.outbox import Outgoing
from odradek.host.request_facts import RequestFact, ResponseFact
from odradek.host.router import Handler, Router
from odradek.log.disk import DiskError
from odradek.wire.error_fields import first_error
from odradek.wire.errors import DecodeError, EncodeError, ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.faults.interception import Faults
    from odradek.host.events import HandedRequest, Message
    from odradek.limits.quotas import Quotas
    from odradek.wire.frame import FrameBuffer

__all__ = [
    "WAIT_TO_READ",
    "Arrived",
    "Exchange",
    "HandedRequests",
    "Serving",
    "asks_itself",
    "begin",
    "tell_request",
    "tell_response",
]


WAIT_TO_READ = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""APIs whose parked requests wait for records."""
WAITING_BYTES_MAX = 1024 * 1024
"""Reading from a connection stops at this number of bytes that wait to be served."""
ANSWER_BYTES_MAX = 256 * 1024
"""The turn of a connection is over after responses of this size (bytes)."""


T = TypeVar("T")
"""The outcome of one stage of a request: what was read, the response, what was written."""
Finish = Callable[[Handler, Call, T | None, BaseException | None], None]
"""Takes it, or the error in its place."""


Arrived: TypeAlias = "memoryview | HandedRequest"
"""A request as it arrives: the bytes of a frame, or a message."""


class HandedRequests(deque["HandedRequest"]):
    """Messages that have arrived, as `FrameBuffer` has bytes."""

    @property
    def held(self) -> int:
        """How many."""
        return len(self)

    def take(self) -> HandedRequest | None:
        """The next one; None if there is none."""
        return self.popleft() if self else None


_NO_FIELDS: dict[str, object] = {}


def begin(node: Serving, handler: Handler, call: Call) -> tuple[Coroutine[object, None, Struct | None], bool]:
    """The flow that serves a request, and whether a rule delays it.

    A request that a rule holds or delays is served even if its client has disconnected, as if it had already been on
    the wire.
    """
    node.counters.requests += 1
    if node.facts.told:
        tell_request(node, handler, call)
    if node.faults is not None and node.faults.intercepts(call):
        postponed = node.faults.postpones
        return node.faults.serve(handler, call), postponed
    return handler.serve(call), False


def asks_itself(node: Serving, node_id: int, api_key: ApiKey) -> bool:
    """Whether a request to this broker is a method call; it is counted as a request all the same.

    It is one for this broker, in the newest version and without a dialect's step, while neither an event log nor a rule
    looks
    at its messages.
    """
    if node_id != node.node_id or not node.calls_itself or node.faults is not None or node.facts.told:
        return False
    if api_key not in node.router.own:
        return False
    node.counters.requests += 1
    return True


def tell_request(node: Host, handler: Handler, call: Call) -> None:
    """Emit the event of a request."""
    frame, request = call.frame, call.request
    fact = RequestFact(
        "request",
        _NO_FIELDS,
        handler.api,
        call.correlation_id,
        call.client_id,
        call.is_broker,
        call.conn,
        node.clock.now,
        kept_message(request) if frame is None else kept_frame(handler.api, frame, call.start, request),
        call.start,
    )
    call.frame, call.told = None, fact
    node.facts.tell(fact)


def tell_response(node: Host, request: Fact, response: Struct, kept: Kept, start: int) -> None:
    """Emit the event of the response to a request that had an event."""
    assert isinstance(request, RequestFact), "a call knows what was told of it"
    error, duration_ms = first_error(response), node.clock.now - request.at_ms
    node.facts.tell(ResponseFact("response", _NO_FIELDS, request, error, duration_ms, kept, start))


class Serving(Host):
    """A host that serves requests; `odradek.broker.Node` has the subjects as well."""

    faults: Faults | None = None
    """The rules of the cluster at this broker; None while there are none."""
    quotas: Quotas | None = None
    """The limits of clients; None in a cluster that never had any."""

    @cached_property
    def connections(self) -> dict[int, Exchange]:
        """The connections of clients and of other brokers, by number."""
        return {}

    @cached_property
    def router(self) -> Router:
        """The APIs and versions that are served, and their functions."""
        config = self.settings.at_start
        return Router(
            self.release,
            unstable_versions=config.unstable_api_versions_enable,
            tells_all=config.odradek_telemetry,
            node=self,
        )


class Exchange(Outgoing, ABC):
    """The requests of an accepted connection, and the responses."""

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
        "_source",
        "_waits_to_read",
        "broker",
        "closing",
        "host",
        "last_active",
        "peer",
        "port",
        "software",
    )
    writes_in_parts = False
    """Whether responses may take long to encode, because they are bytes."""

    def __init__(
        self,
        node: Serving,
        conn: int,
        source: FrameBuffer | HandedRequests,
        *,
        host: str,
        port: int,
        broker: bool,
        peer: Peer = SOMEBODY,
    ) -> None:
        super().__init__(conn)
        self._source = source
        self._node = node
        self.host = host
        self.port = port
        self.broker = broker
        self.peer = peer
        self.software = ("unknown", "unknown")
        """Name and version of the client's library, if its ApiVersions had them (KIP-511)."""
        self.closing = False
        self.last_active = node.clock.now
        self._next: Arrived | None = None
        """The request with which the connection goes on in its next turn."""
        self._gave_way = False
        self._gone = False
        self._flow: Flow[object] | None = None
        self._parked: tuple[Call, int] | None = None
        """The parked request, and since when (ms)."""
        self._postponed = False
        self._waits_to_read = False
        """Whether the parked request waits for records."""
        self._held = False
        self._muted = False
        """Whether requests are ignored because the client is over its quota (KIP-219)."""
        self._clogged = False

    @property
    @abstractmethod
    def waiting_bytes(self) -> int:
        """Number of bytes that have arrived and are not being served yet."""

    def received(self, data: bytes | memoryview) -> None:
        """Take bytes; only connections of sockets get any."""
        self.close("unexpected_bytes", bytes=len(data))

    def gathered(self, whole: memoryview) -> None:
        """See `received`."""
        self.received(whole)

    def handed(self, messages: Sequence[Message]) -> None:
        """Take messages; only connections within the process get any."""
        self.close("unexpected_messages", messages=len(messages))

    @abstractmethod
    def _serve(self, request: Arrived) -> None:
        """Begin to serve a request."""

    @abstractmethod
    def _write(self, handler: Handler, call: Call, response: Struct) -> None:
        """Send the response to a request."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop everything that has arrived."""

    def _hold_if_full(self) -> None:
        if self.waiting_bytes >= WAITING_BYTES_MAX:
            self._hold()

    def clogged(self) -> None:
        """The client reads too slowly: serve nothing until its buffer has room."""
        self._clogged = True
        self._hold()

    def drained(self) -> None:
        """The client's buffer has room again."""
        self._clogged = False
        if self._flow is None and not self._gave_way:
            self._go_on()

    def turn(self) -> None:
        """The connection's next turn: go on with the next request."""
        self._gave_way = False
        if not self.closing:
            self._go_on()

    def gone(self) -> None:
        """The client is gone; its requests are served up to the first answer, as in Kafka.

        A producer with acks=0 sends and disconnects, and none of its records is lost; a Produce that waits for its
        coordinator is
        appended. Only a Fetch ends at once, because nobody needs its records.
        """
        waits = self._gave_way or (self._muted and self.waiting_bytes > 0)
        if (self.idle and not waits) or self._clogged or self._waits_to_read:
            self.disconnected()
        else:
            self._gone = True

    def disconnected(self) -> None:
        """End the connection at once, and a parked request with it; appended records stay."""
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
        """Close the connection, with the reason in the log."""
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
    def parked(self) -> tuple[Call, Flow[object], int] | None:
        """The parked request, its flow, and since when (ms); None if there is none."""
        if self._flow is None or self._parked is None:
            return None
        call, since = self._parked
        return call, self._flow, since

    def _go_on(self) -> None:
        """Serve the requests that have arrived, until one parks or the turn is over."""
        if self._clogged or self._muted:
            return
        has_served, source = False, self._source
        while True:
            request, self._next = self._next, None
            if request is None:
                if not source.held:
                    break
                try:
                    request = source.take()
                except DecodeError as error:
                    self.close("malformed_frame", error=str(error))
                    return
                if request is None:
                    break
            if has_served and (self.out_bytes >= ANSWER_BYTES_MAX or self._node.turns.is_over()):
                self._next = request
                self._gave_way = True
                self._node.turns.later(self.turn)
                break
            try:
                self._serve(request)
            except Exception as error:
                self._node.log.error("step_failed", node=self._node.node_id, exc_info=error)
                self.close("internal_error")
            has_served = True
            if self.closing:
                return
            if self._flow is not None or self._muted:
                if self._waits_to_read:
                    self._look_behind()
                break
        if self._gone:
            if self._flow is None and not self._gave_way and not self._muted:
                self.disconnected()
        elif request is not None and self.waiting_bytes >= WAITING_BYTES_MAX:
            self._hold()
        elif self._held and request is None and not self.closing:
            self._held = False
            self._node.outbox.resume(self.conn)

    def _look_behind(self) -> None:
        """A request waits for records: end that wait if there is a request behind it that does not wait."""

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._node.outbox.hold(self.conn)

    def mute(self, milliseconds: int) -> None:
        """Serve no further request of the client for this time; its response leaves at once."""
        if self.closing:
            return
        self._muted = True
        self._node.timers.set(("muted", self.conn), self._node.clock.now + milliseconds, self._unmute)
        self._hold()

    def _unmute(self) -> None:
        self._muted = False
        if not self.closing and self._flow is None and not self._gave_way:
            self._go_on()

    def answer(self, handler: Handler, call: Call, response: Struct | None) -> None:
        """Send the response to a request that the SASL gate has served."""
        self._served(handler, call, response, None)

    def _call(self, handler: Handler, call: Call) -> None:
        serving, self._postponed = begin(self._node, handler, call)
        self._run(serving, self._served, handler, call)

    def _run(self, coroutine: Coroutine[object, None, T], finish: Finish[T], handler: Handler, call: Call) -> None:
        """One stage of a request: decoding, serving or encoding; only long requests park in the first and last."""
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
            self._parked = call, self._node.clock.now
            self._node.kernel.park(flow, wait)

    def _done(
        self, finish: Finish[T], handler: Handler, call: Call, value: T | None, error: BaseException | None
    ) -> None:
        self._flow = None
        self._waits_to_read = False
        self._postponed = False
        if self.closing:
            return
        finish(handler, call, value, error)
        if not self.closing and self._flow is None:
            self._go_on()

    def _served(self, handler: Handler, call: Call, value: Struct | None, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
            return
        if call.meter is not None or self._node.faults is not None:
            value = self._throttled(call, value)
        if value is None:
            return
        if call.is_long and self.writes_in_parts:
            self._write_in_parts(handler, call, value)
            return
        try:
            self._write(handler, call, value)
        except Exception as failed:
            self._failed(handler, call, failed)
        if call.meter is not None and self._node.quotas is not None:
            self._node.quotas.written(call)

    def _write_in_parts(self, handler: Handler, call: Call, response: Struct) -> None:
        """Send a response that may take long to encode."""
        raise NotImplementedError

    def _throttled(self, call: Call, response: Struct | None) -> Struct | None:
        """The response with its throttle time; the connection is muted for that time."""
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
        is_of_disk = isinstance(error, DiskError)
        self._answer_failure(
            handler, call, ErrorCode.KAFKA_STORAGE_ERROR if is_of_disk else ErrorCode.UNKNOWN_SERVER_ERROR
        )

    def _log_failure(self, call: Call, error: BaseException) -> None:
        fields: dict[str, object] = {"api": call.api_key.name, "version": call.version, "client_id": call.client_id}
        if isinstance(error, EncodeError):
            # A client can bring this about: what it calls things comes back inside a longer text.
            self._node.log.warning("answer_unwritable", **fields, error=str(error))
        elif not isinstance(error, DiskError):  # the disk reports its failures itself
            self._node.log.error("request_failed", **fields, exc_info=error)

    def _answer_failure(self, handler: Handler, call: Call, code: ErrorCode) -> None:
        """Answer this error if the API has a place for it, else close the connection."""
        from odradek.host.failures import error_response  # needed by failures alone

        try:
            response = error_response(call, code)
            if response is not None:
                self._write(handler, call, response)
                return
        except Exception as error:
            self._log_failure(call, error)
        self.close("internal_error", api=call.api_key.name, version=call.version)
