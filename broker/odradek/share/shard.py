"""The share coordinator on a node: its shard, and how this broker asks whichever broker has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.host.seams import HasMetadata
from odradek.host.shard import Shard, ShardNode
from odradek.records.compression import Compression
from odradek.share.asking import AsksShares
from odradek.share.coordinator import Prune, ShareCoordinator, Written
from odradek.share.state import NO_COUNT, ShareKey, ShareState, StateBatch, coordinator_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import delete_share_group_state_request as delete_request
from odradek.wire.messages import initialize_share_group_state_request as initialize_request
from odradek.wire.messages import read_share_group_state_request as read_request
from odradek.wire.messages import read_share_group_state_summary_request as summary_request
from odradek.wire.messages import write_share_group_state_request as write_request
from odradek.wire.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from odradek.wire.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from odradek.wire.messages.read_share_group_state_response import ReadShareGroupStateResponse
from odradek.wire.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
from odradek.wire.messages.write_share_group_state_response import WriteShareGroupStateResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.log.partition import Partition

__all__ = ["ShareShard", "Summary", "delete_state", "initialize_state", "read_state", "summary_of_state", "write_state"]

R = TypeVar("R", bound=Struct)
T = TypeVar("T")

PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""What passes with time: the coordinator is asked again."""
PRUNE_INTERVAL_MS = 300_000
"""How often the log is cut where nothing is needed any more."""
BACKOFF_MS = 20
BACKOFF_MAX_MS = 1000
UNREACHABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Node(ShardNode, HasMetadata, Protocol):
    """What a share coordinator touches of its broker."""


class ShareShard(Shard[Prune]):
    """A coordinator over a partition of `__share_group_state`, not loaded yet."""

    def __init__(self, node: Node, partition: Partition) -> None:
        def exists(topic_id: bytes, index: int) -> bool:
            topic = node.image.topic_by_id(topic_id)
            return topic is not None and index in topic.partitions

        self.machine = ShareCoordinator(
            updates_per_snapshot=node.config.share_coordinator_snapshot_update_records_per_snapshot,
            prune_interval_ms=PRUNE_INTERVAL_MS,
            exists=exists,
        )
        self.node = node
        super().__init__(node.shard_parts, partition, self.machine)
        self.compression = Compression(node.config.share_coordinator_state_topic_compression_codec)

    @property
    def write_timeout_ms(self) -> int:
        """Kafka's timeout of all that a share coordinator writes."""
        return self.node.config.share_coordinator_write_timeout_ms

    async def perform(self, work: Prune) -> None:
        """Let the log begin where it still says something."""
        partition = self.partition
        before = self.machine.prunable(partition.high_watermark, self.node.now)
        if before > partition.log_start_offset:
            partition.delete_records(before)


class Summary(Struct, frozen=True):
    """What the share coordinator tells whoever only looks."""

    leader_epoch: int
    start_offset: int
    complete_count: int


async def read_state(node: AsksShares, key: ShareKey, leader_epoch: int) -> ShareState | Refused:
    """What is known of a partition, for the leader that begins; no leader before it can change it any more."""
    asked = read_request.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
    topic = read_request.ReadStateData(topic_id=key.topic_id, partitions=[asked])
    request = read_request.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    def read(response: ReadShareGroupStateResponse) -> tuple[ErrorCode, str | None, ShareState]:
        told = response.results[0].partitions[0]
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in told.state_batches
        )
        state = ShareState(0, told.state_epoch, leader_epoch, told.start_offset, NO_COUNT, batches, 0, 0)
        return ErrorCode(told.error_code), told.error_message, state

    return await _ask(node, key, ApiKey.READ_SHARE_GROUP_STATE, request, ReadShareGroupStateResponse, read)


async def write_state(node: AsksShares, key: ShareKey, written: Written) -> Refused | None:
    """Have the share coordinator keep what has become of records."""
    asked = write_request.PartitionData(
        partition=key.partition,
        state_epoch=written.state_epoch,
        leader_epoch=written.leader_epoch,
        start_offset=written.start_offset,
        delivery_complete_count=written.complete_count,
        state_batches=[
            write_request.StateBatch(
                first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.count
            )
            for each in written.batches
        ],
    )
    topic = write_request.WriteStateData(topic_id=key.topic_id, partitions=[asked])
    request = write_request.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    def read(response: WriteShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
        told = response.results[0].partitions[0]
        return ErrorCode(told.error_code), told.error_message, None

    return await _ask(node, key, ApiKey.WRITE_SHARE_GROUP_STATE, request, WriteShareGroupStateResponse, read)


async def initialize_state(node: AsksShares, key: ShareKey, state_epoch: int, start_offset: int) -> Refused | None:
    """A group begins with a partition."""
    asked = initialize_request.PartitionData(
        partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_request.InitializeStateData(topic_id=key.topic_id, partitions=[asked])
    request = initialize_request.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    def read(response: InitializeShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
        told = response.results[0].partitions[0]
        return ErrorCode(told.error_code), told.error_message, None

    return await _ask(node, key, ApiKey.INITIALIZE_SHARE_GROUP_STATE, request, InitializeShareGroupStateResponse, read)


async def delete_state(node: AsksShares, key: ShareKey) -> Refused | None:
    """A group is done with a partition."""
    asked = delete_request.PartitionData(partition=key.partition)
    topic = delete_request.DeleteStateData(topic_id=key.topic_id, partitions=[asked])
    request = delete_request.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    def read(response: DeleteShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
        told = response.results[0].partitions[0]
        return ErrorCode(told.error_code), told.error_message, None

    return await _ask(node, key, ApiKey.DELETE_SHARE_GROUP_STATE, request, DeleteShareGroupStateResponse, read)


async def summary_of_state(node: AsksShares, key: ShareKey) -> Summary | Refused:
    """What is known of a partition, for whoever only looks."""
    asked = summary_request.PartitionData(partition=key.partition, leader_epoch=0)
    topic = summary_request.ReadStateSummaryData(topic_id=key.topic_id, partitions=[asked])
    request = summary_request.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])

    def read(response: ReadShareGroupStateSummaryResponse) -> tuple[ErrorCode, str | None, Summary]:
        told = response.results[0].partitions[0]
        summary = Summary(told.leader_epoch, told.start_offset, told.delivery_complete_count)
        return ErrorCode(told.error_code), told.error_message, summary

    api_key = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    return await _ask(node, key, api_key, request, ReadShareGroupStateSummaryResponse, read)


async def _ask(
    node: AsksShares,
    key: ShareKey,
    api_key: ApiKey,
    request: Struct,
    answer: type[R],
    read: Callable[[R], tuple[ErrorCode, str | None, T]],
) -> T | Refused:
    """Ask the coordinator of a share partition, again and again while what it says may pass; it may have moved."""
    if not key.group_id:
        return Refused(ErrorCode.INVALID_REQUEST)
    deadline = node.now + node.config.request_timeout_ms
    version = node.router.newest(api_key)
    backoff_ms = BACKOFF_MS
    while True:
        leader = await _coordinator(node, key)
        if leader is not None:
            response = await node.peers.call(leader, api_key, version, request, answer, deadline=deadline)
            if response is not None:
                error, message, value = read(response)
                if error is ErrorCode.NONE:
                    return value
                if error not in PASSING:
                    return Refused(error, message)
        if node.now + backoff_ms >= deadline:
            return UNREACHABLE
        await node.kernel.sleep(backoff_ms)
        backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)


async def _coordinator(node: AsksShares, key: ShareKey) -> int | None:
    """The broker that has the state of this partition; its topic is made by the first who asks."""
    kind = CoordinatorKind.SHARE
    topic = node.image.topic(kind.topic)
    if topic is None:
        await node.controller.create_internal_topic(kind.topic)
        topic = node.image.topic(kind.topic)
    if topic is None:
        return None
    partition = topic.partitions[partition_for(coordinator_key(key), len(topic.partitions))]
    return partition.leader if node.image.is_alive(partition.leader) else None
