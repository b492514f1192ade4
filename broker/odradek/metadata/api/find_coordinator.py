"""FindCoordinator (key 10), versions 0 to 6: which broker leads the partition that an id hashes to.

Version 1 adds the key type, 3 is flexible, 4 takes several keys (KIP-699), 6 brings share groups.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.host.seams import HasMetadata, HasTurns
from odradek.metadata.controller_role import HasController
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest

__all__ = ["find_coordinator"]


class Node(HasController, HasMetadata, HasTurns, Protocol):
    """What this route touches of its broker."""


BATCHED_SINCE = 4
SHARE = 2
SHARE_SINCE = 6
_SHARE_KEY = re.compile(r".+:[\w-]{22}:\d+", re.DOTALL)
"""Group, id of the topic and partition."""
KINDS = {0: CoordinatorKind.GROUP, 1: CoordinatorKind.TRANSACTION}


async def find_coordinator(node: Node, call: Call) -> FindCoordinatorResponse:
    """Answer for each key; the coordinator's topic is created by the first who asks, and they are told to ask again."""
    request: FindCoordinatorRequest = call.request
    keys = request.coordinator_keys if call.version >= BATCHED_SINCE else [request.key]
    found: list[Coordinator] = []
    async for some in node.turns.share(call, keys):
        found += [await _find(node, request.key_type, key, call) for key in some]
    if call.version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    message = ("NONE" if only.error_code == ErrorCode.NONE else only.error_message) if call.version >= 1 else None
    return FindCoordinatorResponse(
        error_code=only.error_code, error_message=message, node_id=only.node_id, host=only.host, port=only.port
    )


async def _find(node: Node, key_type: int, key: str, call: Call) -> Coordinator:
    version = call.version
    kind = KINDS.get(key_type)
    if key_type == SHARE and version >= SHARE_SINCE and _SHARE_KEY.fullmatch(key):
        kind = CoordinatorKind.SHARE
    if kind is None:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, version, tells=key_type != SHARE)
    topic = node.image.topic(kind.topic)
    if topic is None:
        await node.controller.create_internal_topic(kind.topic)
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, version)
    partition = topic.partitions[partition_for(key, len(topic.partitions))]
    broker = node.image.brokers.get(partition.leader)
    if broker is None or broker.fenced:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, version)
    reached = broker.endpoint(call.peer.listener)
    return Coordinator(
        key=key, node_id=broker.id, host=reached.host, port=reached.port, error_code=ErrorCode.NONE, error_message=""
    )


MESSAGES = {
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}


def _nowhere(key: str, error: ErrorCode, version: int, *, tells: bool = False) -> Coordinator:
    message = MESSAGES[error] if tells or version < BATCHED_SINCE else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
