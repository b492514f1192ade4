"""SaslHandshake and SaslAuthenticate on connections that are already logged in, and SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster, asks
from odradek.host.endpoint import EVERYBODY, endpoint
from odradek.host.in_parts import entries_in_parts
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
from odradek.wire.messages.apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from odradek.wire.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from odradek.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call, Serve
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
    from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
    from odradek.wire.messages.sasl_handshake_request import SaslHandshakeRequest

__all__ = [
    "CredentialApi",
]


NOT_SUPPORTED = "The current metadata.version does not support SCRAM"


@asks("ALTER on the cluster")
async def _may_alter(
    authority: Authority,
    call: Call[AlterUserScramCredentialsRequest],
    serve: Serve[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse],
) -> AlterUserScramCredentialsResponse:
    if authority.allows(call, AclOperation.ALTER):
        return await serve(call)
    message = f"Request {call.api_key.name} needs ALTER permission."
    return _refused(call.request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)


def _refused(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """The answer that refuses every user of a request with this error."""
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message) for user in users]
    )


class CredentialApi:
    """SaslHandshake, SaslAuthenticate, DescribeUserScramCredentials, AlterUserScramCredentials."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._metadata = node.metadata

    @endpoint(SASL_HANDSHAKE, needs=EVERYBODY)
    async def sasl_handshake(self, call: Call[SaslHandshakeRequest]) -> SaslHandshakeResponse:
        """SaslHandshake (key 17), versions 0 and 1: the answer on a listener without login, or after a login."""
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    @endpoint(SASL_AUTHENTICATE, needs=EVERYBODY)
    async def sasl_authenticate(self, call: Call[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
        """SaslAuthenticate (key 36), versions 0 to 2: the answer on a listener without login, or after a login."""
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )

    @endpoint(DESCRIBE_USER_SCRAM_CREDENTIALS, needs=allowed_on_cluster(AclOperation.DESCRIBE))
    async def describe_user_scram_credentials(
        self, call: Call[DescribeUserScramCredentialsRequest]
    ) -> DescribeUserScramCredentialsResponse:
        """DescribeUserScramCredentials (key 50), version 0: mechanisms and iterations, of the named users or of all."""
        request = call.request
        scram = self._metadata.image.scram
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

    @endpoint(ALTER_USER_SCRAM_CREDENTIALS, needs=_may_alter)
    async def alter_user_scram_credentials(
        self, call: Call[AlterUserScramCredentialsRequest]
    ) -> AlterUserScramCredentialsResponse:
        """AlterUserScramCredentials (key 51), version 0: clients send salted passwords, never plain ones."""
        request = call.request

        if self._metadata.image.feature(METADATA_VERSION) < SCRAM_SINCE:
            return _refused(request, ErrorCode.UNSUPPORTED_VERSION, NOT_SUPPORTED)
        changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        return await self._forwarding.ask_in_parts(
            call,
            map(_of_changes, entries_in_parts(changes, key=lambda each: each.name)),
            lambda controller, part: controller.alter_credentials(part),
            _refused,
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
