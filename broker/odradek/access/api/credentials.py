"""SaslHandshake and SaslAuthenticate of who is in already, and the credentials of SCRAM (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from odradek.host.forwarding import AsksInParts, ask_in_parts
from odradek.host.in_parts import entries_in_parts
from odradek.host.seams import HasMetadata
from odradek.metadata.credentials import SCRAM_SINCE
from odradek.metadata.features import METADATA_VERSION
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.wire.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

__all__ = [
    "alter_user_scram_credentials",
    "describe_user_scram_credentials",
    "sasl_authenticate",
    "sasl_handshake",
]


class Node(AsksInParts, HasMetadata, Protocol):
    """What these routes touch of their broker."""


NOT_SUPPORTED = "The current metadata.version does not support SCRAM"


async def sasl_handshake(node: Node, call: Call) -> SaslHandshakeResponse:
    """SaslHandshake (key 17), versions 0 and 1, where there is no login, or it was over a moment ago."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


async def sasl_authenticate(node: Node, call: Call) -> SaslAuthenticateResponse:
    """SaslAuthenticate (key 36), versions 0 to 2, likewise."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


async def describe_user_scram_credentials(node: Node, call: Call) -> DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials (key 50), version 0: mechanisms and iterations, of some users or of all."""
    request: DescribeUserScramCredentialsRequest = call.request
    scram = node.image.scram
    asked = Counter(user.name for user in request.users or ())
    known: dict[str, list[CredentialInfo]] = {}
    for (user, number), credential in sorted(scram.items(), key=lambda item: item[0]):
        known.setdefault(user, []).append(CredentialInfo(mechanism=number, iterations=credential.iterations))
    results = []
    for name in sorted(asked or known):
        infos = known.get(name, [])
        result = DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=infos)
        if asked[name] > 1:
            result.error_code, result.credential_infos = ErrorCode.DUPLICATE_RESOURCE, []
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif not infos:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        results.append(result)
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


async def alter_user_scram_credentials(node: Node, call: Call) -> AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials (key 51), version 0; clients send passwords salted, and never as they are."""
    request: AlterUserScramCredentialsRequest = call.request

    def refuse(
        part: AlterUserScramCredentialsRequest, error: ErrorCode, message: str | None
    ) -> AlterUserScramCredentialsResponse:
        users = dict.fromkeys([each.name for each in part.deletions] + [each.name for each in part.upsertions])
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message) for user in users
            ]
        )

    if node.image.feature(METADATA_VERSION) < SCRAM_SINCE:
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION, NOT_SUPPORTED)
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    return await ask_in_parts(
        node,
        call,
        map(_of_changes, entries_in_parts(changes, key=lambda each: each.name)),
        lambda controller, part: controller.alter_credentials(part),
        refuse,
        AlterUserScramCredentialsResponse,
        lambda joined, more: joined.results.extend(more.results),
    )


def _of_changes(
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion],
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
