"""Committed offsets of groups.

- OffsetCommit (key 8), versions 0 to 10: 1 adds generation and member, 2 the retention time, which 5 takes away again
  (KIP-211), 6 the leader epoch (KIP-320), 7 the instance id (KIP-345), 8 is flexible, 9 may be answered
  GROUP_ID_NOT_FOUND (KIP-848), 10 names topics by id (KIP-848).
- OffsetFetch (key 9), 0 to 10: 2 can ask for all topics and has an error for the group, 5 adds the leader epoch,
  6 is flexible, 7 can ask for stable offsets only (KIP-447), 8 takes several groups (KIP-709), 9 adds the member
  (KIP-848), 10 names topics by id. Version 0 meant offsets in ZooKeeper: one that is not there was an error.
- OffsetDelete (key 47), version 0 (KIP-496).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, allowed, allowed_on_each, asks, in_series, resource_name, serve_part
from odradek.core.machine import Refused
from odradek.group.api import group_shard, refusal
from odradek.host.call import CloseConnection, Serve
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import extend_answers, in_parts, joined_answers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from odradek.wire.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from odradek.wire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from odradek.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf

__all__ = ["FETCHED_MAX", "OffsetApi"]

READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC
COMMIT_BY_TOPIC_ID_FROM = 10
FETCH_BY_TOPIC_ID_FROM = 10
RECORD_BYTES = 60
"""The least size of an offset in the log, without the names of its group and topic and without its metadata."""
FETCHED_MAX = 200_000
"""The most offsets in one response, so that one request cannot fill the memory."""
FETCH_GROUPS_FROM = 8
FETCH_GROUP_ERROR_FROM = 2
"""OffsetFetch version from which a group has an error of its own; before, each partition carries it."""
FETCH_NOTHING_IS_NO_ERROR_FROM = 1


@asks("DESCRIBE on each group and on each topic")
async def _described(
    authority: Authority, call: Call[OffsetFetchRequest], serve: Serve[OffsetFetchRequest, OffsetFetchResponse]
) -> OffsetFetchResponse:
    """Groups and topics that are named and may not be described are answered with an error; others are left out."""
    if call.version < FETCH_GROUPS_FROM:
        return await _described_of_one(authority, call, serve)
    refused: list[OffsetFetchResponseGroup] = []
    kept: list[OffsetFetchRequestGroup] = []
    beside: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in call.request.groups:
        if not authority.allows(call, DESCRIBE, GROUP, group.group_id):
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=DENIED[GROUP]))
            continue
        if group.topics is not None:
            seen: list[OffsetFetchRequestTopics] = []
            hidden: list[OffsetFetchRequestTopics] = []
            for topic in group.topics:
                name = resource_name(authority, topic.name, topic.topic_id)
                (seen if name is None or authority.allows(call, DESCRIBE, TOPIC, name) else hidden).append(topic)
            beside[group.group_id] = [_topic_error(topic, DENIED[TOPIC]) for topic in hidden]
            group = replace(group, topics=seen)
        kept.append(group)
    if kept:
        response = await serve_part(serve, call, lambda request: request.groups, kept)
    else:
        response = OffsetFetchResponse()
    for answer in response.groups:
        answer.topics = [
            topic
            for topic in answer.topics
            if authority.allows(call, DESCRIBE, TOPIC, resource_name(authority, topic.name, topic.topic_id) or "")
        ]
        if answer.error_code == ErrorCode.NONE:
            answer.topics += beside.get(answer.group_id, [])
    response.groups += refused
    return response


async def _described_of_one(
    authority: Authority, call: Call[OffsetFetchRequest], serve: Serve[OffsetFetchRequest, OffsetFetchResponse]
) -> OffsetFetchResponse:
    request = call.request
    if not authority.allows(call, DESCRIBE, GROUP, request.group_id):
        if call.version >= FETCH_GROUP_ERROR_FROM:
            return OffsetFetchResponse(error_code=DENIED[GROUP])
        return OffsetFetchResponse(topics=[_hidden(topic, DENIED[GROUP]) for topic in request.topics or ()])
    if request.topics is None:
        everything = await serve(call)
        everything.topics = [
            topic for topic in everything.topics if authority.allows(call, DESCRIBE, TOPIC, topic.name)
        ]
        return everything
    hidden = [topic for topic in request.topics if not authority.allows(call, DESCRIBE, TOPIC, topic.name)]
    seen = [topic for topic in request.topics if topic not in hidden]
    response = await serve_part(serve, call, lambda request: request.topics, seen)
    if response.error_code == ErrorCode.NONE:
        response.topics += [_hidden(topic, DENIED[TOPIC]) for topic in hidden]
    return response


def _hidden(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )


def _answered(
    asked: list[OffsetCommitRequestTopic], outcome: OffsetCommitResponse | Refused
) -> list[OffsetCommitResponseTopic]:
    if not isinstance(outcome, Refused):
        return outcome.topics
    error = refusal(outcome)
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_committed(each.partition_index, error) for each in topic.partitions],
        )
        for topic in asked
    ]


def _committed(index: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index, error_code=error)


def _number_of(group: OffsetFetchResponseGroup) -> int:
    return sum(len(topic.partitions) for topic in group.topics)


async def _committed_offsets(
    shard: GroupShard, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup | Refused:
    """The committed offsets of a group; a request for stable offsets waits for all that was written before it.

    What is not committed yet may be the offsets of an open transaction (KIP-447), so Kafka's coordinator treats such
    a request as a write of nothing: it is answered when all that was written before it is committed.
    """
    decision = shard.machine.fetch(asked, require_stable)
    if require_stable and shard.waits_for_replicas and not isinstance(decision, Refused):
        error = await shard.all_committed()
        if error is not ErrorCode.NONE:
            return Refused(error)
        decision = shard.machine.fetch(asked, require_stable)
    return await shard.carry_out(decision)


def _group_error(request: OffsetFetchRequestGroup, error: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    if version >= FETCH_GROUP_ERROR_FROM:
        response.error_code = error
    else:
        response.topics = [_topic_error(topic, error) for topic in request.topics or ()]
    return response


def _topic_error(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=error)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _of_one_group(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name, partitions=[_of_one_partition(each, version) for each in topic.partitions]
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _of_one_partition(partition: OffsetFetchResponsePartitions, version: int) -> OffsetFetchResponsePartition:
    error = partition.error_code
    if version < FETCH_NOTHING_IS_NO_ERROR_FROM and error == ErrorCode.NONE and partition.committed_offset < 0:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=error,
    )


def _deleted(index: int) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class OffsetApi:
    """OffsetCommit, OffsetFetch, OffsetDelete."""

    def __init__(self, node: Host, coordinators: CoordinatorsOf[GroupShard]) -> None:
        self._coordinators = coordinators
        self._metadata = node.metadata
        self._clock = node.clock
        self._turns = node.turns

    @endpoint(
        OFFSET_COMMIT,
        needs=in_series(
            allowed(READ, GROUP, of=lambda request: request.group_id),
            allowed_on_each(
                READ,
                TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.topics,
                name=lambda topic: topic.name,
                topic_id=lambda topic: topic.topic_id,
            ),
        ),
    )
    async def commit(self, call: Call[OffsetCommitRequest]) -> OffsetCommitResponse:
        """Commit offsets of topics that exist; the others are answered without asking the coordinator.

        Very many are committed in parts, as if the client had sent several requests: after a refusal all
        that follows is answered with it, and what was committed before is committed.
        """
        request = call.request
        by_id = call.version >= COMMIT_BY_TOPIC_ID_FROM
        missing: dict[str | bytes, OffsetCommitResponseTopic] = {}
        committed: list[OffsetCommitResponseTopic] = []

        def key(topic: OffsetCommitResponseTopic) -> str | bytes:
            return topic.topic_id if by_id else topic.name

        parts = list(in_parts(request.topics))
        refused = self._too_large(request) if len(parts) > 1 else None
        for number, part in enumerate(parts):
            if number:
                await self._turns.breathe(call)
            found = self._existing(part, missing, by_id=by_id)
            if not found:
                continue
            outcome = refused or await self._commit(call, replace(request, topics=found))
            if isinstance(outcome, Refused):
                refused = outcome
            extend_answers(committed, _answered(found, outcome), key)
        return OffsetCommitResponse(topics=joined_answers(missing, committed, key))

    def _existing(
        self,
        topics: list[OffsetCommitRequestTopic],
        answers: dict[str | bytes, OffsetCommitResponseTopic],
        *,
        by_id: bool,
    ) -> list[OffsetCommitRequestTopic]:
        """The topics and partitions that exist, with names and ids; `answers` gets errors for the others."""
        found: list[OffsetCommitRequestTopic] = []
        for topic in topics:
            key = topic.topic_id if by_id else topic.name
            exists, error, missing = self._resolve(topic, by_id=by_id)
            if missing or not exists:
                # A topic that is not there is named even where none of its partitions is.
                answer = answers.setdefault(key, OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id))
                answer.partitions += [_committed(index, error) for index in missing]
            if len(missing) < len(topic.partitions):
                left_out = set(missing)
                partitions = [each for each in topic.partitions if each.partition_index not in left_out]
                found.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return found

    def _resolve(self, topic: OffsetCommitRequestTopic, *, by_id: bool) -> tuple[bool, ErrorCode, list[int]]:
        """Give the topic its name or its id; whether it exists, and what is missing, with which error."""
        image = self._metadata.image.topic_by_id(topic.topic_id) if by_id else self._metadata.image.topic(topic.name)
        indexes = [each.partition_index for each in topic.partitions]
        if image is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return False, error, indexes
        topic.name, topic.topic_id = image.name, image.id
        return True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [index for index in indexes if index not in image.partitions]

    def _too_large(self, request: OffsetCommitRequest) -> Refused | None:
        """Kafka writes all of a request as one batch, and refuses what is more than one may hold."""
        shard = group_shard(self._coordinators, request.group_id, empty_allowed=True)
        if isinstance(shard, Refused) or shard.compression:
            return None
        size = sum(
            (RECORD_BYTES + len(request.group_id) + len(topic.name)) * len(topic.partitions)
            + sum(len(each.committed_metadata or "") for each in topic.partitions)
            for topic in request.topics
        )
        return Refused(ErrorCode.MESSAGE_TOO_LARGE) if size > shard.partition.config.max_message_bytes else None

    async def _commit(
        self, call: Call[OffsetCommitRequest], request: OffsetCommitRequest
    ) -> OffsetCommitResponse | Refused:
        shard = group_shard(self._coordinators, request.group_id, empty_allowed=True)
        if isinstance(shard, Refused):
            return shard
        return await shard.carry_out(shard.machine.commit(request, call.version, self._clock.now))

    @endpoint(OFFSET_FETCH, needs=_described)
    async def fetch(self, call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
        """The committed offsets of one group or, from version 8, of several."""
        request = call.request
        version = call.version
        if version >= FETCH_GROUPS_FROM:
            return OffsetFetchResponse(groups=await self._fetch_each(call))
        group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
        if request.topics is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        found = await self._fetch(call, group, request.require_stable)
        self._turns.weigh(call, _number_of(found))
        return _of_one_group(found, version)

    async def _fetch_each(self, call: Call[OffsetFetchRequest]) -> list[OffsetFetchResponseGroup]:
        """One after the other: a few bytes may ask for very many offsets, and for the same ones again and again."""
        groups: list[OffsetFetchResponseGroup] = []
        offsets = 0
        async for some in self._turns.share(call, call.request.groups):
            for group in some:
                found = await self._fetch(call, group, call.request.require_stable)
                offsets += _number_of(found)
                if offsets > FETCHED_MAX:
                    raise CloseConnection(f"an OffsetFetch of more than {FETCHED_MAX:,} offsets")
                groups.append(found)
        self._turns.weigh(call, offsets)
        return groups

    async def _fetch(
        self, call: Call[OffsetFetchRequest], request: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        by_id = call.version >= FETCH_BY_TOPIC_ID_FROM
        unknown: list[OffsetFetchResponseTopics] = []
        asked = request
        if by_id and request.topics is not None:
            asked, unknown = self._with_names(request)
        shard = group_shard(self._coordinators, request.group_id, empty_allowed=True)
        if isinstance(shard, Refused):
            return _group_error(request, refusal(shard), call.version)
        outcome = await _committed_offsets(shard, asked, require_stable=require_stable)
        if isinstance(outcome, Refused):
            return _group_error(request, refusal(outcome), call.version)
        if by_id and request.topics is None:
            outcome.topics = self._with_ids(outcome.topics)
        outcome.topics += unknown
        return outcome

    def _with_names(
        self, request: OffsetFetchRequestGroup
    ) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
        """The request with the topics that are known by their id, and the answers for the others."""
        known: list[OffsetFetchRequestTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for topic in request.topics or ():
            image = self._metadata.image.topic_by_id(topic.topic_id)
            if image is None:
                unknown.append(_topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                topic.name = image.name
                known.append(topic)
        asked = OffsetFetchRequestGroup(
            group_id=request.group_id, member_id=request.member_id, member_epoch=request.member_epoch, topics=known
        )
        return asked, unknown

    def _with_ids(self, topics: Iterable[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
        """All topics with their present ids; one that does not exist any more has no name to go by, and is left out."""
        named: list[OffsetFetchResponseTopics] = []
        for topic in topics:
            image = self._metadata.image.topic(topic.name)
            if image is not None:
                topic.topic_id = image.id
            if topic.topic_id != ZERO_UUID:
                named.append(topic)
        return named

    @endpoint(
        OFFSET_DELETE,
        needs=in_series(
            allowed(DELETE, GROUP, of=lambda request: request.group_id),
            allowed_on_each(
                READ,
                TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.topics,
                name=lambda topic: topic.name,
            ),
        ),
    )
    async def delete(self, call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
        """Forget offsets of partitions that exist; the coordinator is always asked, for the group may not be there.

        Very many are forgotten in parts, and a refusal ends that, as if the client had sent several requests.
        """
        request = call.request
        missing: dict[str, OffsetDeleteResponseTopic] = {}
        deleted: list[OffsetDeleteResponseTopic] = []
        for number, part in enumerate(in_parts(request.topics)):
            if number:
                await self._turns.breathe(call)
            found = self._existing_to_delete(part, missing)
            shard = group_shard(self._coordinators, request.group_id)
            if isinstance(shard, Refused):
                return OffsetDeleteResponse(error_code=refusal(shard))
            wanted = replace(request, topics=found)
            outcome: OffsetDeleteResponse | Refused = await shard.carry_out(
                shard.machine.delete_offsets(wanted, self._clock.now)
            )
            if isinstance(outcome, Refused):
                return OffsetDeleteResponse(error_code=refusal(outcome))
            extend_answers(deleted, outcome.topics, lambda topic: topic.name)
        return OffsetDeleteResponse(topics=joined_answers(missing, deleted, lambda topic: topic.name))

    def _existing_to_delete(
        self, topics: list[OffsetDeleteRequestTopic], answers: dict[str, OffsetDeleteResponseTopic]
    ) -> list[OffsetDeleteRequestTopic]:
        """The topics and partitions that exist; `answers` gets errors for the others."""
        found: list[OffsetDeleteRequestTopic] = []
        for topic in topics:
            image = self._metadata.image.topic(topic.name)
            existing = () if image is None else image.partitions
            partitions = [each for each in topic.partitions if each.partition_index in existing]
            missing = [each.partition_index for each in topic.partitions if each.partition_index not in existing]
            if missing:
                answer = answers.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
                answer.partitions += [_deleted(index) for index in missing]
            if partitions:
                found.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
        return found
