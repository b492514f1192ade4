"""The login of one connection, as in Kafka's SaslServerAuthenticator.

A client may ask for the versions once, then names a mechanism and logs in by it. Anything else ends the connection,
after an answer where Kafka gives one. A client must log in again on the same connection before its session ends
(KIP-368).
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812
from typing import TYPE_CHECKING

from odradek.access.logins import begin_login
from odradek.access.mechanisms import Admitted, LoginFailed
from odradek.access.principal import Peer, Principal
from odradek.host.call import UNREAD, Call
from odradek.host.exchange import tell_request
from odradek.host.failures import error_response
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from odradek.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake_response import SaslHandshakeResponse
from odradek.wire.primitives import Malformed, unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from msgspec import Struct

    from odradek.access.mechanisms import Exchange, Outcome, SaslListener
    from odradek.host.connection import Connection
    from odradek.host.exchange import Serving
    from odradek.host.router import Handler

__all__ = ["Gate"]


_HEADER = Layout(">hhih")
_LENGTH = Layout(">i")
HEADERS_SINCE = 1
"""The first version of SaslHandshake after which tokens come in requests; before it each token is a frame (KIP-152)."""
SESSION_MS_MAX = (2**63 - 1) // 10**6
"""Kafka counts session lifetimes in ns as a Java long, and closes the connection if one is too large."""
AGAIN_AFTER_MS = 1000
"""A client may not log in again within this time (ms) after its last login."""


class State(Enum):
    NOTHING_SAID = "nothing said"
    VERSIONS_TOLD = "versions told"
    LOGGING_IN = "logging in"
    LOGGING_IN_BARE = "logging in, with bare tokens"
    IN = "in"
    OVER = "over"


class Gate:
    """The login of one connection: requests reach the node only after the client has logged in."""

    def __init__(self, node: Serving, listener: SaslListener) -> None:
        self._listener = listener
        self._secrets = node.secrets
        self._router = node.router
        self._clock = node.clock
        self._timers = node.timers
        self._counters = node.counters
        self._node = node
        self._bytes_max = node.config.socket_request_max_bytes
        self.logins = 0
        """The number of successful logins of this connection."""
        self._state = State.NOTHING_SAID
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._before: tuple[Principal, str] | None = None
        """The principal and mechanism of the first login, which a later login must repeat."""
        self._principal: Principal | None = None
        self._expires_at: int | None = None
        self._began_again_at: int | None = None

    def frame_bytes_max(self) -> int:
        return self._bytes_max if self._state is State.IN else self._listener.receive_bytes_max

    def admits(self, connection: Connection, frame: memoryview) -> bool:
        """Whether the node is to serve the request; False if the login has answered it, or ends the connection."""
        if self._state is State.IN:
            return self._is_still_in(connection, frame)
        if self._state is State.OVER:
            return False
        if self._state is State.LOGGING_IN_BARE:
            self._take_bare(connection, bytes(frame))
            return False
        try:
            api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
        except LayoutError:
            return True  # such a frame is malformed and ends the connection
        if self._state is not State.LOGGING_IN and api_key == ApiKey.API_VERSIONS:
            return self._versions(connection, version)
        handler = self._router.handler(api_key, version, broker=False)
        if handler is None:
            self._close(connection, "unsupported_api", api_key=api_key, version=version)
            return False
        position = _HEADER.size + max(0, client_id_length)
        client_id = None if client_id_length < 0 else bytes(frame[_HEADER.size : position]).decode(errors="replace")
        call = Call(
            handler.api_key,
            version,
            correlation_id,
            client_id,
            UNREAD,
            connection.host,
            False,
            conn=connection.conn,
        )
        try:
            if handler.flexible_request:
                _, position = unknown_tags(frame, position + 1, frame[position])
            call.request, _ = handler.read(frame, position)
        except (DecodeError, Malformed, IndexError) as error:
            self._close(connection, "malformed_request", api=call.api_key.name, error=str(error))
            return False
        if self._node.facts.told:
            call.frame, call.start = frame, position
            tell_request(self._node, handler, call)
        if self._state is State.LOGGING_IN:
            self._log_in(connection, handler, call)
        elif handler.api_key is ApiKey.SASL_HANDSHAKE:
            self._shake_hands(connection, handler, call)
        else:
            self._close(connection, "request_before_login", api=handler.api_key.name)
        return False

    def _versions(self, connection: Connection, version: int) -> bool:
        if self._state is not State.NOTHING_SAID:
            self._close(connection, "request_before_login", api=ApiKey.API_VERSIONS.name)
            return False
        if self._router.handler(ApiKey.API_VERSIONS, version, broker=False) is not None:
            self._state = State.VERSIONS_TOLD
        return True

    def _shake_hands(self, connection: Connection, handler: Handler, call: Call) -> None:
        mechanism = call.request_of(SASL_HANDSHAKE).mechanism
        served = list(self._listener.mechanisms)
        if mechanism not in served and self._before is not None:
            # To a client that is logged in already, Kafka sends no answer here.
            self._close(connection, "unsupported_sasl_mechanism")
            return
        if mechanism not in served:
            answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=served)
            connection.answer(handler, call, answer)
            self._close(connection, "unsupported_sasl_mechanism")
            return
        self._mechanism = mechanism
        nonce = f"{self._secrets.getrandbits(160):x}"
        self._exchange = begin_login(mechanism, self._listener.accounts, nonce=nonce, now_ms=self._clock.now)
        self._state = State.LOGGING_IN if call.version >= HEADERS_SINCE else State.LOGGING_IN_BARE
        connection.answer(handler, call, SaslHandshakeResponse(mechanisms=served))

    def _log_in(self, connection: Connection, handler: Handler, call: Call) -> None:
        if handler.api_key is not ApiKey.SASL_AUTHENTICATE:
            self._fail(connection, handler, call, error_response(call, ErrorCode.ILLEGAL_SASL_STATE))
            return
        if self._before is not None and self._before[1] != self._mechanism:
            self._close(connection, "sasl_mechanism_changed")
            return
        try:
            outcome = self._respond(bytes(call.request_of(SASL_AUTHENTICATE).auth_bytes))
        except LoginFailed as failed:
            answer = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=self._told(failed)
            )
            self._fail(connection, handler, call, answer)
            return
        lifetime_ms = self._let_in(connection, outcome) if isinstance(outcome, Admitted) else 0
        if lifetime_ms is None:
            return
        connection.answer(
            handler,
            call,
            SaslAuthenticateResponse(error_message="", auth_bytes=outcome.said, session_lifetime_ms=lifetime_ms),
        )

    def _take_bare(self, connection: Connection, said: bytes) -> None:
        try:
            outcome = self._respond(said)
        except LoginFailed:
            self._fail(connection, None, None, None)
            return
        if isinstance(outcome, Admitted) and self._let_in(connection, outcome) is None:
            return
        connection.send(_LENGTH.pack(len(outcome.said)) + outcome.said)

    def _respond(self, said: bytes) -> Outcome:
        assert self._exchange is not None, "hands were shaken"
        outcome = self._exchange.respond(said)
        if isinstance(outcome, Admitted) and self._before is not None:
            before, now = self._before[0], Principal(outcome.name)
            if before != now:
                raise LoginFailed(
                    f"Cannot change principals during re-authentication from {before.type}.{before.name}:"
                    f" {now.type}.{now.name}"
                )
        return outcome

    def _told(self, failed: LoginFailed) -> str:
        if failed.told is not None:
            return failed.told
        again = "re-authentication" if self._before is not None else "authentication"
        return f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _let_in(self, connection: Connection, admitted: Admitted) -> int | None:
        """Note a login that lasts for this time in ms; 0: without end, None: too long to be counted."""
        lifetime_ms = self._lifetime_ms(admitted)
        if lifetime_ms is not None and lifetime_ms > SESSION_MS_MAX:
            self._close(connection, "session_beyond_time")
            return None
        self.logins += 1
        self._state = State.IN
        self._exchange = None
        self._principal = Principal(admitted.name)
        connection.peer = Peer(connection.peer.listener, self._principal, admitted.by_token)
        connection.frame_bytes_max(self._bytes_max)
        self._expires_at = None if lifetime_ms is None else self._clock.now + lifetime_ms
        return lifetime_ms or 0

    def _lifetime_ms(self, admitted: Admitted) -> int | None:
        """The lifetime of the session in ms; None if the session does not end."""
        lifetimes = []
        reauth_ms = self._listener.reauth_ms[self._mechanism]
        if reauth_ms > 0:
            lifetimes.append(reauth_ms)
        if admitted.expires_at_ms is not None:
            lifetimes.append(max(0, admitted.expires_at_ms - self._clock.now))
        return min(lifetimes, default=None)

    def _is_still_in(self, connection: Connection, frame: memoryview) -> bool:
        now = self._clock.now
        if int.from_bytes(frame[:2]) == ApiKey.SASL_HANDSHAKE and self._may_again(now):
            assert self._principal is not None
            self._before = self._principal, self._mechanism
            self._began_again_at = now
            self._state = State.VERSIONS_TOLD
            connection.frame_bytes_max(self._listener.receive_bytes_max)
            return self.admits(connection, frame)
        # Kafka counts in ns, so a session with a lifetime of 0 ms is over before the next request.
        if self._expires_at is not None and now >= self._expires_at:
            self._counters.sessions_expired += 1
            self._close(connection, "session_expired")
            return False
        return True

    def _may_again(self, now: int) -> bool:
        return self._began_again_at is None or now - self._began_again_at >= AGAIN_AFTER_MS

    def _fail(self, connection: Connection, handler: Handler | None, call: Call | None, answer: Struct | None) -> None:
        """Answer a failed login after `connection.failed.authentication.delay.ms`, and close the connection."""
        self._state = State.OVER
        self._counters.logins_again_refused += self._before is not None
        act = partial(self._tell_and_close, connection, handler, call, answer)
        delay_ms = self._listener.failed_delay_ms
        if delay_ms <= 0:
            act()
        else:
            self._timers.set(("login failed", connection.conn), self._clock.now + delay_ms, act)

    def _tell_and_close(
        self, connection: Connection, handler: Handler | None, call: Call | None, answer: Struct | None
    ) -> None:
        if connection.closing:
            return
        if handler is not None and call is not None and answer is not None:
            connection.answer(handler, call, answer)
        self._close(connection, "login_failed", mechanism=self._mechanism)

    def _close(self, connection: Connection, reason: str, **fields: object) -> None:
        self._state = State.OVER
        self._counters.logins_refused += 1
        connection.close(reason, listener=connection.peer.listener, **fields)
