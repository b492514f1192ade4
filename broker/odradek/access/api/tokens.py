"""Delegation tokens (KIP-48, KIP-373): decided by the controller, described by any broker.

The controller needs the client's principal: another broker forwards the request to it in an Envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.principal import ANONYMOUS, USER, parse_principal
from odradek.access.tokens import Token, token_hmac
from odradek.host.endpoint import Everybody, endpoint
from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.tokens import TOKENS_SINCE, owner_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from odradek.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from odradek.wire.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from odradek.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.core.machine import Decision
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.metadata.controller import Controller
    from odradek.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from odradek.wire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
    from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

__all__ = [
    "TokenApi",
]


REQUESTER_SINCE = 3
"""The first version in which owner and requester may differ."""
ID_BYTES = 16
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class TokenApi:
    """CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._authority = node.authority
        self._secrets = node.secrets
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock

    @endpoint(CREATE_DELEGATION_TOKEN, needs=Everybody("a login"))
    async def create_delegation_token(self, call: Call[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse:
        """CreateDelegationToken (key 38), versions 0 to 3: 2 is flexible, 3 adds tokens for another owner."""
        request = call.request
        requester = call.peer.principal
        owner = owner_of(request, requester)

        def refuse(error: ErrorCode, message: str | None = None) -> CreateDelegationTokenResponse:
            return _told_as(
                call.version,
                CreateDelegationTokenResponse(
                    error_code=error,
                    principal_type=owner.type,
                    principal_name=owner.name,
                    token_requester_principal_type=requester.type,
                    token_requester_principal_name=requester.name,
                    issue_timestamp_ms=-1,
                    expiry_timestamp_ms=-1,
                    max_timestamp_ms=-1,
                ),
            )

        if not call.is_broker:
            if not _may_ask(call):
                return refuse(NOT_ALLOWED)
            if owner != requester and not self._allows(call, AclOperation.CREATE_TOKENS, AclResource.USER, str(owner)):
                return refuse(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
            if any(each.principal_type != USER for each in request.renewers):
                return refuse(ErrorCode.INVALID_PRINCIPAL_TYPE)
        if self._too_old():
            return refuse(ErrorCode.UNSUPPORTED_VERSION)
        token_id = uuid_text(self._secrets.randbytes(ID_BYTES))
        response = await self._forwarding.ask(
            call,
            lambda controller: controller.create_token(request, requester, token_id, self._clock.now),
            refuse,
            CreateDelegationTokenResponse,
        )
        return _told_as(call.version, response)

    @endpoint(RENEW_DELEGATION_TOKEN, needs=Everybody("a login"))
    async def renew_delegation_token(self, call: Call[RenewDelegationTokenRequest]) -> RenewDelegationTokenResponse:
        """RenewDelegationToken (key 39), versions 0 to 2."""
        request = call.request
        who = call.peer.principal
        return await self._prolonged(
            call, lambda controller: controller.renew_token(request, who, self._clock.now), RenewDelegationTokenResponse
        )

    @endpoint(EXPIRE_DELEGATION_TOKEN, needs=Everybody("a login"))
    async def expire_delegation_token(self, call: Call[ExpireDelegationTokenRequest]) -> ExpireDelegationTokenResponse:
        """ExpireDelegationToken (key 40), versions 0 to 2."""
        request = call.request
        who = call.peer.principal
        return await self._prolonged(
            call,
            lambda controller: controller.expire_token(request, who, self._clock.now),
            ExpireDelegationTokenResponse,
        )

    async def _prolonged(
        self, call: Call, decide: Callable[[Controller], Decision[Prolonged]], kind: type[Prolonged]
    ) -> Prolonged:
        """The answer to a request that changes the time at which a token expires."""

        def refuse(error: ErrorCode, message: str | None = None) -> Prolonged:
            return kind(error_code=error, expiry_timestamp_ms=-1)

        if not _may_ask(call):
            return refuse(NOT_ALLOWED)
        if self._too_old():
            return refuse(ErrorCode.UNSUPPORTED_VERSION)
        return await self._forwarding.ask(call, decide, refuse, kind)

    @endpoint(DESCRIBE_DELEGATION_TOKEN, needs=Everybody("a login; DESCRIBE on a token of another user"))
    async def describe_delegation_token(
        self, call: Call[DescribeDelegationTokenRequest]
    ) -> DescribeDelegationTokenResponse:
        """DescribeDelegationToken (key 41), versions 0 to 3: the client's own tokens and those it may describe."""
        request = call.request
        if not _may_ask(call):
            return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)
        secret = self._settings.config.security().delegation_token_secret_key
        if secret is None:
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        wanted = None
        if request.owners is not None:
            wanted = frozenset(f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners)
        return DescribeDelegationTokenResponse(
            tokens=[
                _described(token, secret, call.version)
                for token in self._metadata.image.tokens.values()
                if (wanted is None or token.concerns_any(wanted)) and self._may_see(call, token)
            ]
        )

    def _may_see(self, call: Call, token: Token) -> bool:
        return (
            token.concerns(str(call.peer.principal))
            or self._allows(call, AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, token.id)
            or self._allows(call, AclOperation.DESCRIBE_TOKENS, AclResource.USER, token.owner)
        )

    def _allows(self, call: Call, operation: AclOperation, kind: AclResource, name: str) -> bool:
        """Without an authorizer every principal may do everything."""
        return self._authority is None or self._authority.allows(call, operation, kind, name)

    def _too_old(self) -> bool:
        """Whether the metadata.version is too low for tokens; clusters with ZooKeeper kept tokens there."""
        return self._settings.release.tells_features and self._metadata.image.feature(METADATA_VERSION) < TOKENS_SINCE


Prolonged = TypeVar("Prolonged", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


def _described(token: Token, secret: str, version: int) -> DescribedDelegationToken:
    owner, requester = parse_principal(token.owner), parse_principal(token.requester)
    renewers = [parse_principal(each) for each in token.renewers]
    told = version >= REQUESTER_SINCE
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type if told else "",
        token_requester_principal_name=requester.name if told else "",
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name) for each in renewers
        ],
    )


def _may_ask(call: Call) -> bool:
    """Refuse clients that are anonymous, or that logged in with a token: a token cannot create another token."""
    return call.is_broker or (call.peer.principal != ANONYMOUS and not call.peer.by_token)


def _told_as(version: int, response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
    """A token as this version describes it: versions before 3 have no requester besides the owner."""
    if version >= REQUESTER_SINCE:
        return response
    return replace(response, token_requester_principal_type="", token_requester_principal_name="")
