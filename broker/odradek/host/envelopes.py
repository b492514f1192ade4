"""Envelope (key 58), version 0 (KIP-590): a client's request that a broker passes on, and who the client is."""

from __future__ import annotations

from struct import Struct as Layout
from typing import Protocol, TypeVar

from msgspec import Struct

from odradek.access.principal import Peer, Principal
from odradek.host.bodies import PACKED, kept_message
from odradek.host.call import Call, CloseConnection
from odradek.host.peers import HasPeers
from odradek.host.router import HasRouter
from odradek.host.seams import HasConfig
from odradek.host.serving import Node as ServingNode
from odradek.host.serving import begin, tell_response
from odradek.wire import registry
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.default_principal_data import DefaultPrincipalData
from odradek.wire.messages.envelope_request import EnvelopeRequest
from odradek.wire.messages.envelope_response import EnvelopeResponse
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.registry import ApiKey

__all__ = ["ask_in_an_envelope", "envelope"]

R = TypeVar("R", bound=Struct)

_VERSION = Layout(">h")
_HEADER = Layout(">hh")
PRINCIPAL_VERSION = 0


class Passes(HasConfig, HasPeers, Protocol):
    """What a broker needs to pass a request on."""


class Node(ServingNode, HasConfig, HasRouter, Protocol):
    """What the controller needs to serve one that was passed on."""


async def ask_in_an_envelope(node: Passes, call: Call, request: Struct, answer: type[R]) -> R | None:
    """The controller's response to a request of this call's client; None if it cannot be reached in time."""
    codecs = node.release.codecs or PLAIN
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
    enveloped = await node.peers.call_controller(ApiKey.ENVELOPE, sent, 0, EnvelopeResponse)
    if enveloped is None or enveloped.error_code or enveloped.response_data is None:
        return None
    frame = memoryview(bytes(enveloped.response_data))
    header_version = codecs.response_header_version(api_key, version)
    _, position = registry.reader(ResponseHeader, header_version)(frame, 0)
    response, _ = codecs.reader(registry.response_type(api_key), version)(frame, position)
    assert isinstance(response, answer), f"{api_key.name} is answered with {answer.__name__}"
    return response


async def envelope(node: Node, call: Call) -> EnvelopeResponse:
    """Serve what is inside as if its client had asked here; only brokers ask."""
    request: EnvelopeRequest = call.request
    frame = memoryview(bytes(request.request_data))
    api_key, version = _HEADER.unpack_from(frame)
    handler = node.router.handler(api_key, version, broker=True)
    if handler is None:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    codecs = node.release.codecs or PLAIN
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
        # Its correlation id is its client's, and says nothing on a connection of brokers: it has a number of its own.
        conn=-node.metrics.requests,
    )
    serving, _ = begin(node, handler, passed_on)
    response = await serving
    if response is None:
        raise CloseConnection("no_answer_to_an_envelope")
    if passed_on.told is not None:
        tell_response(node, passed_on.told, response, kept_message(response), PACKED)
    answered = ResponseHeader(header.correlation_id)
    return EnvelopeResponse(
        response_data=registry.encode(answered, codecs.response_header_version(handler.api_key, version))
        + codecs.encode(response, version)
    )
