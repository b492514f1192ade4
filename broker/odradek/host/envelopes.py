"""Envelope (key 58), version 0 (KIP-590): a client's request that a broker forwards, with the client's identity."""

from __future__ import annotations

from struct import Struct as Layout
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.access.principal import Peer, Principal
from odradek.host.bodies import PACKED, kept_message
from odradek.host.call import Call, CloseConnection
from odradek.host.endpoint import endpoint
from odradek.host.exchange import begin, tell_response
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import ENVELOPE
from odradek.wire.messages.default_principal_data import DefaultPrincipalData
from odradek.wire.messages.envelope_request import EnvelopeRequest
from odradek.wire.messages.envelope_response import EnvelopeResponse
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.wire.codecs import Codecs

__all__ = ["EnvelopeApi", "ask_in_an_envelope"]

R = TypeVar("R", bound=Struct)

_VERSION = Layout(">h")
_HEADER = Layout(">hh")
PRINCIPAL_VERSION = 0


async def ask_in_an_envelope(peers: Peers, codecs: Codecs, call: Call, request: Struct, answer: type[R]) -> R | None:
    """The controller's response to a request of this call's client; None if it cannot be reached in time."""
    api_key, version = call.api_key, call.version
    header = RequestHeader(int(api_key), version, call.correlation_id, call.client_id)
    principal = call.peer.principal
    whose = DefaultPrincipalData(type=principal.type, name=principal.name)
    sent = EnvelopeRequest(
        request_data=registry.encode(header, codecs.request_header_version(api_key, version))
        + codecs.encode(request, version),
        request_principal=_VERSION.pack(PRINCIPAL_VERSION) + registry.encode(whose, PRINCIPAL_VERSION),
        client_host_address=call.host.encode(),
    )
    enveloped = await peers.call_controller(ApiKey.ENVELOPE, sent, 0, EnvelopeResponse)
    if enveloped is None or enveloped.error_code or enveloped.response_data is None:
        return None
    frame = memoryview(bytes(enveloped.response_data))
    header_version = codecs.response_header_version(api_key, version)
    _, position = registry.reader(ResponseHeader, header_version)(frame, 0)
    response, _ = codecs.reader(registry.response_type(api_key), version)(frame, position)
    assert isinstance(response, answer), f"{api_key.name} is answered with {answer.__name__}"
    return response


class EnvelopeApi:
    def __init__(self, node: Serving) -> None:
        self._node = node

    @endpoint(ENVELOPE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def envelope(self, call: Call[EnvelopeRequest]) -> EnvelopeResponse:
        """Envelope (key 58), version 0: serve its request as if the client had sent it here; for brokers only."""
        request = call.request
        frame = memoryview(bytes(request.request_data))
        api_key, version = _HEADER.unpack_from(frame)
        handler = self._node.router.handler(api_key, version, broker=True)
        if handler is None:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        codecs = self._node.codecs
        header_version = codecs.request_header_version(handler.api_key, version)
        header, position = registry.reader(RequestHeader, header_version)(frame, 0)
        whose = bytes(request.request_principal or b"")
        principal, _ = registry.reader(DefaultPrincipalData, PRINCIPAL_VERSION)(memoryview(whose), _VERSION.size)
        passed_on = Call(
            handler.api_key,
            version,
            header.correlation_id,
            header.client_id,
            handler.read(frame, position)[0],
            bytes(request.client_host_address).decode(),
            is_broker=True,
            peer=Peer(principal=Principal(principal.name, principal.type)),
            passed_on=True,
            # The correlation id is the client's: on a connection between brokers the request has its own number.
            conn=-self._node.counters.requests,
        )
        serving, _ = begin(self._node, handler, passed_on)
        response = await serving
        if response is None:
            raise CloseConnection("no_answer_to_an_envelope")
        if passed_on.told is not None:
            tell_response(self._node, passed_on.told, response, kept_message(response), PACKED)
        answered = ResponseHeader(header.correlation_id)
        return EnvelopeResponse(
            response_data=registry.encode(answered, codecs.response_header_version(handler.api_key, version))
            + codecs.encode(response, version)
        )
