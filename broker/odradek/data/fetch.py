"""Fetch (key 1), versions 0 to 18.

Version 3 adds the limit of the whole response, 4 isolation levels and record batches (below it, batches are converted
down), 5 the log start offset, 7 sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks (KIP-392), 12 is flexible and
tells of epochs that diverge (KIP-595), 13 names topics by id (KIP-516), 15 moves the replica id into a tagged field, 16
adds node endpoints (KIP-951), 17 and 18 concern followers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.config.table import RACK_AWARE
from odradek.core.machine import Refused
from odradek.data.about_to_read import SHORT_WAIT_MS
from odradek.data.fetch_contexts import (
    NO_EPOCH,
    SESSIONS_SINCE,
    TOPIC_IDS_SINCE,
    FetchContext,
    FetchContexts,
    reads_as,
)
from odradek.host.endpoint import Everybody, endpoint
from odradek.host.leaders import current_leader
from odradek.host.nearest import nearest_replica
from odradek.host.replicas import READABLE
from odradek.log.answers import ISOLATION_LEVELS, READ_COMMITTED
from odradek.log.replica import Replica
from odradek.records.batch import InvalidBatch
from odradek.records.legacy import down_convert
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import FETCH
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
    from odradek.data.about_to_read import AboutToRead
    from odradek.data.fetch_sessions import FetchSessions, SessionPartition
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.wire.messages.fetch_request import FetchRequest

__all__ = ["FetchApi"]


BATCHES_SINCE = 4
ZSTD_SINCE = 10
RACKS_SINCE = 11
LEADERS_SINCE = 16


class FetchApi:
    """Fetch. It checks permissions itself, because its sessions outlive them."""

    def __init__(self, node: Serving, replicas: Replicas, sessions: FetchSessions, about_to_read: AboutToRead) -> None:
        self.replicas = replicas
        self.node_id = node.node_id
        self.authority = node.authority
        self.metadata = node.metadata
        self.settings = node.settings
        self._sessions = sessions
        self._about_to_read = about_to_read
        self._contexts = FetchContexts(sessions, node.metadata, node.clock, node.turns)
        self._node = node
        self._clock = node.clock
        self._turns = node.turns
        self._purgatory = node.purgatory

    @endpoint(
        FETCH,
        left_out="followers that fetch",
        needs=Everybody("READ on each topic, also in its sessions"),
        in_parts=True,
    )
    async def fetch(self, call: Call[FetchRequest]) -> FetchResponse:
        """Read from each partition; wait for `min_bytes` until `max_wait_ms` has passed."""
        request, clock = call.request, self._clock
        if call.version >= SESSIONS_SINCE and not self._sessions.is_of_a_shard(request.session_id):
            return _failed_whole(request, call.version)
        context = await self._contexts.find(call)
        if isinstance(context, ErrorCode):
            return FetchResponse(error_code=context)
        wanted, refused = await self._sorted_out(call, context)
        if request.isolation_level not in ISOLATION_LEVELS and wanted:
            return _failed_whole(request, call.version)
        deadline = clock.now + request.max_wait_ms
        others = self._about_to_read
        if others:
            others.fetched(call.conn, wanted)
        quotas = None if call.meter is None else self._node.quotas
        bytes_max = None if quotas is None else quotas.fetch_bytes_max(call)
        bytes_min = request.min_bytes if bytes_max is None else min(request.min_bytes, bytes_max)
        while True:
            reading = _Reading(self, call)
            if bytes_max is not None:
                reading.room = min(reading.room, bytes_max)
            async for some in self._turns.share(call, wanted):
                for partition in some:
                    reading.read(partition)
            is_enough = reading.size >= bytes_min or reading.failed or call.is_followed
            if is_enough or clock.now >= deadline or not wanted:
                break
            if call.is_long and reading.is_stale():
                continue
            keys = [(READABLE, (partition.topic, partition.index)) for partition in wanted]
            reading.await_leaders()
            if others and others.shortens(call.conn):
                deadline = min(deadline, clock.now + SHORT_WAIT_MS)
            call.parking = self._purgatory.park(keys, deadline=deadline)
            await call.parking
        reading.results += refused
        quotas = None if call.meter is None else self._node.quotas
        if quotas is not None:
            throttle_ms = quotas.fetched(call, context.would_answer(reading.results, reading.leaders))
            if throttle_ms:
                return context.throttled(throttle_ms)
        return await self._contexts.answer(context, call, reading.results, reading.leaders)

    async def _sorted_out(
        self, call: Call[FetchRequest], context: FetchContext
    ) -> tuple[list[SessionPartition], list[tuple[SessionPartition, PartitionData]]]:
        """The partitions to read, and the answers for those that are refused before they are looked up.

        The latter end no wait, and come last in the response; a consumer's topics without a name come first of them.
        """
        wanted: list[SessionPartition] = []
        nameless: list[tuple[SessionPartition, PartitionData]] = []
        refused: list[tuple[SessionPartition, PartitionData]] = []
        gate = _Gate(self, call)
        async for some in self._turns.share(call, context.partitions):
            for each in some:
                error = gate.refuses(each)
                if error is None:
                    wanted.append(each)
                    continue
                comes_first = error is ErrorCode.UNKNOWN_TOPIC_ID and not gate.is_for_follower
                (nameless if comes_first else refused).append((each, _failed(each.index, error, aborted=[])))
        return wanted, nameless + refused


def _failed_whole(request: FetchRequest, version: int) -> FetchResponse:
    """Refuse a whole request, as Kafka does for an unknown isolation level, or a session id outside all shards.

    Topics without names are left out of the response.
    """
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    failed = FetchResponse(error_code=error, session_id=request.session_id)
    if version < TOPIC_IDS_SINCE:
        failed.responses = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[_failed(each.partition, error, aborted=[]) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    return failed


class _Gate:
    """Checks each partition once, before it is read: it may be gone before the response."""

    def __init__(self, api: FetchApi, call: Call[FetchRequest]) -> None:
        self._metadata = api.metadata
        self._authority = api.authority
        self._call = call
        self._by_id = call.version >= TOPIC_IDS_SINCE
        self.is_for_follower = reads_as(call.request) >= 0

    def refuses(self, wanted: SessionPartition) -> ErrorCode | None:
        """The error of a partition that is not to be read, or None; looks up the name for a topic id."""
        image = self._metadata.image
        if self._by_id and not wanted.topic:
            found = image.topic_by_id(wanted.topic_id)
            wanted.topic = "" if found is None else found.name
        is_named = bool(wanted.topic) or not self._by_id
        if (is_named or self.is_for_follower) and not self._may_read(wanted.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not is_named:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return None if image.partition(wanted.topic, wanted.index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _may_read(self, topic: str) -> bool:
        """Whether the client may still read the topic: a session outlives permissions. A follower reads all or none."""
        authority = self._authority
        if authority is None:
            return True
        if self.is_for_follower:
            return authority.allows(self._call, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        return authority.allows(self._call, AclOperation.READ, AclResource.TOPIC, topic)


class _Reading:
    """One pass over the wanted partitions."""

    def __init__(self, api: FetchApi, call: Call[FetchRequest]) -> None:
        request, settings = call.request, api.settings
        self.hosted = api.replicas
        self.metadata = api.metadata
        self.node_id = api.node_id
        self.version = version = call.version
        self.call = call
        self.listener = call.peer.listener
        self.zstd_since = ZSTD_SINCE if settings.release.keeps_zstd_from_old_fetches else BATCHES_SINCE
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.room = min(request.max_bytes, settings.config.fetch_max_bytes) if version >= 3 else 2**31 - 1
        self.size = 0
        self.failed = False
        self.follower = reads_as(request)
        self.reads_replicas = version >= RACKS_SINCE and self.follower < 0
        self.selects = self.reads_replicas and settings.config.replica_selector_class == RACK_AWARE
        self.replicas: list[Replica] = []
        """Replicas that were read and have their leader elsewhere."""
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

    def is_stale(self) -> bool:
        """Whether a partition has grown since it was read, before this request waited for it."""
        for wanted, data in self.results:
            partition = self._readable(wanted)
            if partition is None or (partition.high_watermark, partition.last_stable_offset) != (
                data.high_watermark,
                data.last_stable_offset,
            ):
                return True
        return False

    def await_leaders(self) -> None:
        """Have the leaders tell this broker when its replicas have more to read."""
        for replica in self.replicas:
            if replica.log is not None:
                replica.log.awaited_by.add(self.node_id)

    def _readable(self, wanted: SessionPartition) -> Partition | Replica | None:
        """The partition, led here; or a replica of it, for a consumer that may be sent to one (KIP-392)."""
        by_id = self.version >= TOPIC_IDS_SINCE
        partition = self.hosted.find(wanted.topic, wanted.index)
        if partition is not None:
            return None if by_id and partition.topic_id != wanted.topic_id else partition
        topic = self.metadata.image.topic(wanted.topic) if self.reads_replicas else None
        if topic is None or (by_id and topic.id != wanted.topic_id):
            return None
        held = self.hosted.held(wanted.topic, wanted.index)
        return None if isinstance(held, Refused) else held

    def _read(self, wanted: SessionPartition) -> PartitionData:
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
            # A follower that gives the current epoch but has no replica here must have newer metadata.
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
        end = result.last_stable_offset if self.read_committed else result.high_watermark
        is_at_end = wanted.fetch_offset >= end
        if max_bytes < 0 and not is_at_end:
            # Kafka fails to read less than nothing, unless there is nothing to read.
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
        if max_bytes > 0 and not len(result.records) and not is_at_end:
            # The first batch does not fit: Kafka returns no records then, and no aborted transactions.
            aborted = None
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
        """A response that only names a nearer replica; None if this one is the nearest."""
        rack, listener, offset = self.call.request.rack_id, self.listener, wanted.fetch_offset
        if isinstance(partition, Replica):
            return None
        nearest = nearest_replica(
            self.metadata.image, partition, node_id=self.node_id, rack=rack, listener=listener, offset=offset
        )
        if nearest is None:
            return None
        self.failed = True  # which no reader waits for
        told = _without_records(partition, wanted)
        told.preferred_read_replica = nearest
        return told

    def _is_followed(self, wanted: SessionPartition) -> bool:
        """Whether the follower has a replica of the partition and does not lead it."""
        registered = self.metadata.image.partition(wanted.topic, wanted.index)
        return registered is not None and self.follower in registered.replicas and self.follower != registered.leader

    def _parted(self, partition: Partition | Replica, wanted: SessionPartition) -> PartitionData | None:
        """The diverging epoch, if the reader's log and this one diverge; checked before the offset."""
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
        by_id = self.version >= TOPIC_IDS_SINCE
        topic = self.metadata.image.topic(wanted.topic)
        registered = None if topic is None else topic.partitions.get(wanted.index)
        if topic is None or registered is None:
            return _failed(wanted.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if by_id and topic.id != wanted.topic_id and self.node_id in registered.replicas:
            # The topic was made again: its name is that of a session, which was found once (KIP-516).
            return _failed(wanted.index, ErrorCode.INCONSISTENT_TOPIC_ID)
        refused = self.hosted.led_in(wanted.topic, wanted.index, wanted.current_leader_epoch)
        error = refused.error if isinstance(refused, Refused) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        failed = _failed(wanted.index, error)
        if error is not ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._tell_leader(failed, wanted)
        return failed

    def _tell_leader(self, failed: PartitionData, wanted: SessionPartition) -> None:
        """Name the leader to a client that asked the wrong broker (KIP-951); a follower knows its address."""
        if self.version < LEADERS_SINCE:
            return
        found = current_leader(self.metadata.image, wanted.topic, wanted.index, self.listener)
        if found is not None:
            failed.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
            if self.follower < 0:
                found.tell_endpoint(self.leaders, NodeEndpoint)


def _without_records(partition: Partition | Replica, wanted: SessionPartition) -> PartitionData:
    """The state of the partition, for a reader that must read elsewhere."""
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def _failed(index: int, error: ErrorCode, *, aborted: list[AbortedTransaction] | None = None) -> PartitionData:
    """A partition that was not read. One that was refused before the look-up has an empty list in place of null."""
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=aborted,
        records=b"",
    )
