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
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from odradek.core.machine import Refused
from odradek.group.api import group_shard, refusal
from odradek.host.call import CloseConnection
from odradek.host.coordinators import HasCoordinators
from odradek.host.in_parts import extend_answers, in_parts, joined_answers
from odradek.host.seams import HasClock, HasMetadata, HasTurns
from odradek.wire.errors import ErrorCode
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
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call

__all__ = ["offset_commit", "offset_delete", "offset_fetch"]


class Node(HasClock, HasCoordinators, HasMetadata, HasTurns, Protocol):
    """What these routes touch of their broker."""


COMMIT_BY_TOPIC_ID_FROM = 10
FETCH_BY_TOPIC_ID_FROM = 10
RECORD_BYTES = 60
"""What an offset takes in the log at least, besides the names of its group and topic and what the client says of it."""
FETCHED_MAX = 200_000
"""How many offsets are told in one answer at most, so that one request cannot fill the memory."""
FETCH_GROUPS_FROM = 8
FETCH_GROUP_ERROR_FROM = 2
"""OffsetFetch version from which a group has an error of its own; before, each partition carries it."""
FETCH_NOTHING_IS_NO_ERROR_FROM = 1


# ---------------------------------------------------------------------- OffsetCommit


async def offset_commit(node: Node, call: Call) -> OffsetCommitResponse:
    """Commit offsets of topics that exist; the others are answered without asking the coordinator.

    Very many are committed in parts, as if the client had sent several requests: what is refused on the way is answered
    as refused, with all that comes after it, and what was committed before is committed.
    """
    request: OffsetCommitRequest = call.request
    by_id = call.version >= COMMIT_BY_TOPIC_ID_FROM
    missing: dict[str | bytes, OffsetCommitResponseTopic] = {}
    committed: list[OffsetCommitResponseTopic] = []

    def key(topic: OffsetCommitResponseTopic) -> str | bytes:
        return topic.topic_id if by_id else topic.name

    parts = list(in_parts(request.topics))
    refused = _too_large(node, request) if len(parts) > 1 else None
    for number, part in enumerate(parts):
        if number:
            await node.turns.breathe(call)
        found = _existing(node, part, missing, by_id=by_id)
        if not found:
            continue
        outcome = refused or await _commit(node, call, replace(request, topics=found))
        if isinstance(outcome, Refused):
            refused = outcome
        extend_answers(committed, _answered(found, outcome), key)
    return OffsetCommitResponse(topics=joined_answers(missing, committed, key))


def _existing(
    node: Node,
    topics: list[OffsetCommitRequestTopic],
    answers: dict[str | bytes, OffsetCommitResponseTopic],
    *,
    by_id: bool,
) -> list[OffsetCommitRequestTopic]:
    """What of the topics exists, with their names and ids; what does not is answered."""
    found: list[OffsetCommitRequestTopic] = []
    for topic in topics:
        key = topic.topic_id if by_id else topic.name
        exists, error, missing = _resolve(node, topic, by_id=by_id)
        if missing or not exists:
            # A topic that is not there is named even where none of its partitions is.
            answer = answers.setdefault(key, OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id))
            answer.partitions += [_committed(index, error) for index in missing]
        if len(missing) < len(topic.partitions):
            left_out = set(missing)
            partitions = [each for each in topic.partitions if each.partition_index not in left_out]
            found.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return found


def _resolve(node: Node, topic: OffsetCommitRequestTopic, *, by_id: bool) -> tuple[bool, ErrorCode, list[int]]:
    """Give the topic its name or its id; whether it exists, and what is missing, with which error."""
    image = node.image.topic_by_id(topic.topic_id) if by_id else node.image.topic(topic.name)
    indexes = [each.partition_index for each in topic.partitions]
    if image is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return False, error, indexes
    topic.name, topic.topic_id = image.name, image.id
    return True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [index for index in indexes if index not in image.partitions]


def _too_large(node: Node, request: OffsetCommitRequest) -> Refused | None:
    """Kafka writes all of a request as one batch, and refuses what is more than one may hold."""
    shard = group_shard(node, request.group_id, empty_allowed=True)
    if isinstance(shard, Refused) or shard.compression:
        return None
    size = sum(
        (RECORD_BYTES + len(request.group_id) + len(topic.name)) * len(topic.partitions)
        + sum(len(each.committed_metadata or "") for each in topic.partitions)
        for topic in request.topics
    )
    return Refused(ErrorCode.MESSAGE_TOO_LARGE) if size > shard.partition.config.max_message_bytes else None


async def _commit(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | Refused:
    shard = group_shard(node, request.group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return shard
    return await shard.carry_out(shard.machine.commit(request, call.version, node.now))


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


# ---------------------------------------------------------------------- OffsetFetch


async def offset_fetch(node: Node, call: Call) -> OffsetFetchResponse:
    """The committed offsets of one group or, from version 8, of several."""
    request: OffsetFetchRequest = call.request
    version = call.version
    if version >= FETCH_GROUPS_FROM:
        return OffsetFetchResponse(groups=await _fetch_each(node, call, request))
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    if request.topics is not None:
        group.topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    found = await _fetch(node, call, group, request.require_stable)
    node.turns.weigh(call, _number_of(found))
    return _of_one_group(found, version)


async def _fetch_each(node: Node, call: Call, request: OffsetFetchRequest) -> list[OffsetFetchResponseGroup]:
    """One after the other: a few bytes may ask for very many offsets, and for the same ones again and again."""
    groups: list[OffsetFetchResponseGroup] = []
    offsets = 0
    async for some in node.turns.share(call, request.groups):
        for group in some:
            found = await _fetch(node, call, group, request.require_stable)
            offsets += _number_of(found)
            if offsets > FETCHED_MAX:
                raise CloseConnection(f"an OffsetFetch of more than {FETCHED_MAX:,} offsets")
            groups.append(found)
    node.turns.weigh(call, offsets)
    return groups


def _number_of(group: OffsetFetchResponseGroup) -> int:
    return sum(len(topic.partitions) for topic in group.topics)


async def _fetch(
    node: Node, call: Call, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = call.version >= FETCH_BY_TOPIC_ID_FROM
    unknown: list[OffsetFetchResponseTopics] = []
    asked = request
    if by_id and request.topics is not None:
        asked, unknown = _with_names(node, request)
    shard = group_shard(node, request.group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return _group_error(request, refusal(shard), call.version)
    outcome = await _committed_offsets(shard, asked, require_stable=require_stable)
    if isinstance(outcome, Refused):
        return _group_error(request, refusal(outcome), call.version)
    if by_id and request.topics is None:
        outcome.topics = _with_ids(node, outcome.topics)
    outcome.topics += unknown
    return outcome


async def _committed_offsets(
    shard: GroupShard, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup | Refused:
    """The offsets of a group as they are committed; who wants stable ones is told what was written before, too.

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


def _with_names(
    node: Node, request: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """The request with the topics that are known by their id, and the answers for the others."""
    known: list[OffsetFetchRequestTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in request.topics or ():
        image = node.image.topic_by_id(topic.topic_id)
        if image is None:
            unknown.append(_topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = image.name
            known.append(topic)
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id, member_id=request.member_id, member_epoch=request.member_epoch, topics=known
    )
    return asked, unknown


def _with_ids(node: Node, topics: Iterable[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
    """All topics with their present ids; one that does not exist any more has no name to go by, and is left out."""
    named: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        image = node.image.topic(topic.name)
        if image is not None:
            topic.topic_id = image.id
        if topic.topic_id != ZERO_UUID:
            named.append(topic)
    return named


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


# ---------------------------------------------------------------------- OffsetDelete


async def offset_delete(node: Node, call: Call) -> OffsetDeleteResponse:
    """Forget offsets of partitions that exist; the coordinator is asked in any case, for the group may not be there.

    Very many are forgotten in parts, and a refusal ends that, as if the client had sent several requests.
    """
    request: OffsetDeleteRequest = call.request
    missing: dict[str, OffsetDeleteResponseTopic] = {}
    deleted: list[OffsetDeleteResponseTopic] = []
    for number, part in enumerate(in_parts(request.topics)):
        if number:
            await node.turns.breathe(call)
        found = _existing_to_delete(node, part, missing)
        shard = group_shard(node, request.group_id)
        if isinstance(shard, Refused):
            return OffsetDeleteResponse(error_code=refusal(shard))
        wanted = replace(request, topics=found)
        outcome: OffsetDeleteResponse | Refused = await shard.carry_out(shard.machine.delete_offsets(wanted, node.now))
        if isinstance(outcome, Refused):
            return OffsetDeleteResponse(error_code=refusal(outcome))
        extend_answers(deleted, outcome.topics, lambda topic: topic.name)
    return OffsetDeleteResponse(topics=joined_answers(missing, deleted, lambda topic: topic.name))


def _existing_to_delete(
    node: Node, topics: list[OffsetDeleteRequestTopic], answers: dict[str, OffsetDeleteResponseTopic]
) -> list[OffsetDeleteRequestTopic]:
    """What of the topics exists; what does not is answered."""
    found: list[OffsetDeleteRequestTopic] = []
    for topic in topics:
        image = node.image.topic(topic.name)
        existing = () if image is None else image.partitions
        partitions = [each for each in topic.partitions if each.partition_index in existing]
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in existing]
        if missing:
            answer = answers.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
            answer.partitions += [_deleted(index) for index in missing]
        if partitions:
            found.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
    return found


def _deleted(index: int) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
