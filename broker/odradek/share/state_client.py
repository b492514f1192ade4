"""Requests of this broker to the share coordinators of the cluster (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.share.state import (
    NO_COUNT,
    ShareKey,
    ShareState,
    batches_of,
    coordinator_key,
    tell_staged,
)
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
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.share.coordinator import Written

__all__ = ["ShareStateClient", "Summary"]

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
"""Retriable errors: the coordinator is asked again."""
BACKOFF_MS = 20
BACKOFF_MAX_MS = 1000
UNREACHABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Summary(Struct, frozen=True):
    """The state of a share partition in short."""

    leader_epoch: int
    start_offset: int
    complete_count: int


class ShareStateClient:
    """Reads and writes the state of share partitions at their coordinators, whichever brokers these are."""

    def __init__(
        self, node: Serving, peers: Peers, create_internal_topic: Callable[[str], Coroutine[object, None, None]]
    ) -> None:
        self._peers = peers
        self._router = node.router
        self._codecs = node.codecs
        self._create_internal_topic = create_internal_topic
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._kernel = node.kernel

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState | Refused:
        """The state of a partition, for its new leader; from now on no earlier leader can change it."""
        asked = read_request.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = read_request.ReadStateData(topic_id=key.topic_id, partitions=[asked])
        request = read_request.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])

        def told(response: ReadShareGroupStateResponse) -> tuple[ErrorCode, str | None, ShareState]:
            answer = response.results[0].partitions[0]
            batches = batches_of(answer.state_batches)
            state = ShareState(0, answer.state_epoch, leader_epoch, answer.start_offset, NO_COUNT, batches, 0, 0)
            return ErrorCode(answer.error_code), answer.error_message, state

        return await self._ask(key, ApiKey.READ_SHARE_GROUP_STATE, request, ReadShareGroupStateResponse, told)

    async def write(self, key: ShareKey, written: Written) -> Refused | None:
        """Have the share coordinator store the delivery states of records."""
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
        if written.owner is not None:
            request = self._codecs.own(request, transactional_id=written.owner.transactional_id)
            tell_staged(request.topics[0].partitions[0].state_batches, written.batches)

        def told(response: WriteShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
            answer = response.results[0].partitions[0]
            return ErrorCode(answer.error_code), answer.error_message, None

        return await self._ask(key, ApiKey.WRITE_SHARE_GROUP_STATE, request, WriteShareGroupStateResponse, told)

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Refused | None:
        """A group begins to read a partition."""
        asked = initialize_request.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialize_request.InitializeStateData(topic_id=key.topic_id, partitions=[asked])
        request = initialize_request.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])

        def told(response: InitializeShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
            answer = response.results[0].partitions[0]
            return ErrorCode(answer.error_code), answer.error_message, None

        return await self._ask(
            key, ApiKey.INITIALIZE_SHARE_GROUP_STATE, request, InitializeShareGroupStateResponse, told
        )

    async def delete(self, key: ShareKey) -> Refused | None:
        """A group reads a partition no longer."""
        asked = delete_request.PartitionData(partition=key.partition)
        topic = delete_request.DeleteStateData(topic_id=key.topic_id, partitions=[asked])
        request = delete_request.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])

        def told(response: DeleteShareGroupStateResponse) -> tuple[ErrorCode, str | None, None]:
            answer = response.results[0].partitions[0]
            return ErrorCode(answer.error_code), answer.error_message, None

        return await self._ask(key, ApiKey.DELETE_SHARE_GROUP_STATE, request, DeleteShareGroupStateResponse, told)

    async def summary(self, key: ShareKey) -> Summary | Refused:
        """The state of a partition in short, for a description."""
        asked = summary_request.PartitionData(partition=key.partition, leader_epoch=0)
        topic = summary_request.ReadStateSummaryData(topic_id=key.topic_id, partitions=[asked])
        request = summary_request.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])

        def told(response: ReadShareGroupStateSummaryResponse) -> tuple[ErrorCode, str | None, Summary]:
            answer = response.results[0].partitions[0]
            summary = Summary(answer.leader_epoch, answer.start_offset, answer.delivery_complete_count)
            return ErrorCode(answer.error_code), answer.error_message, summary

        api_key = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
        return await self._ask(key, api_key, request, ReadShareGroupStateSummaryResponse, told)

    async def _ask(
        self,
        key: ShareKey,
        api_key: ApiKey,
        request: Struct,
        answer: type[R],
        read: Callable[[R], tuple[ErrorCode, str | None, T]],
    ) -> T | Refused:
        """Ask the coordinator of a share partition; retry while the error is retriable, because it may have moved."""
        if not key.group_id:
            return Refused(ErrorCode.INVALID_REQUEST)
        deadline = self._clock.now + self._settings.config.request_timeout_ms
        version = self._router.newest(api_key)
        backoff_ms = BACKOFF_MS
        while True:
            leader = await self._coordinator(key)
            if leader is not None:
                response = await self._peers.call(leader, api_key, version, request, answer, deadline=deadline)
                if response is not None:
                    error, message, value = read(response)
                    if error is ErrorCode.NONE:
                        return value
                    if error not in PASSING:
                        return Refused(error, message)
            if self._clock.now + backoff_ms >= deadline:
                return UNREACHABLE
            await self._kernel.sleep(backoff_ms)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)

    async def _coordinator(self, key: ShareKey) -> int | None:
        """The broker that has the state of this partition; its topic is created by the first request."""
        kind = CoordinatorKind.SHARE
        if self._metadata.image.topic(kind.topic) is None:
            await self._create_internal_topic(kind.topic)
        topic_partition = self.partition_of(key)
        if topic_partition is None:
            return None
        registered = self._metadata.image.partition(*topic_partition)
        return None if registered is None or not self._metadata.image.is_alive(registered.leader) else registered.leader

    def partition_of(self, key: ShareKey) -> tuple[str, int] | None:
        """The partition of `__share_group_state` with the state of a share partition; None before there is any."""
        topic = self._metadata.image.topic(CoordinatorKind.SHARE.topic)
        return None if topic is None else (topic.name, partition_for(coordinator_key(key), len(topic.partitions)))
