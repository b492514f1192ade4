"""The controller's decisions about delegation tokens (Kafka's `DelegationTokenControlManager`; KIP-48, KIP-900)."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.access.principal import Principal
from odradek.access.tokens import Token, token_hmac
from odradek.config.keys import LONG_MAX
from odradek.metadata.change import Change
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from odradek.wire.messages.delegation_token_record import DelegationTokenRecord
from odradek.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from odradek.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from odradek.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from odradek.config.security import SecurityConfig
    from odradek.metadata.image import MetadataImage
    from odradek.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

__all__ = [
    "TOKENS_SINCE",
    "create_token",
    "expire_token",
    "owner_of",
    "remove_expired",
    "renew_token",
    "token_record",
]

R = TypeVar("R", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)

TOKENS_SINCE = 14
"""The first level of metadata.version with tokens in the metadata log (3.6-IV2)."""


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner of a new token: the client, unless the request names another one (KIP-373)."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_name, request.owner_principal_type or "")


def create_token(
    request: CreateDelegationTokenRequest, requester: Principal, token_id: str, settings: SecurityConfig, now: int
) -> Change[CreateDelegationTokenResponse]:
    """Create a token, if there is a secret key; `token_id` must be unpredictable."""
    owner = owner_of(request, requester)
    reply = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    secret = settings.delegation_token_secret_key
    if secret is None:
        return Change(replace(reply, error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    lifetime_ms = settings.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    token = Token(
        id=token_id,
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        issued_ms=now,
        expires_ms=_after(now, min(lifetime_ms, settings.delegation_token_expiry_time_ms)),
        max_ms=_after(now, lifetime_ms),
    )
    reply.issue_timestamp_ms, reply.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    reply.max_timestamp_ms = token.max_ms
    reply.token_id, reply.hmac = token.id, token_hmac(secret, token.id)
    return Change(reply, [token_record(token)])


def renew_token(
    request: RenewDelegationTokenRequest, who: str, image: MetadataImage, settings: SecurityConfig, now: int
) -> Change[RenewDelegationTokenResponse]:
    """Renew a token, up to its latest time."""
    found = _found(request.hmac, image.tokens, settings)
    if isinstance(found, ErrorCode):
        return Change(RenewDelegationTokenResponse(error_code=found))
    if found.has_expired(now):
        return Change(RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not found.may_renew(who):
        return Change(RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = settings.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    return _moved(found, min(found.max_ms, _after(now, period_ms)), RenewDelegationTokenResponse())


def expire_token(
    request: ExpireDelegationTokenRequest, who: str, image: MetadataImage, settings: SecurityConfig, now: int
) -> Change[ExpireDelegationTokenResponse]:
    """Change the expiration of a token; a negative time removes the token now."""
    found = _found(request.hmac, image.tokens, settings)
    if isinstance(found, ErrorCode):
        return Change(ExpireDelegationTokenResponse(error_code=found))
    if not found.may_renew(who):
        return Change(ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if request.expiry_time_period_ms < 0:
        gone: list[Struct] = [RemoveDelegationTokenRecord(token_id=found.id)]
        return Change(ExpireDelegationTokenResponse(expiry_timestamp_ms=now), gone)
    if found.has_expired(now):
        return Change(ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    return _moved(found, min(found.max_ms, _after(now, request.expiry_time_period_ms)), ExpireDelegationTokenResponse())


def remove_expired(image: MetadataImage, now: int) -> Change[None]:
    over = [token.id for token in image.tokens.values() if token.has_expired(now)]
    return Change(None, [RemoveDelegationTokenRecord(token_id=each) for each in over])


def token_record(token: Token) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.id,
    )


def _after(now: int, period_ms: int) -> int:
    """The sum, limited to the latest possible time: a token may be valid for ever."""
    return min(now + period_ms, LONG_MAX)


def _found(shown: bytes, tokens: Mapping[str, Token], settings: SecurityConfig) -> Token | ErrorCode:
    """The token with this secret."""
    secret = settings.delegation_token_secret_key
    if secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for token in tokens.values():
        if compare_digest(token_hmac(secret, token.id), bytes(shown)):
            return token
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _moved(token: Token, expires_ms: int, reply: R) -> Change[R]:
    reply.expiry_timestamp_ms = expires_ms
    return Change(reply, [token_record(replace(token, expires_ms=expires_ms))])
