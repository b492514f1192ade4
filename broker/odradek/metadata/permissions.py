"""Creating and deleting permissions (Kafka's `AclControlManager`); their ids are random and not visible to clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    PatternType,
    Permission,
    invalid_host,
)
from odradek.metadata.change import Change, Failure
from odradek.metadata.placement import random_id
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.access_control_entry_record import AccessControlEntryRecord
from odradek.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from odradek.wire.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from odradek.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from odradek.core.clock import Rng
    from odradek.metadata.image import MetadataImage
    from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
    from odradek.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest

__all__ = ["acl_record", "create_acls", "delete_acls", "read_creation", "read_filter"]

FOR_FILTERS = (PatternType.ANY, PatternType.MATCH)
NAMED = (
    ("resourceType", frozenset(AclResource)),
    ("patternType", frozenset(PatternType)),
    ("operation", frozenset(AclOperation)),
    ("permissionType", frozenset(Permission)),
)
"""The fields of a permission, and the valid numbers of each."""
OF_PATTERN = frozenset({"resourceType", "patternType"})
"""The fields of the pattern; the others belong to the entry."""


def create_acls(request: CreateAclsRequest, image: MetadataImage, rng: Rng) -> Change[CreateAclsResponse]:
    """Create permissions; an existing one is not created again."""
    known = set(image.acls.values())
    results: list[AclCreationResult] = []
    records: list[Struct] = []
    for creation in request.creations:
        acl = read_creation(creation)
        failure = _invalid(acl)
        if failure is not None:
            results.append(AclCreationResult(error_code=failure.error, error_message=failure.message))
            continue
        if acl not in known:
            known.add(acl)
            records.append(acl_record(random_id(rng), acl))
        results.append(AclCreationResult(error_message=""))
    return Change(CreateAclsResponse(results=results), records)


def delete_acls(request: DeleteAclsRequest, image: MetadataImage) -> Change[DeleteAclsResponse]:
    """Delete all permissions that match one of the filters; each filter gets its matches in the answer."""
    results: list[DeleteAclsFilterResult] = []
    gone: dict[bytes, Struct] = {}
    for each in request.filters:
        meant = read_filter(each)
        unnamed = _unnamed((meant.resource_type, meant.pattern_type, meant.operation, meant.permission))
        if unnamed:
            part = "pattern" if OF_PATTERN.intersection(unnamed) else "entry"
            reason = f"Unknown {part}Filter."
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=reason))
            continue
        matching = [(acl_id, acl) for acl_id, acl in image.acls.items() if meant.matches(acl)]
        gone |= {acl_id: RemoveAccessControlEntryRecord(id=acl_id) for acl_id, _ in matching}
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_told(acl) for _, acl in matching]))
    return Change(DeleteAclsResponse(filter_results=results), list(gone.values()))


def _told(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def read_creation(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def read_filter(asked: DeleteAclsFilter) -> AclFilter:
    """The permissions that match."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _unnamed(numbers: tuple[int, int, int, int]) -> list[str]:
    """The fields with invalid numbers."""
    return [element for number, (element, named) in zip(numbers, NAMED, strict=True) if number not in named]


def _invalid(acl: Acl) -> Failure | None:
    """The reason why this permission cannot exist; requests with UNKNOWN have ended their connection before."""
    if (
        acl.resource_type == AclResource.ANY
        or acl.pattern_type in FOR_FILTERS
        or acl.operation == AclOperation.ANY
        or acl.permission == Permission.ANY
    ):
        return Failure(ErrorCode.UNKNOWN_SERVER_ERROR)
    unnamed = _unnamed((acl.resource_type, acl.pattern_type, acl.operation, acl.permission))
    if unnamed:
        return Failure(ErrorCode.INVALID_REQUEST, f"Invalid {unnamed[0]} UNKNOWN")
    if acl.resource_type == AclResource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        reason = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return Failure(ErrorCode.INVALID_REQUEST, reason)
    if not acl.resource_name:
        return Failure(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    if ":" not in acl.principal:
        return Failure(
            ErrorCode.INVALID_REQUEST,
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from"
            " the principal name)",
        )
    reason_of_host = invalid_host(acl.host)
    return None if reason_of_host is None else Failure(ErrorCode.INVALID_REQUEST, reason_of_host)
