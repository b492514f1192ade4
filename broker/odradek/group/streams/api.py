"""Members and descriptions of streams groups (KIP-1071).

- StreamsGroupHeartbeat (key 88), versions 0 and 1: 1 says how far a copy may be behind in 64 bits, and warns of tags.
- StreamsGroupDescribe (key 89), 0 and 1: 1 tells the assignor, and could describe the topology (KIP-1331).
- StreamsGroupTopologyDescriptionUpdate (key 91), 0: there is no plug-in that would keep it.

A broker without `streams` in `group.coordinator.rebalance.protocols`, or without the feature streams.version, answers
all with UNSUPPORTED_VERSION. ApiVersions lists them all the same, as those of consumer groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.access.acls import AclOperation, AclResource
from odradek.core.machine import Refused
from odradek.group.api import decided, described, refusal
from odradek.group.streams.configured import Status
from odradek.group.streams.internal_topics import HasStreamsTopics
from odradek.host.coordinators import HasCoordinators
from odradek.host.seams import HasAuthority, HasClock, HasConfig, HasMetadata, HasTurns
from odradek.metadata.features import STREAMS_VERSION
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from odradek.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

if TYPE_CHECKING:
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.streams.heartbeat import Beat
    from odradek.host.call import Call
    from odradek.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology

__all__ = ["streams_group_describe", "streams_group_heartbeat", "streams_group_topology_description_update"]


class Node(HasAuthority, HasClock, HasConfig, HasCoordinators, HasMetadata, HasStreamsTopics, HasTurns, Protocol):
    """What these routes touch of their broker."""


STREAMS_PROTOCOL = "streams"
SHOWN_ERRORS = 3
DESCRIPTION_NOT_STORED = 1
"""What an answer says of the description of a topology to who has asked for it: there is none."""


def _serves_streams_groups(node: Node) -> bool:
    named = STREAMS_PROTOCOL in node.config.group_coordinator_rebalance_protocols
    return named and node.image.feature(STREAMS_VERSION) > 0


async def streams_group_heartbeat(node: Node, call: Call) -> StreamsGroupHeartbeatResponse:
    """Join, stay or leave; answered with what has changed for the member, and with what is amiss."""
    request: StreamsGroupHeartbeatRequest = call.request
    if not _serves_streams_groups(node):
        return _refused(Refused(ErrorCode.UNSUPPORTED_VERSION))
    outcome: Beat | Refused | None = None if request.topology is None else _refusal_of_names(request.topology)
    if outcome is None:
        client_id, host = call.client_id or "", f"/{call.host}"
        outcome = await decided(
            node,
            request.group_id,
            lambda machine: machine.streams_heartbeat(request, call.version, client_id, host, node.now),
        )
    if isinstance(outcome, Refused):
        return _refused(outcome)
    if outcome.to_make:
        _make_topics(node, call, outcome)
    return outcome.response


def _refused(refused: Refused) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=refusal(refused), error_message=refused.message, status=[])


def _make_topics(node: Node, call: Call, beat: Beat) -> None:
    """Have the topics made that the application needs, if who asks may make them; say what has come of it before."""
    warning = next(
        (each for each in beat.response.status or () if each.status_code == Status.MISSING_INTERNAL_TOPICS), None
    )
    refused = _may_not_make(node, call, list(beat.to_make))
    if refused:
        detail = f"Unauthorized to CREATE on topics {', '.join(refused)}."
    else:
        errors = [f"{name} ({error})" for name, error in node.streams_topics.errors(beat.to_make).items()]
        node.streams_topics.make(beat.to_make, keep_ms=2 * beat.response.heartbeat_interval_ms)
        if not errors:
            return
        more = len(errors) - SHOWN_ERRORS
        detail = f"Creation failed: {', '.join(errors[:SHOWN_ERRORS])}{f' and {more} more' if more > 0 else ''}."
    if warning is not None:
        warning.status_detail += f"; {detail}"


def _may_not_make(node: Node, call: Call, names: list[str]) -> list[str]:
    authority = node.authority
    if authority is None or authority.allows(call, AclOperation.CREATE):
        return []
    return [name for name in names if not authority.allows(call, AclOperation.CREATE, AclResource.TOPIC, name)]


def _refusal_of_names(topology: Topology) -> Refused | None:
    """Topics that no application may use, and names that no topic can have."""
    names = dict.fromkeys(
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        sentence = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
    invalid = [name for name in names if invalid_name(name) is not None]
    if invalid:
        sentence = f"Topic names {','.join(invalid)} are not valid topic names."
        return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
    return None


async def streams_group_describe(node: Node, call: Call) -> StreamsGroupDescribeResponse:
    """Say what state groups are in, what their topology is, and which tasks their members have and shall have."""
    request: StreamsGroupDescribeRequest = call.request

    def find(machine: GroupCoordinator, group_id: str) -> DescribedGroup | Refused:
        found = machine.describe_streams_group(group_id)
        if request.include_topology_description and not isinstance(found, Refused):
            found.topology_description_status = DESCRIPTION_NOT_STORED
        return found

    groups = await described(node, call, DescribedGroup, find, served=_serves_streams_groups(node))
    return StreamsGroupDescribeResponse(groups=groups)


async def streams_group_topology_description_update(
    node: Node, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refused: the plug-in that would keep the description is not there, as in a Kafka that has not been given one."""
    served = _serves_streams_groups(node)
    sentence = "The broker has no streams group topology description plugin configured." if served else None
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=sentence
    )
