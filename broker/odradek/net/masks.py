"""Credentials in what clients send, hidden before it is kept: other bytes stand in their place, and as many.

Where no listener asks clients who they are the brokers' answers do not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct as Layout

from msgspec import Struct

from odradek.metadata.secrets import may_be_shown
from odradek.wire import registry
from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.messages import ApiKey
from odradek.wire.messages.alter_configs_request import AlterConfigsRequest
from odradek.wire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.registry import reader, request_header_version, request_type

__all__ = ["InParts", "Mask"]

_HEAD = Layout(">ihh")
"""The length of a frame, the API of its request, and its version."""
LENGTH_BYTES = 4


class InParts(Exception):
    """A request with credentials arrives in parts, or cannot be read, so that they cannot be told from the rest."""


def _authentication(request: Struct) -> None:
    assert isinstance(request, SaslAuthenticateRequest), "the reader of its API"
    request.auth_bytes = bytes(len(request.auth_bytes))


def _scram(request: Struct) -> None:
    assert isinstance(request, AlterUserScramCredentialsRequest), "the reader of its API"
    for each in request.upsertions:
        each.salt, each.salted_password = bytes(len(each.salt)), bytes(len(each.salted_password))


def _token(request: Struct) -> None:
    assert isinstance(request, RenewDelegationTokenRequest | ExpireDelegationTokenRequest), "the reader of its API"
    request.hmac = bytes(len(request.hmac))


def _configs(request: Struct) -> None:
    assert isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest), "the reader of its API"
    for resource in request.resources:
        for each in resource.configs:
            if each.value is not None and not may_be_shown(each.name):
                each.value = "*" * len(each.value.encode())


HIDES: Mapping[int, Callable[[Struct], None]] = {
    ApiKey.SASL_AUTHENTICATE: _authentication,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _scram,
    ApiKey.RENEW_DELEGATION_TOKEN: _token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _token,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
}
"""The functions that hide credentials (`odradek.host.bodies.SECRETS`) in requests, by API."""


class Mask:
    """The bytes of one connection."""

    def __init__(self) -> None:
        self._left = 0
        """How much of a frame is still to come."""
        self._head = b""
        """The beginning of a frame, as long as its API is not known."""

    def hide(self, data: bytes) -> bytes:
        """The same bytes, without the credentials in them. Raises `InParts`."""
        head, self._head = self._head, b""
        whole = head + data
        if head and len(whole) >= _HEAD.size and _HEAD.unpack_from(whole)[1] in HIDES:
            raise InParts  # its beginning has been kept as it was
        return self._hide(whole)[len(head) :]

    def _hide(self, data: bytes) -> bytes:
        at, end, shown = self._left, len(data), data
        while at < end:
            if end - at < _HEAD.size:
                self._head, at = data[at:], end
                break
            length, api, version = _HEAD.unpack_from(data, at)
            start, at = at + LENGTH_BYTES, at + LENGTH_BYTES + max(length, 0)
            if api in HIDES:
                if at > end:
                    raise InParts
                shown = shown[:start] + _hidden(data[start:at], api, version) + shown[at:]
        self._left = at - end
        return shown


def _hidden(frame: bytes, api: int, version: int) -> bytes:
    """A request without its credentials. Raises `InParts` where it cannot be read."""
    kind = request_type(api)
    try:
        header = _header_end(frame, api, version)
        request, _ = reader(kind, version)(memoryview(frame), header)
        HIDES[api](request)
        written = registry.encode(request, version)
    except (DecodeError, EncodeError, LookupError, ValueError):
        raise InParts from None
    hidden = frame[:header] + written
    if len(hidden) != len(frame):
        raise InParts  # such as with tags that this release does not know
    return hidden


def _header_end(frame: bytes, api: int, version: int) -> int:
    return reader(RequestHeader, request_header_version(api, version))(memoryview(frame), 0)[1]
