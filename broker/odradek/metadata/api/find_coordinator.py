"""FindCoordinator (key 10), versions 0 to 6: the leader of the partition to which a key hashes.

Version 1 adds the key type, 3 is flexible, 4 takes several keys (KIP-699), 6 adds share groups.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, TEXTS, asks, denied, serve_part
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.host.call import Serve
from odradek.host.endpoint import endpoint
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import FIND_COORDINATOR
from odradek.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.access.authority import Authority
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.metadata.controller_role import ControllerRole
    from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest

__all__ = ["FindCoordinatorApi"]

MESSAGE_SINCE = 1
BATCHED_SINCE = 4
GROUP, SHARE = 0, 2
SHARE_SINCE = 6
_SHARE_KEY = re.compile(r".+:[\w-]{22}:\d+", re.DOTALL)
"""Group, topic id and partition in the key of a share group."""
KINDS = {0: CoordinatorKind.GROUP, 1: CoordinatorKind.TRANSACTION}
RESOURCES = {0: AclResource.GROUP, 1: AclResource.TRANSACTIONAL_ID}
"""The type of the resource that a key names, by the type of the key."""


@asks("DESCRIBE on the group or the transactional id; for share coordinators CLUSTER_ACTION on the cluster")
async def _may_find(
    authority: Authority,
    call: Call[FindCoordinatorRequest],
    serve: Serve[FindCoordinatorRequest, FindCoordinatorResponse],
) -> FindCoordinatorResponse:
    request = call.request
    kind = RESOURCES.get(request.key_type)
    if kind is None:
        if authority.allows(call, AclOperation.CLUSTER_ACTION):
            return await serve(call)
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if call.version < BATCHED_SINCE:
            return denied(call, error, FindCoordinatorResponse)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=TEXTS[error])
                for key in request.coordinator_keys
            ]
        )
    error = DENIED[kind]
    if call.version < BATCHED_SINCE:
        if authority.allows(call, AclOperation.DESCRIBE, kind, request.key):
            return await serve(call)
        message = TEXTS[error] if call.version >= MESSAGE_SINCE else None
        return FindCoordinatorResponse(error_code=error, error_message=message, node_id=-1, host="", port=-1)
    hidden = [key for key in request.coordinator_keys if not authority.allows(call, AclOperation.DESCRIBE, kind, key)]
    kept = [key for key in request.coordinator_keys if key not in hidden]
    if kept or not hidden:
        response = await serve_part(serve, call, lambda request: request.coordinator_keys, kept)
    else:
        response = FindCoordinatorResponse()
    response.coordinators += [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="") for key in hidden
    ]
    return response


class FindCoordinatorApi:
    """FindCoordinator."""

    def __init__(self, node: Host, controller: ControllerRole, looked: Callable[[str, int, int], None]) -> None:
        """`looked` is told which connection has found the coordinator of a group here, and when (ms)."""
        self._node_id = node.node_id
        self._clock = node.clock
        self._looked = looked
        self._metadata = node.metadata
        self._controller = controller
        self._turns = node.turns

    @endpoint(FIND_COORDINATOR, needs=_may_find, in_parts=True)
    async def find_coordinator(self, call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
        """FindCoordinator (key 10): an answer for each key.

        The first request has the coordinator's topic created, and is answered that the client has to retry.
        """
        request = call.request
        keys = request.coordinator_keys if call.version >= BATCHED_SINCE else [request.key]
        found: list[Coordinator] = []
        async for some in self._turns.share(call, keys):
            found += [await self._find(request.key_type, key, call) for key in some]
        if len(keys) == 1 and request.key_type == GROUP and found[0].node_id == self._node_id:
            self._looked(keys[0], call.conn, self._clock.now)
        if call.version >= BATCHED_SINCE:
            return FindCoordinatorResponse(coordinators=found)
        only = found[0]
        message = None
        if call.version >= MESSAGE_SINCE:
            message = "NONE" if only.error_code == ErrorCode.NONE else only.error_message
        return FindCoordinatorResponse(
            error_code=only.error_code, error_message=message, node_id=only.node_id, host=only.host, port=only.port
        )

    async def _find(self, key_type: int, key: str, call: Call[FindCoordinatorRequest]) -> Coordinator:
        version = call.version
        kind = KINDS.get(key_type)
        if key_type == SHARE and version >= SHARE_SINCE and _SHARE_KEY.fullmatch(key):
            kind = CoordinatorKind.SHARE
        if kind is None:
            return _nowhere(key, ErrorCode.INVALID_REQUEST, version, tells=key_type != SHARE)
        topic = self._metadata.image.topic(kind.topic)
        if topic is None:
            await self._controller.create_internal_topic(kind.topic)
            return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, version)
        partition = topic.partitions[partition_for(key, len(topic.partitions))]
        broker = self._metadata.image.brokers.get(partition.leader)
        if broker is None or broker.fenced:
            return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, version)
        reached = broker.endpoint(call.peer.listener)
        return Coordinator(
            key=key,
            node_id=broker.id,
            host=reached.host,
            port=reached.port,
            error_code=ErrorCode.NONE,
            error_message="",
        )


MESSAGES = {
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}


def _nowhere(key: str, error: ErrorCode, version: int, *, tells: bool = False) -> Coordinator:
    message = MESSAGES[error] if tells or version < BATCHED_SINCE else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
