"""SaslHandshake and SaslAuthenticate of who is in already, and the credentials of SCRAM (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.metadata.credentials import SCRAM_SINCE
from odradek.metadata.features import METADATA_VERSION
from odradek.node.routes.forwarding import AsksController, ask_controller
from odradek.node.seams import HasMetadata
from odradek.wire.errors import ErrorCode
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
    from odradek.node.transport.call import Call
    from odradek.wire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
    from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

__all__ = [
    "alter_user_scram_credentials",
    "describe_user_scram_credentials",
    "sasl_authenticate",
    "sasl_handshake",
]


class Node(AsksController, HasMetadata, Protocol):
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
    asked = [user.name for user in request.users or ()]
    names = sorted(set(asked) or {user for user, _ in scram})
    results = []
    for name in names:
        infos = [
            CredentialInfo(mechanism=number, iterations=credential.iterations)
            for (user, number), credential in sorted(scram.items(), key=lambda item: item[0])
            if user == name
        ]
        result = DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=infos)
        if asked.count(name) > 1:
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

    def refuse(error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResponse:
        users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message) for user in users
            ]
        )

    if node.image.feature(METADATA_VERSION) < SCRAM_SINCE:
        return refuse(ErrorCode.UNSUPPORTED_VERSION, NOT_SUPPORTED)
    return await ask_controller(
        node,
        call,
        lambda controller: controller.alter_credentials(request),
        refuse,
        AlterUserScramCredentialsResponse,
    )
