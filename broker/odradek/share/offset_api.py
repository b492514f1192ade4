"""The offsets of share groups (KIP-932): the share coordinator has them, and the group knows for which partitions.

- DescribeShareGroupOffsets (key 90), versions 0 and 1: 1 tells the lag (KIP-1226).
- AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92), version 0, of groups without members.

A cluster without the feature share.version answers UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, TEXTS, allowed, allowed_on_each, asks, in_series, serve_part
from odradek.core.machine import Refused
from odradek.group.api import group_shard, refusal
from odradek.host.call import Serve
from odradek.host.endpoint import endpoint
from odradek.metadata.features import SHARE_VERSION
from odradek.share.state import NO_COUNT, NO_OFFSET, ShareKey
from odradek.share.state_calls import delete_states
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.apis import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
)
from odradek.wire.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_offsets_response import ListOffsetsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.group.api import GroupCoordinators
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.share.state_client import ShareStateClient
    from odradek.wire.messages.alter_share_group_offsets_request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from odradek.wire.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
    from odradek.wire.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsRequestTopic,
    )

__all__ = ["ShareOffsetApi"]

READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC
LATEST = -1
NO_LAG = -1
UNKNOWN = "This server does not host this topic-partition."
NO_OFFSETS = "There is no offset information to delete."
UNEXPECTED = "The server experienced an unexpected error when processing the request."
UNKNOWN_PARTITION = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)


@asks("")
async def _with_topic_ids(
    authority: Authority,
    call: Call[AlterShareGroupOffsetsRequest],
    serve: Serve[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse],
) -> AlterShareGroupOffsetsResponse:
    """The answer has the ids of all topics that exist, also of those that are refused."""
    response = await serve(call)
    for answer in response.responses:
        topic = authority.metadata.image.topic(answer.topic_name)
        if topic is not None:
            answer.topic_id = topic.id
    return response


@asks("DESCRIBE on each topic")
async def _described_topics(
    authority: Authority,
    call: Call[DescribeShareGroupOffsetsRequest],
    serve: Serve[DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse],
) -> DescribeShareGroupOffsetsResponse:
    """Topics that are named and may not be described are answered with an error; others are left out."""
    groups = []
    hidden: dict[str, list[DescribeShareGroupOffsetsResponseTopic]] = {}
    for group in call.request.groups:
        if group.topics is not None:
            refused = [topic for topic in group.topics if not authority.allows(call, DESCRIBE, TOPIC, topic.topic_name)]
            hidden[group.group_id] = [_refused_offsets(topic) for topic in refused]
            group = replace(group, topics=[topic for topic in group.topics if topic not in refused])
        groups.append(group)
    response = await serve_part(serve, call, lambda request: request.groups, groups)
    for answer in response.groups:
        answer.topics = [each for each in answer.topics if authority.allows(call, DESCRIBE, TOPIC, each.topic_name)]
        if answer.error_code == ErrorCode.NONE:
            answer.topics += hidden.get(answer.group_id, [])
    return response


def _refused_offsets(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=NO_OFFSET,
                error_code=DENIED[TOPIC],
                error_message=TEXTS[DENIED[TOPIC]],
            )
            for index in topic.partitions
        ],
    )


class ShareOffsetApi:
    """DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets."""

    def __init__(
        self, node: Serving, coordinators: GroupCoordinators, states: ShareStateClient, *, peers: Peers
    ) -> None:
        self._coordinators = coordinators
        self._states = states
        self._peers = peers
        self._router = node.router
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns

    @property
    def _is_served(self) -> bool:
        return self._metadata.image.feature(SHARE_VERSION) > 0

    @endpoint(
        DESCRIBE_SHARE_GROUP_OFFSETS,
        needs=in_series(
            _described_topics,
            allowed_on_each(
                DESCRIBE,
                GROUP,
                asked=lambda request: request.groups,
                answered=lambda response: response.groups,
                name=lambda group: group.group_id,
            ),
        ),
    )
    async def describe_offsets(self, call: Call[DescribeShareGroupOffsetsRequest]) -> DescribeShareGroupOffsetsResponse:
        """DescribeShareGroupOffsets: the positions of groups, from the share coordinator."""
        request = call.request
        response = DescribeShareGroupOffsetsResponse()
        for group in request.groups:
            response.groups.append(await self._offsets_of(call, group))
        return response

    async def _offsets_of(
        self, call: Call[DescribeShareGroupOffsetsRequest], asked: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        if not self._is_served:
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            return answer
        shard = group_shard(self._coordinators, asked.group_id, empty_allowed=True)
        known = shard if isinstance(shard, Refused) else shard.machine.share.known_partitions(asked.group_id)
        if isinstance(known, Refused):
            answer.error_code, answer.error_message = refusal(known), known.message
            return answer
        if asked.topics is None:
            for topic_id, indexes in known.items():
                topic = self._metadata.image.topic_by_id(topic_id)
                if topic is not None:
                    answer.topics.append(
                        await self._offsets_of_topic(call, asked.group_id, topic.name, sorted(indexes))
                    )
            return answer
        if any(
            not topic.partitions and self._metadata.image.topic(topic.topic_name) is not None for topic in asked.topics
        ):
            # As in Kafka, which asks the share coordinator for no partition and fails.
            answer.error_code, answer.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED
            return answer
        for name, wanted in self._wanted(asked.topics):
            answer.topics.append(await self._offsets_of_topic(call, asked.group_id, name, wanted))
        return answer

    def _wanted(self, topics: list[DescribeShareGroupOffsetsRequestTopic]) -> Iterator[tuple[str, list[int]]]:
        """Topics with their partitions: unknown topics one by one, the others once each."""
        known: dict[str, dict[int, None]] = {}
        for topic in topics:
            if self._metadata.image.topic(topic.topic_name) is None:
                yield topic.topic_name, topic.partitions
            else:
                known.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
        for name, indexes in known.items():
            yield name, list(indexes)

    async def _offsets_of_topic(
        self, call: Call[DescribeShareGroupOffsetsRequest], group_id: str, name: str, indexes: list[int]
    ) -> DescribeShareGroupOffsetsResponseTopic:
        topic = self._metadata.image.topic(name)
        if topic is None:
            nothing = [
                DescribeShareGroupOffsetsResponsePartition(partition_index=i, start_offset=NO_OFFSET) for i in indexes
            ]
            return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=nothing)
        partitions = []
        async for some in self._turns.share(call, indexes):
            partitions += [await self._offset_of(ShareKey(group_id, topic.id, index), name) for index in some]
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id, partitions=partitions)

    async def _offset_of(self, key: ShareKey, topic: str) -> DescribeShareGroupOffsetsResponsePartition:
        summary = await self._states.summary(key)
        if isinstance(summary, Refused):
            return DescribeShareGroupOffsetsResponsePartition(
                partition_index=key.partition,
                start_offset=NO_OFFSET,
                error_code=summary.error,
                error_message=summary.message,
            )
        answer = DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            lag=NO_LAG,
        )
        if summary.start_offset != NO_OFFSET and summary.complete_count != NO_COUNT:
            end = await self._end_offset(topic, key.partition)
            answer.lag = NO_LAG if end is None else end - summary.start_offset - summary.complete_count
        return answer

    async def _end_offset(self, topic: str, index: int) -> int | None:
        """The end offset of a partition, from its leader; None if that cannot be reached."""
        registered = self._metadata.image.partition(topic, index)
        if registered is None or not self._metadata.image.is_alive(registered.leader):
            return None
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST)])
        response = await self._peers.call(
            registered.leader,
            ApiKey.LIST_OFFSETS,
            self._router.newest(ApiKey.LIST_OFFSETS),
            ListOffsetsRequest(replica_id=-1, topics=[asked]),
            ListOffsetsResponse,
            deadline=self._clock.now + self._settings.config.request_timeout_ms,
        )
        if response is None:
            return None
        found = response.topics[0].partitions[0]
        return found.offset if found.error_code == ErrorCode.NONE else None

    @endpoint(
        ALTER_SHARE_GROUP_OFFSETS,
        needs=in_series(
            allowed(READ, GROUP, of=lambda request: request.group_id, message=TEXTS[DENIED[GROUP]]),
            _with_topic_ids,
            allowed_on_each(
                READ,
                TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.responses,
                name=lambda topic: topic.topic_name,
                tells=True,
            ),
        ),
    )
    async def alter_offsets(self, call: Call[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
        """AlterShareGroupOffsets: a group without members starts again at these offsets."""
        request = call.request
        if not self._is_served:
            return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        shard = group_shard(self._coordinators, request.group_id, empty_allowed=True)
        if isinstance(shard, Refused):
            return AlterShareGroupOffsetsResponse(error_code=refusal(shard), error_message=shard.message)
        share = shard.machine.share
        outcome = await shard.decided(share.alter_offsets(request.group_id, self._known_offsets(request.topics)))
        if isinstance(outcome, Refused):
            return AlterShareGroupOffsetsResponse(error_code=refusal(outcome), error_message=outcome.message)
        failures = await shard.begin_states(outcome)
        answers: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
        for asked in request.topics:
            topic = self._metadata.image.topic(asked.topic_name)
            if topic is None and not asked.partitions:
                continue
            topic_id = bytes(16) if topic is None else topic.id
            answer = answers.setdefault(
                asked.topic_name, AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id)
            )
            for partition in asked.partitions:
                index = partition.partition_index
                known = index in outcome.offsets.get(topic_id, {})
                failure = failures.get((topic_id, index)) if known else UNKNOWN_PARTITION
                answer.partitions.append(
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=index,
                        error_code=ErrorCode.NONE if failure is None else failure.error,
                        error_message=None if failure is None else failure.message,
                    )
                )
        return AlterShareGroupOffsetsResponse(responses=list(answers.values()))

    def _known_offsets(self, topics: list[AlterShareGroupOffsetsRequestTopic]) -> dict[bytes, dict[int, int]]:
        """The offsets of partitions that exist, by topic id and index; a topic that exists may have none."""
        offsets: dict[bytes, dict[int, int]] = {}
        for asked in topics:
            topic = self._metadata.image.topic(asked.topic_name)
            if topic is None:
                continue
            known = offsets.setdefault(topic.id, {})
            for partition in asked.partitions:
                if partition.partition_index in topic.partitions:
                    known[partition.partition_index] = partition.start_offset
        return offsets

    @endpoint(
        DELETE_SHARE_GROUP_OFFSETS,
        needs=in_series(
            allowed(DELETE, GROUP, of=lambda request: request.group_id, message=TEXTS[DENIED[GROUP]]),
            allowed_on_each(
                READ,
                TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.responses,
                name=lambda topic: topic.topic_name,
                tells=True,
            ),
        ),
    )
    async def delete_offsets(self, call: Call[DeleteShareGroupOffsetsRequest]) -> DeleteShareGroupOffsetsResponse:
        """DeleteShareGroupOffsets: delete these topics from a group without members."""
        request = call.request
        if not self._is_served:
            return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        shard = group_shard(self._coordinators, request.group_id, empty_allowed=True)
        if isinstance(shard, Refused):
            return DeleteShareGroupOffsetsResponse(error_code=refusal(shard), error_message=shard.message)
        asked = [(each.topic_name, self._metadata.image.topic(each.topic_name)) for each in request.topics]
        topic_ids = list(dict.fromkeys(topic.id for _, topic in asked if topic is not None))
        share = shard.machine.share
        outcome = await shard.decided(share.delete_offsets(request.group_id, topic_ids))
        if isinstance(outcome, Refused):
            return DeleteShareGroupOffsetsResponse(error_code=refusal(outcome), error_message=outcome.message)
        failures = await delete_states(self._states, self._turns, outcome)
        failed = {topic_id: failure for (topic_id, _), failure in failures.items()}
        forgotten = [topic_id for topic_id in outcome.offsets if topic_id not in failed]
        if forgotten:
            await shard.decided(share.offsets_deleted(request.group_id, forgotten))
        response = DeleteShareGroupOffsetsResponse()
        deleted: dict[bytes, DeleteShareGroupOffsetsResponseTopic] = {}
        for name, topic in asked:
            answer = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
            if topic is not None and topic.id in outcome.offsets:
                # Each of these is answered once, the others as often as the request names them.
                deleted[topic.id] = answer
                answer.topic_id = topic.id
                if topic.id in failed:
                    answer.error_code, answer.error_message = failed[topic.id].error, failed[topic.id].message
                continue
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = UNKNOWN if topic is None else NO_OFFSETS
            response.responses.append(answer)
        response.responses += deleted.values()
        return response
