"""The answers of the coordinator to the offset APIs.

Kafka's `OffsetMetadataManager` and `ClassicGroup.validateOffsetCommit` are the reference.
Topics arrive resolved: whoever calls has put name and id into the request and has answered for those it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused, TransactionalAppend
from odradek.group import commits
from odradek.offsets.committed import NO_EXPIRY, VALUE_VERSION, offset_record, offset_tombstone
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
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
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from odradek.wire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.group.modern_groups import Group
    from odradek.offsets.committed import CommittedOffset, Offsets
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_delete_request import OffsetDeleteRequest

__all__ = ["OffsetProtocol", "ProposedOffsets"]

Offset: TypeAlias = tuple[OffsetCommitKey, OffsetCommitValue]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

GROUP_ID_NOT_FOUND_FROM = 9
"""OffsetCommit version that tells an unknown group from a wrong generation (KIP-848)."""
TXN_GROUP_ID_NOT_FOUND_FROM = 6
"""The same for TxnOffsetCommit (KIP-1319)."""
NO_RETENTION_TIME = -1
NO_OFFSET = -1


class ProposedOffsets(Proposed[T_co], frozen=True):
    """A proposal of offsets of one group, which the records hold as they are here."""

    group_id: str = ""
    offsets: tuple[Offset, ...] = ()


class OffsetProtocol:
    """Decides about the offsets of groups; it changes none."""

    def __init__(self, config: Config, offsets: Offsets) -> None:
        self._config = config
        self._offsets = offsets

    def commit(
        self, group: Group | None, request: OffsetCommitRequest, *, version: int, now: int
    ) -> Decision[OffsetCommitResponse]:
        """Commit offsets for a member of this generation, or for a consumer that no group manages."""
        known_error = version >= GROUP_ID_NOT_FOUND_FROM and self._config.release.has_group_version
        older = self._config.release.commits_with_older_epochs
        refusal = commits.refusal_of_commit(group, request, known_error=known_error, with_older_epochs=older)
        if refusal is not None:
            return Refused(refusal)
        offsets, judged = self._judged(request, now, _expiry(request.retention_time_ms, now))
        topics = [
            OffsetCommitResponseTopic(
                topic.name, topic.topic_id, [OffsetCommitResponsePartition(*each) for each in partitions]
            )
            for topic, partitions in zip(request.topics, judged, strict=True)
        ]
        return self._proposed(request.group_id, offsets, OffsetCommitResponse(topics=topics))

    def txn_commit(
        self, group: Group | None, request: TxnOffsetCommitRequest, *, version: int, now: int
    ) -> Decision[TxnOffsetCommitResponse]:
        """Commit offsets with a transaction: they are written now and count when it commits (KIP-447)."""
        known_error = version >= TXN_GROUP_ID_NOT_FOUND_FROM
        older = self._config.release.commits_with_older_epochs
        refusal = commits.refusal_of_commit(group, request, known_error=known_error, with_older_epochs=older)
        if refusal is not None:
            return Refused(refusal)
        offsets, judged = self._judged(request, now, NO_EXPIRY)
        topics = [
            TxnOffsetCommitResponseTopic(
                topic.name, topic.topic_id, [TxnOffsetCommitResponsePartition(*each) for each in partitions]
            )
            for topic, partitions in zip(request.topics, judged, strict=True)
        ]
        producer = TransactionalAppend(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
        return self._proposed(request.group_id, offsets, TxnOffsetCommitResponse(topics=topics), producer)

    def _judged(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, now: int, expire_timestamp: int
    ) -> tuple[list[Offset], list[list[tuple[int, ErrorCode]]]]:
        """The offsets to write, and of each topic the partitions, with the error of each."""
        offsets: list[Offset] = []
        judged: list[list[tuple[int, ErrorCode]]] = []
        longest = self._config.offset_metadata_max_bytes
        for topic in request.topics:
            errors: list[tuple[int, ErrorCode]] = []
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata or ""
                if len(metadata) > longest:
                    errors.append((index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                    continue
                errors.append((index, ErrorCode.NONE))
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now,
                    expire_timestamp=expire_timestamp,
                    topic_id=topic.topic_id,
                )
                offsets.append((OffsetCommitKey(request.group_id, topic.name, index), value))
            judged.append(errors)
        return offsets, judged

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

    def delete(self, group: Group | None, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
        """KIP-496: forget offsets of topics that no member reads."""
        refusal = commits.refusal_of_deletion(group)
        if group is None or refusal is not None:
            return Refused(refusal or ErrorCode.GROUP_ID_NOT_FOUND)
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
        return (offset_tombstone(group_id, topic, index) for topic, index in self._offsets.known(group_id))

    def expire(self, group: Group, now: int, *, at_most: int) -> tuple[list[LogRecord], bool]:
        """Tombstones for what has expired, and whether the group has no offset left after them (KIP-211).

        There may be more where there are `at_most`.
        """
        committed = self._offsets.of_group(group.group_id)
        gone = not self._offsets.has_open(group.group_id)
        if not committed:
            return [], gone
        since = commits.expires_since(group)
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

    def _proposed(
        self, group_id: str, offsets: list[Offset], reply: T, producer: TransactionalAppend | None = None
    ) -> Decision[T]:
        if not offsets:
            return Answered(reply)
        version = self._config.release.offset_value_version
        records = tuple(offset_record(key, value, version) for key, value in offsets)
        if version < VALUE_VERSION or offsets[0][1].expire_timestamp != NO_EXPIRY:
            # Older versions of a record leave out fields.
            return Proposed(records, reply, producer)
        return ProposedOffsets(records, reply, producer, group_id=group_id, offsets=tuple(offsets))


def _expiry(retention_time_ms: int, now: int) -> int:
    """When an offset goes, if its client has said how long it stays."""
    if retention_time_ms == NO_RETENTION_TIME:
        return NO_EXPIRY
    # Kafka adds as Java does: the largest times end in the past.
    return (now + retention_time_ms + 2**63) % 2**64 - 2**63


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """The topic was deleted and created again; an offset or a request without an id cannot tell."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id
