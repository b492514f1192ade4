"""The answers of the coordinator to the offset APIs.

Kafka's `OffsetMetadataManager` and `ClassicGroup.validateOffsetCommit` are the reference.
Topics arrive resolved: whoever calls has put name and id into the request and has answered for those it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused, TransactionalAppend
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.consumer import offsets as of_consumers
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.records import NO_EXPIRY, offset_record, offset_tombstone
from odradek.group.share.group import ShareGroup
from odradek.group.streams import offsets as of_streams
from odradek.group.streams.group import StreamsGroup
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek.wire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from odradek.wire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.group.consumer.groups import Group
    from odradek.group.offsets.committed import CommittedOffset, Offsets
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
    from odradek.wire.messages.offset_delete_request import OffsetDeleteRequest

__all__ = ["OffsetProtocol"]

GROUP_ID_NOT_FOUND_FROM = 9
"""OffsetCommit version that tells an unknown group from a wrong generation (KIP-848)."""
TXN_GROUP_ID_NOT_FOUND_FROM = 6
"""The same for TxnOffsetCommit (KIP-1319)."""
NO_RETENTION_TIME = -1
NO_OFFSET = -1


class OffsetProtocol:
    """Decides about the offsets of groups; it changes none."""

    def __init__(self, config: Config, offsets: Offsets) -> None:
        self._config = config
        self._offsets = offsets

    # ------------------------------------------------------------------ OffsetCommit

    def commit(
        self, group: Group | None, request: OffsetCommitRequest, *, version: int, now: int
    ) -> Decision[OffsetCommitResponse]:
        """Commit offsets for a member of this generation, or for a consumer that no group manages."""
        known_error = version >= GROUP_ID_NOT_FOUND_FROM and self._config.release.has_group_version
        refusal = self._refusal_of_commit(group, request, known_error=known_error)
        if refusal is not None:
            return Refused(refusal)
        expire_timestamp = _expiry(request.retention_time_ms, now)
        records: list[LogRecord] = []
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                error = self._refusal_of_metadata(partition.committed_metadata)
                answers.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                )
                if error == ErrorCode.NONE:
                    value = _value(partition, topic.topic_id, now, expire_timestamp)
                    records.append(offset_record(request.group_id, topic.name, partition.partition_index, value))
            response.topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
            )
        return Proposed(tuple(records), response) if records else Answered(response)

    def txn_commit(
        self, group: Group | None, request: TxnOffsetCommitRequest, *, version: int, now: int
    ) -> Decision[TxnOffsetCommitResponse]:
        """Commit offsets with a transaction: they are written now and count when it commits (KIP-447)."""
        known_error = version >= TXN_GROUP_ID_NOT_FOUND_FROM
        refusal = self._refusal_of_commit(group, request, known_error=known_error)
        if refusal is not None:
            return Refused(refusal)
        records: list[LogRecord] = []
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            answers: list[TxnOffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                error = self._refusal_of_metadata(partition.committed_metadata)
                answers.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
                if error == ErrorCode.NONE:
                    value = _value(partition, topic.topic_id, now, -1)
                    records.append(offset_record(request.group_id, topic.name, index, value))
            response.topics.append(
                TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
            )
        if not records:
            return Answered(response)
        producer = TransactionalAppend(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
        return Proposed(tuple(records), response, producer)

    def _refusal_of_commit(
        self,
        group: Group | None,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        *,
        known_error: bool,
    ) -> ErrorCode | None:
        generation = request.generation_id_or_member_epoch
        if group is None:
            # A group that only keeps offsets comes into being with the first of them.
            if generation < 0:
                return None
            return ErrorCode.GROUP_ID_NOT_FOUND if known_error else ErrorCode.ILLEGAL_GENERATION
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(group, ConsumerGroup):
            return _error_of(
                of_consumers.refusal_of_commit(
                    group,
                    request,
                    known_error=known_error,
                    with_older_epochs=self._config.release.commits_with_older_epochs,
                )
            )
        if isinstance(group, StreamsGroup):
            return _error_of(of_streams.refusal_of_commit(group, request, known_error=known_error))
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and group.state is GroupState.EMPTY:
            return None
        transactional = isinstance(request, TxnOffsetCommitRequest)
        if generation >= 0 or request.member_id or request.group_instance_id is not None:
            refusal = group.refusal_of_member(request.member_id, request.group_instance_id)
            if refusal is None and generation != group.generation:
                refusal = ErrorCode.ILLEGAL_GENERATION
            if refusal is not None:
                return refusal
        elif not transactional:
            # A consumer that no group manages must not write into one that has members.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.COMPLETING_REBALANCE and not transactional:
            # Its generation is right, so it has its JoinGroup answer: let it fetch its assignment first.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def _refusal_of_metadata(self, metadata: str | None) -> ErrorCode:
        if metadata is not None and len(metadata) > self._config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    # ------------------------------------------------------------------ OffsetFetch

    def refusal_of_fetch(self, group: Group | None, request: OffsetFetchRequestGroup) -> Refused | None:
        """Why a member may not fetch; classic groups and groups that do not exist refuse no one."""
        if isinstance(group, ConsumerGroup):
            return of_consumers.refusal_of_fetch(group, request)
        return of_streams.refusal_of_fetch(group, request) if isinstance(group, StreamsGroup) else None

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Committed offsets; whatever is not there has none, be it a partition, a topic or a group."""
        wanted = self._wanted_all(request.group_id) if request.topics is None else request.topics
        return OffsetFetchResponseGroup(
            group_id=request.group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetched(request.group_id, topic, index, require_stable)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in wanted
            ],
        )

    def _wanted_all(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        topics: dict[str, list[int]] = {}
        for topic, partition in self._offsets.of_group(group_id):
            topics.setdefault(topic, []).append(partition)
        return [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()]

    def _fetched(
        self, group_id: str, topic: OffsetFetchRequestTopics, index: int, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        # KIP-447, "Pending transactional offsets": what is committed may change before the client has read it.
        if require_stable and self._offsets.is_open(group_id, topic.name, index):
            return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self._offsets.get(group_id, topic.name, index)
        if committed is None or _is_of_another_topic(committed, topic.topic_id):
            return _no_offset(index, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # ------------------------------------------------------------------ OffsetDelete

    def delete(self, group: Group | None, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        """KIP-496: forget offsets of topics that no member reads."""
        if group is None or isinstance(group, ShareGroup) or group.state is GroupState.DEAD:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ClassicGroup) and not group.is_empty and not group.is_consumer_group:
            return Refused(ErrorCode.NON_EMPTY_GROUP)
        records: list[LogRecord] = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            indexes = [partition.partition_index for partition in topic.partitions]
            answers = [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in indexes]
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
            if not subscribed:
                held = [index for index in indexes if self._offsets.is_known(request.group_id, topic.name, index)]
                records += [offset_tombstone(request.group_id, topic.name, index) for index in held]
        return Proposed(tuple(records), response) if records else Answered(response)

    def tombstones(self, group_id: str) -> Iterator[LogRecord]:
        """The tombstones of all offsets of a group."""
        return (offset_tombstone(group_id, topic, index) for topic, index in self._offsets.known(group_id))

    # ------------------------------------------------------------------ expiry

    def expire(self, group: Group, now: int, *, at_most: int) -> tuple[list[LogRecord], bool]:
        """Tombstones for what has expired, and whether the group has no offset left after them (KIP-211).

        There may be more where there are `at_most`.
        """
        committed = self._offsets.of_group(group.group_id)
        gone = not self._offsets.has_open(group.group_id)
        if not committed:
            return [], gone
        since = self._expires_since(group)
        if since is None:
            return [], False
        retention_ms = self._config.offsets_retention_minutes * 60_000
        records: list[LogRecord] = []
        for (topic, index), offset in committed.items():
            if len(records) >= at_most:
                return records, False
            if (
                group.is_subscribed_to(topic)
                or self._offsets.is_open(group.group_id, topic, index)
                or not offset.is_expired(now, retention_ms=retention_ms, since=since if since >= 0 else None)
            ):
                gone = False
            else:
                records.append(offset_tombstone(group.group_id, topic, index))
        return records, gone

    def _expires_since(self, group: Group) -> int | None:
        """From when retention counts: a time, -1 for each offset's own commit, None if nothing expires."""
        if not isinstance(group, ClassicGroup) or group.protocol_type is None:
            return -1
        if group.state is GroupState.EMPTY:
            return group.state_timestamp
        if group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed_topics is not None:
            return -1
        return None


def _error_of(refused: Refused | None) -> ErrorCode | None:
    return None if refused is None else refused.error


def _expiry(retention_time_ms: int, now: int) -> int:
    """When an offset goes, if its client has said how long it stays."""
    if retention_time_ms == NO_RETENTION_TIME:
        return NO_EXPIRY
    # Kafka adds as Java does: the largest times end in the past.
    return (now + retention_time_ms + 2**63) % 2**64 - 2**63


def _value(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: bytes,
    now: int,
    expire_timestamp: int,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """The topic was deleted and created again; an offset or a request without an id cannot tell."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id
