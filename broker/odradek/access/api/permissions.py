"""CreateAcls, DescribeAcls, DeleteAcls (KIP-140, KIP-290): decided by the controller, described by any broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.access.acls import AclFilter, AclOperation, PatternType
from odradek.access.needs import allowed_on_cluster
from odradek.host.call import CloseConnection
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import DECIDED_AT_ONCE, entries_in_parts
from odradek.metadata.permissions import read_filter
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from odradek.wire.messages.create_acls_request import CreateAclsRequest
from odradek.wire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from odradek.wire.messages.delete_acls_request import DeleteAclsRequest
from odradek.wire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from odradek.wire.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.wire.messages.describe_acls_request import DescribeAclsRequest

__all__ = [
    "AclApi",
]


NO_AUTHORIZER = "No Authorizer is configured."
NO_AUTHORIZER_HERE = "No Authorizer is configured on the broker"
UNKNOWN = 0
"""The number UNKNOWN, which is the same for resource types, pattern types, operations and permission types."""
COMPARED_AT_ONCE = 10_000
"""Number of comparisons of a filter with a permission after which other clients are served."""
PATTERNS_SINCE = 1
"""The first version with prefixed patterns; in version 0 all names are literal."""


class AclApi:
    """CreateAcls, DescribeAcls, DeleteAcls."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._authority = node.authority
        self._metadata = node.metadata

    @endpoint(CREATE_ACLS, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def create_acls(self, call: Call[CreateAclsRequest]) -> CreateAclsResponse:
        """CreateAcls (key 30), versions 0 to 3: 1 adds pattern types, 2 is flexible, 3 adds USER (KIP-373)."""
        request = call.request
        _end_if_unknown(
            (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
            for each in request.creations
        )

        def refuse(part: CreateAclsRequest, error: ErrorCode, message: str | None) -> CreateAclsResponse:
            return CreateAclsResponse(
                results=[AclCreationResult(error_code=error, error_message=message) for _ in part.creations]
            )

        if self._authority is None:
            return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return await self._forwarding.ask_in_parts(
            call,
            (CreateAclsRequest(creations=part) for part in entries_in_parts(request.creations)),
            lambda controller, part: controller.create_acls(part),
            refuse,
            CreateAclsResponse,
            lambda joined, more: joined.results.extend(more.results),
        )

    @endpoint(DELETE_ACLS, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def delete_acls(self, call: Call[DeleteAclsRequest]) -> DeleteAclsResponse:
        """DeleteAcls (key 31), versions 0 to 3, which differ as those of CreateAcls."""
        request = call.request
        _end_if_unknown(_numbers(read_filter(each)) for each in request.filters)

        def refuse(part: DeleteAclsRequest, error: ErrorCode, message: str | None) -> DeleteAclsResponse:
            return DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(error_code=error, error_message=message) for _ in part.filters]
            )

        if self._authority is None:
            return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        # Each filter is compared with every permission.
        at_once = min(DECIDED_AT_ONCE, COMPARED_AT_ONCE // (len(self._metadata.image.acls) + 1) + 1)
        return await self._forwarding.ask_in_parts(
            call,
            (DeleteAclsRequest(filters=part) for part in entries_in_parts(request.filters, size=at_once)),
            lambda controller, part: controller.delete_acls(part),
            refuse,
            DeleteAclsResponse,
            lambda joined, more: joined.filter_results.extend(more.filter_results),
        )

    @endpoint(DESCRIBE_ACLS, needs=allowed_on_cluster(AclOperation.DESCRIBE, names_itself=True))
    async def describe_acls(self, call: Call[DescribeAclsRequest]) -> DescribeAclsResponse:
        """DescribeAcls (key 29), versions 0 to 3: the permissions that match the filter, grouped by resource."""
        request = call.request
        asked = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        _end_if_unknown([_numbers(asked)])
        if self._authority is None:
            return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_HERE)
        resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
        for acl in self._metadata.image.acls.values():
            literal_only = call.version < PATTERNS_SINCE and acl.pattern_type != PatternType.LITERAL
            if literal_only or not asked.matches(acl):
                continue
            key = acl.resource_type, acl.resource_name, acl.pattern_type
            resource = resources.setdefault(
                key,
                DescribeAclsResource(
                    resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
                ),
            )
            resource.acls.append(
                AclDescription(
                    principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                )
            )
        return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def _numbers(asked: AclFilter) -> tuple[int, int, int, int]:
    return asked.resource_type, asked.pattern_type, asked.operation, asked.permission


def _end_if_unknown(asked: Iterable[tuple[int, int, int, int]]) -> None:
    """Close the connection for UNKNOWN in a request, as for a malformed one. Other numbers are not refused here."""
    for numbers in asked:
        if UNKNOWN in numbers:
            raise CloseConnection("unknown_acl_element")
