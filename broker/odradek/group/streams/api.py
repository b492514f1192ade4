"""Members and descriptions of streams groups (KIP-1071).

- StreamsGroupHeartbeat (key 88), versions 0 and 1: 1 says how far a copy may be behind in 64 bits, and warns of tags.
- StreamsGroupDescribe (key 89), 0 and 1: 1 tells the assignor, and could describe the topology (KIP-1331).
- StreamsGroupTopologyDescriptionUpdate (key 91), 0: there is no plug-in that would keep it.

A broker without `streams` in `group.coordinator.rebalance.protocols`, or without the feature streams.version, answers
all with UNSUPPORTED_VERSION. ApiVersions lists them all the same, as those of consumer groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, allowed, asks, denied, in_series
from odradek.core.machine import Refused
from odradek.group.api import ModernGroupApi, client_of, described, refusal
from odradek.group.streams.configured import Status
from odradek.host.call import Serve
from odradek.host.endpoint import endpoint
from odradek.metadata.features import STREAMS_VERSION
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import (
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)
from odradek.wire.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from odradek.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.group.api import GroupCoordinators
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.streams.heartbeat import Beat
    from odradek.group.streams.internal_topics import StreamsTopics
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
    from odradek.wire.messages.streams_group_describe_response import Subtopology as DescribedSubtopology
    from odradek.wire.messages.streams_group_heartbeat_request import (
        StreamsGroupHeartbeatRequest,
        Subtopology,
        Topology,
    )
    from odradek.wire.messages.streams_group_topology_description_update_request import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )

__all__ = ["StreamsGroupApi"]

READ, DESCRIBE, GROUP, TOPIC = AclOperation.READ, AclOperation.DESCRIBE, AclResource.GROUP, AclResource.TOPIC
HIDDEN_TOPIC = "The described group uses topics that the client is not authorized to describe."
SHOWN_ERRORS = 3
DESCRIPTION_NOT_STORED = 1
"""The status in a response to a client that asks for the description of a topology: there is none."""


def _topics_of(subtopology: Subtopology | DescribedSubtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


@asks("DESCRIBE on every topic of the application")
async def _topics_of_topology(
    authority: Authority,
    call: Call[StreamsGroupHeartbeatRequest],
    serve: Serve[StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse],
) -> StreamsGroupHeartbeatResponse:
    """Refuse a StreamsGroupHeartbeat if the client lacks DESCRIBE on a topic of its topology.

    A topology with the name of an internal topic, or with a name that no topic can have, passes: the heartbeat itself
    answers STREAMS_INVALID_TOPOLOGY.
    """
    topology = call.request.topology
    names = {name for each in (() if topology is None else topology.subtopologies) for name in _topics_of(each)}
    hidden = [name for name in names if not authority.allows(call, DESCRIBE, TOPIC, name)]
    if hidden and not names & INTERNAL_TOPICS and all(invalid_name(name) is None for name in names):
        return denied(call, DENIED[TOPIC], StreamsGroupHeartbeatResponse)
    return await serve(call)


@asks("DESCRIBE on every topic of the application")
async def _described_topics(
    authority: Authority,
    call: Call[StreamsGroupDescribeRequest],
    serve: Serve[StreamsGroupDescribeRequest, StreamsGroupDescribeResponse],
) -> StreamsGroupDescribeResponse:
    response = await serve(call)
    groups = []
    for group in response.groups:
        subtopologies = None if group.topology is None else group.topology.subtopologies
        names = {name for each in subtopologies or () for name in _topics_of(each)}
        if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names):
            group = DescribedGroup(group_id=group.group_id, error_code=DENIED[TOPIC], error_message=HIDDEN_TOPIC)
        groups.append(group)
    response.groups = groups
    return response


def _refused(refused: Refused) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=refusal(refused), error_message=refused.message, status=[])


def _refusal_of_names(topology: Topology) -> Refused | None:
    """Topics that no application may use, and names that no topic can have."""
    names = dict.fromkeys(name for each in topology.subtopologies for name in _topics_of(each))
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        sentence = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
    invalid = [name for name in names if invalid_name(name) is not None]
    if invalid:
        sentence = f"Topic names {','.join(invalid)} are not valid topic names."
        return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
    return None


class StreamsGroupApi(ModernGroupApi):
    """StreamsGroupHeartbeat, StreamsGroupDescribe, StreamsGroupTopologyDescriptionUpdate."""

    feature = STREAMS_VERSION
    protocol = "streams"

    def __init__(self, node: Host, coordinators: GroupCoordinators, topics: StreamsTopics) -> None:
        super().__init__(node, coordinators)
        self._topics = topics

    @endpoint(
        STREAMS_GROUP_HEARTBEAT,
        needs=in_series(allowed(READ, GROUP, of=lambda request: request.group_id), _topics_of_topology),
    )
    async def heartbeat(self, call: Call[StreamsGroupHeartbeatRequest]) -> StreamsGroupHeartbeatResponse:
        """Join, stay or leave; answered with what has changed for the member, and with what is amiss."""
        request = call.request
        if not self._is_served:
            return _refused(Refused(ErrorCode.UNSUPPORTED_VERSION))
        outcome: Beat | Refused | None = None if request.topology is None else _refusal_of_names(request.topology)
        if outcome is None:
            outcome = await self._decided(
                request.group_id,
                lambda machine: machine.streams_heartbeat(request, call.version, client_of(call), self._clock.now),
            )
        if isinstance(outcome, Refused):
            return _refused(outcome)
        if outcome.to_make:
            self._make_topics(call, outcome)
        return outcome.response

    def _make_topics(self, call: Call[StreamsGroupHeartbeatRequest], beat: Beat) -> None:
        """Have missing topics made, if the client may create them; tell the errors of earlier attempts."""
        warning = next(
            (each for each in beat.response.status or () if each.status_code == Status.MISSING_INTERNAL_TOPICS), None
        )
        refused = self._may_not_make(call, list(beat.to_make))
        if refused:
            detail = f"Unauthorized to CREATE on topics {', '.join(refused)}."
        else:
            errors = [f"{name} ({error})" for name, error in self._topics.errors(beat.to_make).items()]
            self._topics.make(beat.to_make, keep_ms=2 * beat.response.heartbeat_interval_ms)
            if not errors:
                return
            more = len(errors) - SHOWN_ERRORS
            detail = f"Creation failed: {', '.join(errors[:SHOWN_ERRORS])}{f' and {more} more' if more > 0 else ''}."
        if warning is not None:
            warning.status_detail += f"; {detail}"

    def _may_not_make(self, call: Call[StreamsGroupHeartbeatRequest], names: list[str]) -> list[str]:
        authority = self._authority
        if authority is None or authority.allows(call, AclOperation.CREATE):
            return []
        return [name for name in names if not authority.allows(call, AclOperation.CREATE, AclResource.TOPIC, name)]

    @endpoint(STREAMS_GROUP_DESCRIBE, needs=described(_described_topics))
    async def describe(self, call: Call[StreamsGroupDescribeRequest]) -> StreamsGroupDescribeResponse:
        """Say what state groups are in, what their topology is, and which tasks their members have and shall have."""
        request = call.request

        def find(machine: GroupCoordinator, group_id: str) -> DescribedGroup | Refused:
            found = machine.streams.describe(group_id)
            if request.include_topology_description and not isinstance(found, Refused):
                found.topology_description_status = DESCRIPTION_NOT_STORED
            return found

        return StreamsGroupDescribeResponse(groups=await self._described(call, DescribedGroup, find))

    @endpoint(
        STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, needs=allowed(READ, GROUP, of=lambda request: request.group_id)
    )
    async def update_topology_description(
        self, call: Call[StreamsGroupTopologyDescriptionUpdateRequest]
    ) -> StreamsGroupTopologyDescriptionUpdateResponse:
        """Refused, as by a Kafka without a plug-in that stores the description (KIP-1331)."""
        served = self._is_served
        sentence = "The broker has no streams group topology description plugin configured." if served else None
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=sentence
        )
