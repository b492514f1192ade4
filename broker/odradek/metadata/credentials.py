"""SCRAM credentials: set, removed and described (KIP-554; Kafka's `ScramControlManager`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.access.credential import ScramCredential, ScramMechanism
from odradek.access.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of, salted_password
from odradek.metadata.change import Change, Failure
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
from odradek.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from odradek.wire.messages.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage

__all__ = ["SCRAM_SINCE", "alter_credentials", "credential_record", "password_records"]

Alteration: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion

SCRAM_SINCE = 11
"""The first level of metadata.version with credentials in the metadata log (3.5-IV2)."""
SALT_BYTES = 16


def alter_credentials(
    request: AlterUserScramCredentialsRequest, image: MetadataImage
) -> Change[AlterUserScramCredentialsResponse]:
    """Set and remove credentials; each user succeeds or fails on its own, and must not be named twice."""
    failures: dict[str, Failure] = {}
    records: dict[str, Struct] = {}
    changes: list[Alteration] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in failures:
            continue
        outcome = _judged(change, image)
        if isinstance(outcome, Failure):
            failures[change.name] = outcome
            records.pop(change.name, None)
        elif change.name in records:
            del records[change.name]
            failures[change.name] = Failure(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        else:
            records[change.name] = outcome
    results = [AlterUserScramCredentialsResult(user=user, error_message=None) for user in records]
    results += [
        AlterUserScramCredentialsResult(user=user, error_code=failure.error, error_message=failure.message)
        for user, failure in sorted(failures.items())
    ]
    return Change(AlterUserScramCredentialsResponse(results=results), list(records.values()))


def _judged(change: Alteration, image: MetadataImage) -> Struct | Failure:
    """The record of the change, or the error."""
    if not change.name:
        return Failure(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        return Failure(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        return _deleted(change, mechanism, image)
    return _put(change, mechanism)


def _deleted(change: ScramCredentialDeletion, mechanism: ScramMechanism, image: MetadataImage) -> Struct | Failure:
    if (change.name, int(mechanism)) not in image.scram:
        return Failure(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=mechanism)


def _put(change: ScramCredentialUpsertion, mechanism: ScramMechanism) -> Struct | Failure:
    if change.iterations < ITERATIONS_MIN:
        return Failure(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        return Failure(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    return credential_record(change.name, mechanism, credential_of(mechanism, salted, salt, change.iterations))


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def password_records(user: str, password: str, salt: Callable[[int], bytes]) -> Iterator[Struct]:
    """The records for one user and every SCRAM mechanism; takes milliseconds."""
    for mechanism in ScramMechanism:
        drawn = salt(SALT_BYTES)
        salted = salted_password(mechanism, password, drawn, ITERATIONS_MIN)
        yield credential_record(user, mechanism, credential_of(mechanism, salted, drawn, ITERATIONS_MIN))
