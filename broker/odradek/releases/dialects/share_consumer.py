"""A member of a share group whose acknowledgements may be part of a transaction (KIP-1289), without sockets.

No released client has `acknowledgementsForTransaction`. The steps are those of a Java `ShareConsumer` with
`share.acknowledgement.mode=explicit`, as generators like those of `odradek.releases.dialects.producer`. The member
takes the acknowledgements that it has collected out of its own hands, and a producer sends them with its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.records.legacy import batches_of_log
from odradek.records.record import iterate_records
from odradek.releases.dialects.producer import (
    RETRIES_MAX,
    RETRY_MS,
    Ask,
    Pause,
    Refusal,
    Role,
    Steps,
    TopicPartition,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from odradek.wire.messages.metadata_response import MetadataResponse
    from odradek.wire.messages.share_fetch_response import PartitionData
    from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

__all__ = [
    "ACCEPT",
    "REJECT",
    "RELEASE",
    "Acknowledgements",
    "GroupMetadata",
    "ShareConsumer",
    "SharedRecord",
    "batches_of",
]

GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
METADATA_VERSION = 12
VERSION = 1
"""Of ShareFetch, ShareAcknowledge and ShareGroupHeartbeat."""
JOINING, LEAVING = 0, -1
BYTES_MAX = 1 << 20


class GroupMetadata(Struct, frozen=True):
    """The KIP's ShareGroupMetadata: the member for whom a producer acknowledges."""

    group_id: str
    member_id: str
    member_epoch: int


class SharedRecord(Struct, frozen=True):
    """A record that the member has acquired, with its delivery count."""

    topic_id: bytes
    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    count: int


Acknowledgements = dict[tuple[bytes, TopicPartition], dict[int, int]]
"""The KIP's ShareAcknowledgements: the types by offset, of each topic id and partition."""


class ShareConsumer:
    """One member of a share group, which acknowledges each record explicitly."""

    def __init__(self, group_id: str, topics: Sequence[str], member_id: str, *, records_max: int = 500) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = JOINING
        self._topics = list(topics)
        self._records_max = records_max
        self._names: dict[bytes, str] = {}
        self._assigned: set[tuple[bytes, int]] = set()
        self._sessions: dict[int, int] = {}
        """The next epoch of its session at each broker."""
        self._said: Acknowledgements = {}
        self.missed: list[TopicPartition] = []
        """The partitions of the last poll without an answer: it may have acquired records there."""

    @property
    def metadata(self) -> GroupMetadata:
        """The KIP's `shareGroupMetadata`."""
        return GroupMetadata(self.group_id, self.member_id, self.epoch)

    @property
    def assigned(self) -> list[TopicPartition]:
        """The partitions that the group has assigned to it."""
        names = self._names
        return sorted((names[topic_id], index) for topic_id, index in self._assigned if topic_id in names)

    def join(self) -> Steps[None]:
        """Send heartbeats until partitions are assigned."""
        for _ in range(RETRIES_MAX):
            yield from self.heartbeat()
            if self._assigned:
                return
            yield Pause(RETRY_MS)
        raise Refusal("ShareGroupHeartbeat", ErrorCode.REQUEST_TIMED_OUT)

    def heartbeat(self) -> Steps[None]:
        """ShareGroupHeartbeat: join, or stay."""
        topics = self._topics if self.epoch == JOINING else None
        answer = yield from self._to_coordinator(self.epoch, topics)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            told = answer.assignment.topic_partitions
            self._assigned = {(each.topic_id, index) for each in told for index in each.partitions}

    def leave(self) -> Steps[None]:
        """End the sessions, and leave the group; records without an acknowledgement are released."""
        for broker in sorted(self._sessions):
            request = ShareFetchRequest(group_id=self.group_id, member_id=self.member_id, share_session_epoch=LEAVING)
            yield Ask(Role.BROKER, str(broker), request, VERSION)
        self._sessions.clear()
        self._said.clear()
        yield from self._to_coordinator(LEAVING, None)

    def _to_coordinator(self, epoch: int, topics: list[str] | None) -> Steps[ShareGroupHeartbeatResponse]:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        error = ErrorCode.REQUEST_TIMED_OUT
        for _ in range(RETRIES_MAX):
            answer: ShareGroupHeartbeatResponse | None = yield Ask(Role.GROUP, self.group_id, request, VERSION)
            if answer is not None and not answer.error_code:
                return answer
            error = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            if error not in _RETRIED:
                break
            yield Pause(RETRY_MS)
        raise Refusal("ShareGroupHeartbeat", error)

    def poll(self, wait_ms: int = 500) -> Steps[list[SharedRecord]]:
        """ShareFetch from each leader of assigned partitions; the acquired records, which have to be acknowledged."""
        found: list[SharedRecord] = []
        self.missed = []
        for broker, led in (yield from self._leaders()).items():
            partitions: dict[bytes, list[FetchPartition]] = {}
            for topic_id, index in led:
                partitions.setdefault(topic_id, []).append(FetchPartition(partition_index=index))
            session = self._sessions.get(broker, 0)
            request = ShareFetchRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=session,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=BYTES_MAX,
                max_records=self._records_max,
                batch_size=self._records_max,
                topics=[FetchTopic(topic_id=topic_id, partitions=each) for topic_id, each in partitions.items()],
            )
            answer = yield Ask(Role.BROKER, str(broker), request, VERSION)
            if answer is None or answer.error_code:
                # Whether it has acquired records is not known; their locks will end.
                self._sessions.pop(broker, None)
                self.missed += [(self._names[topic_id], index) for topic_id, index in led]
                continue
            self._sessions[broker] = session + 1
            for topic in answer.responses:
                for data in topic.partitions:
                    found += self._records(topic.topic_id, data)
        return found

    def _leaders(self) -> Steps[dict[int, list[tuple[bytes, int]]]]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in self._topics])
        for _ in range(RETRIES_MAX):
            answer: MetadataResponse | None = yield Ask(Role.ANYBODY, "", request, METADATA_VERSION)
            if answer is not None:
                break
            yield Pause(RETRY_MS)
        else:
            raise Refusal("Metadata", ErrorCode.NETWORK_EXCEPTION)
        led: dict[int, list[tuple[bytes, int]]] = {}
        for topic in answer.topics:
            self._names[topic.topic_id] = topic.name or ""
            for each in topic.partitions:
                if (topic.topic_id, each.partition_index) in self._assigned and each.leader_id >= 0:
                    led.setdefault(each.leader_id, []).append((topic.topic_id, each.partition_index))
        return led

    def _records(self, topic_id: bytes, data: PartitionData) -> list[SharedRecord]:
        partition = self._names[topic_id], data.partition_index
        counts = {
            offset: each.delivery_count
            for each in data.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        found = [
            SharedRecord(topic_id, partition, record.offset, record.key, record.value, counts[record.offset])
            for batch in batches_of_log(memoryview(data.records or b""))
            if not batch.is_control
            for record in iterate_records(batch)
            if record.offset in counts
        ]
        # Offsets without records, such as markers, are acquired and have to be given back as gaps.
        gaps = counts.keys() - {record.offset for record in found}
        self._said.setdefault((topic_id, partition), {}).update(dict.fromkeys(gaps, GAP))
        return found

    def acknowledge(self, record: SharedRecord, kind: int = ACCEPT) -> None:
        """Note the acknowledgement of a record; it is sent by `commit`, or by a producer."""
        self._said.setdefault((record.topic_id, record.partition), {})[record.offset] = kind

    def for_transaction(self) -> Acknowledgements:
        """The KIP's `acknowledgementsForTransaction`: all that was noted, which the member does not send itself."""
        said, self._said = {key: types for key, types in self._said.items() if types}, {}
        return said

    def commit(self) -> Steps[dict[TopicPartition, ErrorCode]]:
        """ShareAcknowledge, without a transaction: the error of each partition."""
        said = self.for_transaction()
        errors: dict[TopicPartition, ErrorCode] = {}
        for broker, led in (yield from self._leaders()).items():
            topics = [
                AcknowledgeTopic(
                    topic_id,
                    [
                        AcknowledgePartition(
                            partition[1],
                            [AcknowledgementBatch(first, last, [kind]) for first, last, kind in batches_of(types)],
                        )
                    ],
                )
                for (topic_id, partition), types in said.items()
                if (topic_id, partition[1]) in led
            ]
            if not topics:
                continue
            request = ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self._sessions.get(broker, 0),
                topics=topics,
            )
            answer = yield Ask(Role.BROKER, str(broker), request, VERSION)
            if answer is None or answer.error_code:
                error = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
                self._sessions.pop(broker, None)
                errors |= {(self._names[each.topic_id], each.partitions[0].partition_index): error for each in topics}
                continue
            self._sessions[broker] += 1
            for topic in answer.responses:
                for each in topic.partitions:
                    errors[self._names[topic.topic_id], each.partition_index] = ErrorCode(each.error_code)
        return errors


def batches_of(types: dict[int, int]) -> list[tuple[int, int, int]]:
    """The acknowledgements as batches: first and last offset, and the type of all."""
    runs = groupby(enumerate(sorted(types)), lambda each: (each[1] - each[0], types[each[1]]))
    found = []
    for (_, kind), run in runs:
        offsets = [offset for _, offset in run]
        found.append((offsets[0], offsets[-1], kind))
    return found


_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
