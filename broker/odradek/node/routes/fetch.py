"""Fetch (key 1), versions 0 to 18.

Version 3 adds the limit of the whole response, 4 isolation levels and record batches (below it, batches are converted
down), 5 the log start offset, 7 sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks (KIP-392), 12 is flexible and
tells of epochs that diverge (KIP-595), 13 names topics by id (KIP-516), 15 moves the replica id into a tagged field, 16
adds node endpoints (KIP-951), 17 and 18 concern followers only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from odradek.config.table import RACK_AWARE
from odradek.log.isolation import ISOLATION_LEVELS, READ_COMMITTED
from odradek.log.machine import Refused
from odradek.log.replica import Replica
from odradek.node.fetch_sessions import EPOCH_FINAL, EPOCH_INITIAL, FetchSession, SessionPartition
from odradek.node.hosting.nearest import nearest_replica
from odradek.node.hosting.replicas import READABLE, HasReplicas
from odradek.node.quotas.piece import HasQuotas
from odradek.node.routes.leaders import current_leader
from odradek.node.seams import (
    HasAuthority,
    HasClock,
    HasConfig,
    HasFetchSessions,
    HasIdentity,
    HasMetadata,
    HasPurgatory,
    HasTurns,
)
from odradek.records.batch import InvalidBatch
from odradek.records.legacy import down_convert
from odradek.security.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.node.transport.call import Call
    from odradek.wire.messages.fetch_request import FetchRequest

__all__ = ["fetch"]


class Node(
    HasAuthority,
    HasClock,
    HasConfig,
    HasFetchSessions,
    HasIdentity,
    HasMetadata,
    HasPurgatory,
    HasQuotas,
    HasReplicas,
    HasTurns,
    Protocol,
):
    """What a Fetch touches of its broker."""


BATCHES_SINCE = 4
ZSTD_SINCE = 10
RACKS_SINCE = 11
TOPIC_IDS_SINCE = 13
LEADERS_SINCE = 16
NO_EPOCH = -1
NO_REPLICA = -1
Key = tuple[object, int]


async def fetch(node: Node, call: Call) -> FetchResponse:
    """Read from each partition; wait for `min_bytes` until `max_wait_ms` has passed."""
    request: FetchRequest = call.request
    wanted, session, error = await _wanted(node, request, call)
    if error is not ErrorCode.NONE:
        return FetchResponse(error_code=error)
    if request.isolation_level not in ISOLATION_LEVELS and _reads_any(node, request, call, wanted.values()):
        return _of_no_isolation(request, call.version)
    deadline = node.now + request.max_wait_ms
    bytes_max = None if call.meter is None or node.quotas is None else node.quotas.fetch_bytes_max(call)
    bytes_min = request.min_bytes if bytes_max is None else min(request.min_bytes, bytes_max)
    while True:
        reading = _Reading(node, request, call)
        if bytes_max is not None:
            reading.room = min(reading.room, bytes_max)
        async for some in node.turns.share(call, list(wanted.values())):
            for partition in some:
                reading.read(partition)
        if reading.size >= bytes_min or reading.failed or node.now >= deadline or not wanted:
            break
        if call.is_long and reading.is_stale():
            continue
        keys = [(READABLE, (partition.topic, partition.index)) for partition in wanted.values()]
        reading.await_leaders()
        await node.purgatory.park(keys, deadline=deadline)
    incremental = session is not None and request.session_epoch > EPOCH_INITIAL
    if call.meter is not None and node.quotas is not None:
        throttle_ms = node.quotas.fetched(call, _would_answer(reading, session, incremental=incremental))
        if throttle_ms:
            return _throttled(node, session, throttle_ms, incremental=incremental)
    return await _answer(node, call, reading, session, incremental=incremental)


def _reads_any(node: Node, request: FetchRequest, call: Call, wanted: Iterable[SessionPartition]) -> bool:
    """Whether any of these partitions is there, and may be read: Kafka looks at the isolation level only then."""
    reading = _Reading(node, request, call)
    return any(reading.is_there(partition) for partition in wanted)


def _of_no_isolation(request: FetchRequest, version: int) -> FetchResponse:
    """Kafka fails with all of a request whose isolation level is none; topics without names are not answered."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    if version >= TOPIC_IDS_SINCE:
        return FetchResponse(error_code=error, session_id=request.session_id)
    topics = [
        FetchableTopicResponse(
            topic=topic.topic, partitions=[_failed(each.partition, error, unknown=True) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=error, session_id=request.session_id, responses=topics)


async def _wanted(
    node: Node, request: FetchRequest, call: Call
) -> tuple[dict[Key, SessionPartition], FetchSession | None, ErrorCode]:
    """The partitions to read, by session or by the request alone."""
    version = call.version
    asked = await _asked(node, request, call)
    if version < 7 or request.session_epoch == EPOCH_FINAL:
        if version >= 7 and request.session_id:
            node.fetch_sessions.close(request.session_id)
        return asked, None, ErrorCode.NONE
    if request.session_epoch == EPOCH_INITIAL:
        if request.session_id:
            node.fetch_sessions.close(request.session_id)
        uses_topic_ids = version >= TOPIC_IDS_SINCE
        return asked, node.fetch_sessions.open(asked, uses_topic_ids=uses_topic_ids, now=node.now), ErrorCode.NONE
    session = node.fetch_sessions.get(request.session_id)
    if session is None:
        return {}, None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return {}, None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.uses_topic_ids != (version >= TOPIC_IDS_SINCE):
        return {}, None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    _update(session, request, asked, by_id=version >= TOPIC_IDS_SINCE)
    if not session.partitions:
        # A session that has nothing left is over; what was asked is read once more, as without one.
        node.fetch_sessions.close(session.session_id)
        return asked, None, ErrorCode.NONE
    node.fetch_sessions.touch(session, node.now)
    return session.partitions, session, ErrorCode.NONE


async def _asked(node: Node, request: FetchRequest, call: Call) -> dict[Key, SessionPartition]:
    by_id = call.version >= TOPIC_IDS_SINCE
    image = node.image
    asked: dict[Key, SessionPartition] = {}
    for topic in request.topics:
        if by_id:
            known = image.topic_by_id(topic.topic_id)
            name = "" if known is None else known.name
            named: object = topic.topic_id
        else:
            name = named = topic.topic
        async for some in node.turns.share(call, topic.partitions):
            for partition in some:
                asked[named, partition.partition] = SessionPartition(
                    name,
                    topic.topic_id,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    max(NO_EPOCH, partition.current_leader_epoch),
                    max(NO_EPOCH, partition.last_fetched_epoch),
                )
    return asked


def _update(session: FetchSession, request: FetchRequest, asked: dict[Key, SessionPartition], *, by_id: bool) -> None:
    known = session.partitions
    for key, partition in asked.items():
        before = known.get(key)
        if before is None:
            known[key] = partition
            continue
        before.topic = partition.topic
        before.fetch_offset = partition.fetch_offset
        before.max_bytes = partition.max_bytes
        before.current_leader_epoch = partition.current_leader_epoch
        before.last_fetched_epoch = partition.last_fetched_epoch
    for topic in request.forgotten_topics_data:
        named: object = topic.topic_id if by_id else topic.topic
        for index in topic.partitions:
            known.pop((named, index), None)


class _Reading:
    """One pass over the wanted partitions."""

    def __init__(self, node: Node, request: FetchRequest, call: Call) -> None:
        self.node = node
        self.version = version = call.version
        self.call = call
        self.listener = call.peer.listener
        self.zstd_since = ZSTD_SINCE if node.release.keeps_zstd_from_old_fetches else BATCHES_SINCE
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.room = min(request.max_bytes, node.config.fetch_max_bytes) if version >= 3 else 2**31 - 1
        self.size = 0
        self.failed = False
        self.follower = max(request.replica_id, request.replica_state.replica_id)
        self.reads_replicas = version >= RACKS_SINCE and self.follower < 0
        self.selects = self.reads_replicas and node.config.replica_selector_class == RACK_AWARE
        self.replicas: list[Replica] = []
        """Those of other leaders that were read."""
        self.results: list[tuple[SessionPartition, PartitionData]] = []
        self.leaders: dict[int, NodeEndpoint] = {}

    def read(self, wanted: SessionPartition) -> None:
        data = self._read(wanted)
        if data.error_code != ErrorCode.NONE:
            self.failed = True
        if data.records:
            self.size += len(data.records)
            self.room = max(0, self.room - len(data.records))
        self.results.append((wanted, data))

    def is_there(self, wanted: SessionPartition) -> bool:
        """Whether the partition exists and the sender may read it; its leader may be another broker."""
        image = self.node.image
        by_id = self.version >= TOPIC_IDS_SINCE
        topic = image.topic_by_id(wanted.topic_id) if by_id else image.topic(wanted.topic)
        if topic is None or image.partition(topic.name, wanted.index) is None:
            return False
        return self._may_read(topic.name)

    def is_stale(self) -> bool:
        """Whether a partition has grown since it was read: nobody was woken by that, for nobody waited yet."""
        for wanted, data in self.results:
            partition = self._readable(wanted)
            if partition is None or (partition.high_watermark, partition.last_stable_offset) != (
                data.high_watermark,
                data.last_stable_offset,
            ):
                return True
        return False

    def await_leaders(self) -> None:
        """Have the leaders say when there is more of what is read from replicas here."""
        for replica in self.replicas:
            if replica.log is not None:
                replica.log.awaited_by.add(self.node.node_id)

    def _readable(self, wanted: SessionPartition) -> Partition | Replica | None:
        """The partition, led here; or a replica of it, for a consumer that may be sent to one (KIP-392)."""
        node, by_id = self.node, self.version >= TOPIC_IDS_SINCE
        partition = node.replicas.find(wanted.topic, wanted.index)
        if partition is not None:
            return None if by_id and partition.topic_id != wanted.topic_id else partition
        topic = node.image.topic(wanted.topic) if self.reads_replicas else None
        if topic is None or (by_id and topic.id != wanted.topic_id):
            return None
        held = node.replicas.held(wanted.topic, wanted.index)
        return None if isinstance(held, Refused) else held

    def _read(self, wanted: SessionPartition) -> PartitionData:
        node = self.node
        is_named = bool(wanted.topic) or self.version < TOPIC_IDS_SINCE
        if node.authority is not None and is_named and not self._may_read(wanted.topic):
            return _failed(wanted.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._readable(wanted)
        if partition is None:
            return self._unavailable(wanted)
        if isinstance(partition, Replica):
            self.replicas.append(partition)
        elif self.version < self.zstd_since and partition.config.compression_type == "zstd":
            return _failed(wanted.index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        epoch_error = partition.check_leader_epoch(wanted.current_leader_epoch)
        if epoch_error is not ErrorCode.NONE:
            failed = _failed(wanted.index, epoch_error)
            if epoch_error is ErrorCode.FENCED_LEADER_EPOCH:
                self._tell_leader(failed, wanted)
            return failed
        if self.follower >= 0 and not self._is_followed(wanted):
            # Who names the epoch that is current, and has no replica, must be ahead of this broker.
            told = wanted.current_leader_epoch != NO_EPOCH
            failed = _failed(wanted.index, ErrorCode.UNKNOWN_LEADER_EPOCH if told else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if not told:
                self._tell_leader(failed, wanted)
            return failed
        if wanted.last_fetched_epoch != NO_EPOCH and (parted := self._parted(partition, wanted)) is not None:
            return parted
        if self.selects and (nearest := self._nearest(partition, wanted)) is not None:
            return nearest
        max_bytes = min(wanted.max_bytes, self.room)
        result = partition.read(
            wanted.fetch_offset,
            max_bytes=max(0, max_bytes),
            read_committed=self.read_committed,
            min_one=self.size == 0 and self.version >= 3,
        )
        if isinstance(result, Refused):
            return _failed(wanted.index, result.error)
        if max_bytes < 0:
            # Kafka fails to read less than nothing, unless there is nothing to read.
            end = result.last_stable_offset if self.read_committed else result.high_watermark
            if wanted.fetch_offset < end:
                return _failed(wanted.index, ErrorCode.UNKNOWN_SERVER_ERROR)
        records: memoryview | bytes = result.records
        if self.version < BATCHES_SINCE and len(records):
            try:
                records = down_convert(
                    result.records, magic=1 if self.version >= 2 else 0, first_offset=wanted.fetch_offset
                )
            except InvalidBatch as invalid:
                return _failed(wanted.index, invalid.error)
        aborted = result.aborted
        return PartitionData(
            partition_index=wanted.index,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=None
            if aborted is None
            else [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted],
            records=records,
        )

    def _nearest(self, partition: Partition | Replica, wanted: SessionPartition) -> PartitionData | None:
        """Where the consumer had better read, and nothing else; None if that is here."""
        rack, listener, offset = self.call.request.rack_id, self.listener, wanted.fetch_offset
        if isinstance(partition, Replica):
            return None
        nearest = nearest_replica(self.node, partition, rack=rack, listener=listener, offset=offset)
        if nearest is None:
            return None
        self.failed = True  # which no reader waits for
        told = _without_records(partition, wanted)
        told.preferred_read_replica = nearest
        return told

    def _is_followed(self, wanted: SessionPartition) -> bool:
        """Whether who reads as a follower has a replica of the partition, and does not lead it."""
        registered = self.node.image.partition(wanted.topic, wanted.index)
        return registered is not None and self.follower in registered.replicas and self.follower != registered.leader

    def _may_read(self, topic: str) -> bool:
        """Whether the sender may still read it: a session can outlive a permission. A follower reads all or nothing."""
        authority, request = self.node.authority, self.call.request
        if authority is None:
            return True
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            return authority.allows(self.call, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        return authority.allows(self.call, AclOperation.READ, AclResource.TOPIC, topic)

    def _parted(self, partition: Partition | Replica, wanted: SessionPartition) -> PartitionData | None:
        """What tells a reader where its records and ours part, if they do; asked before the offset is looked at."""
        end = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
        if end.leader_epoch == NO_EPOCH:
            return _failed(wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.leader_epoch >= wanted.last_fetched_epoch and end.end_offset >= wanted.fetch_offset:
            return None
        self.failed = True  # which no reader waits for
        told = _without_records(partition, wanted)
        told.diverging_epoch = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
        return told

    def _unavailable(self, wanted: SessionPartition) -> PartitionData:
        image = self.node.image
        if self.version >= TOPIC_IDS_SINCE:
            topic = image.topic_by_id(wanted.topic_id)
            if topic is None:
                return _failed(wanted.index, ErrorCode.UNKNOWN_TOPIC_ID)
            # A session may have asked for the topic before this broker knew it.
            wanted.topic = topic.name
        if image.partition(wanted.topic, wanted.index) is None:
            return _failed(wanted.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        refused = self.node.replicas.led_in(wanted.topic, wanted.index, wanted.current_leader_epoch)
        error = refused.error if isinstance(refused, Refused) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        failed = _failed(wanted.index, error)
        if error is not ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._tell_leader(failed, wanted)
        return failed

    def _tell_leader(self, failed: PartitionData, wanted: SessionPartition) -> None:
        """KIP-951: whoever asks the wrong broker is told the right one; a follower knows where that is."""
        if self.version < LEADERS_SINCE:
            return
        found = current_leader(self.node, wanted.topic, wanted.index, self.listener)
        if found is not None:
            failed.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
            if self.follower < 0:
                found.tell_endpoint(self.leaders, NodeEndpoint)


_UNKNOWN = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def _without_records(partition: Partition | Replica, wanted: SessionPartition) -> PartitionData:
    """Where the partition stands, for a reader that is to go elsewhere."""
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def _failed(index: int, error: ErrorCode, *, unknown: bool | None = None) -> PartitionData:
    # Kafka tells apart what it does not know, with no aborted transactions, from what it could not read, with null.
    unknown = error in _UNKNOWN if unknown is None else unknown
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if unknown else None,
        records=b"",
    )


async def _answer(
    node: Node, call: Call, reading: _Reading, session: FetchSession | None, *, incremental: bool
) -> FetchResponse:
    # In the order of the request: a topic that comes twice in it comes twice in the answer.
    topics: list[FetchableTopicResponse] = []
    async for some in node.turns.share(call, reading.results):
        for wanted, data in some:
            if session is not None:
                news = _has_news(wanted, data)
                if incremental and not news:
                    continue
                if incremental and data.records:
                    _move_to_end(session, wanted)
            if not topics or (topics[-1].topic, topics[-1].topic_id) != (wanted.topic, wanted.topic_id):
                topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
            topics[-1].partitions.append(data)
    return FetchResponse(
        session_id=session.session_id if session is not None else 0,
        responses=topics,
        node_endpoints=list(reading.leaders.values()),
    )


def _would_answer(reading: _Reading, session: FetchSession | None, *, incremental: bool) -> FetchResponse:
    """The answer as it would be, for its size: the session does not hear of it."""
    topics: list[FetchableTopicResponse] = []
    for wanted, data in reading.results:
        if incremental and not _is_news(wanted, data):
            continue
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (wanted.topic, wanted.topic_id):
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
        topics[-1].partitions.append(data)
    return FetchResponse(
        session_id=session.session_id if session is not None else 0,
        responses=topics,
        node_endpoints=list(reading.leaders.values()),
    )


def _throttled(node: Node, session: FetchSession | None, throttle_ms: int, *, incremental: bool) -> FetchResponse:
    """An empty answer (KIP-219); a session that would begin does not."""
    if session is not None and not incremental:
        node.fetch_sessions.close(session.session_id)
    return FetchResponse(
        throttle_time_ms=throttle_ms, session_id=session.session_id if session is not None and incremental else 0
    )


def _is_news(wanted: SessionPartition, data: PartitionData) -> bool:
    """Whether an incremental answer names this partition."""
    return (
        data.error_code != ErrorCode.NONE
        or wanted.told_error
        or data.diverging_epoch.epoch != NO_EPOCH
        or data.preferred_read_replica != NO_REPLICA
        or bool(data.records)
        or data.high_watermark != wanted.told_high_watermark
        or data.last_stable_offset != wanted.told_last_stable_offset
        or data.log_start_offset != wanted.told_log_start_offset
    )


def _has_news(wanted: SessionPartition, data: PartitionData) -> bool:
    """Whether an incremental answer names this partition; remembers what is told."""
    news = _is_news(wanted, data)
    wanted.told_high_watermark = data.high_watermark
    wanted.told_last_stable_offset = data.last_stable_offset
    wanted.told_log_start_offset = data.log_start_offset
    wanted.told_error = data.error_code != ErrorCode.NONE
    return news


def _move_to_end(session: FetchSession, wanted: SessionPartition) -> None:
    """A partition that was served moves to the end of the round, so that the next fetch begins with another one."""
    key: Key = (wanted.topic_id if session.uses_topic_ids else wanted.topic, wanted.index)
    moved = session.partitions.pop(key, None)
    if moved is not None:
        session.partitions[key] = moved
