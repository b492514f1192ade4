"""APIs of a share coordinator for brokers (KIP-932): the state of share partitions.

- InitializeShareGroupState (key 83), ReadShareGroupState (84) and DeleteShareGroupState (86), version 0.
- WriteShareGroupState (85) and ReadShareGroupStateSummary (87), 0 and 1: 1 adds the number of finished records.

Each partition has a coordinator of its own, so a request of several may be answered in part.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.core.machine import Decision, Refused
from odradek.host.endpoint import endpoint
from odradek.share.coordinator import ShareCoordinator, Written
from odradek.share.state import NO_COUNT, NO_OFFSET, ShareKey, StateBatch, coordinator_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import delete_share_group_state_response as deleted
from odradek.wire.messages import initialize_share_group_state_response as initialized
from odradek.wire.messages import read_share_group_state_response as read
from odradek.wire.messages import read_share_group_state_summary_response as summarized
from odradek.wire.messages import write_share_group_state_response as written
from odradek.wire.messages.apis import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.host.call import Call
    from odradek.host.coordinators import Coordinators
    from odradek.wire.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from odradek.wire.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
    from odradek.wire.messages.write_share_group_state_request import PartitionData, WriteShareGroupStateRequest

__all__ = ["ShareStateApi"]

T = TypeVar("T")


_TEXTS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
}
"""Kafka's texts for these errors."""


class _AskedPartition(Protocol):
    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=_AskedPartition)
P_co = TypeVar("P_co", bound=_AskedPartition, covariant=True)


class _AskedTopic(Protocol[P_co]):
    """A topic of a request, with its partitions."""

    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


class _Request(Protocol[P_co]):
    @property
    def group_id(self) -> str: ...
    @property
    def topics(self) -> Sequence[_AskedTopic[P_co]]: ...


async def _of_each(request: _Request[P], answer: Callable[[ShareKey, P], Awaitable[T]]) -> list[tuple[bytes, list[T]]]:
    """The answers to all partitions of a request, one after the other, by topic; none without a group id.

    A partition that is named twice has one answer, the last one.
    """
    if not request.group_id:
        return []
    answers: dict[bytes, dict[int, T]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            answers.setdefault(topic.topic_id, {})[asked.partition] = await answer(key, asked)
    return [(topic_id, list(of_topic.values())) for topic_id, of_topic in answers.items()]


def _error(outcome: Refused | None) -> tuple[ErrorCode, str | None]:
    return (ErrorCode.NONE, None) if outcome is None else (outcome.error, outcome.message)


class ShareStateApi:
    """InitializeShareGroupState, ReadShareGroupState and its summary, WriteShareGroupState, DeleteShareGroupState."""

    def __init__(self, coordinators: Coordinators, clock: Clock) -> None:
        self._coordinators = coordinators
        self._clock = clock

    @endpoint(READ_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def read_share_group_state(self, call: Call[ReadShareGroupStateRequest]) -> read.ReadShareGroupStateResponse:
        """ReadShareGroupState: the state of partitions, for a new leader."""
        request = call.request
        told = await _of_each(request, lambda key, asked: self._read(key, asked.leader_epoch))
        results = [read.ReadStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
        return read.ReadShareGroupStateResponse(results=results)

    async def _read(self, key: ShareKey, leader_epoch: int) -> read.PartitionResult:
        state = await self._asked(
            key, lambda machine: machine.read(key, leader_epoch, self._clock.now), to="read share group state"
        )
        if isinstance(state, Refused):
            return read.PartitionResult(partition=key.partition, error_code=state.error, error_message=state.message)
        return read.PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                read.StateBatch(
                    first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.count
                )
                for each in state.batches
            ],
        )

    @endpoint(WRITE_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def write_share_group_state(
        self, call: Call[WriteShareGroupStateRequest]
    ) -> written.WriteShareGroupStateResponse:
        """WriteShareGroupState: store the state that a leader sends."""
        request = call.request
        told = await _of_each(request, lambda key, asked: self._write(key, asked))
        results = [written.WriteStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
        return written.WriteShareGroupStateResponse(results=results)

    async def _write(self, key: ShareKey, asked: PartitionData) -> written.PartitionResult:
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in asked.state_batches
        )
        told = Written(
            asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches
        )
        outcome = await self._asked(
            key, lambda machine: machine.write(key, told, self._clock.now), to="write share group state"
        )
        error, message = _error(outcome)
        return written.PartitionResult(partition=key.partition, error_code=error, error_message=message)

    @endpoint(INITIALIZE_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def initialize_share_group_state(
        self, call: Call[InitializeShareGroupStateRequest]
    ) -> initialized.InitializeShareGroupStateResponse:
        """InitializeShareGroupState: a group begins to read partitions."""
        request = call.request
        told = await _of_each(request, lambda key, asked: self._initialize(key, asked.state_epoch, asked.start_offset))
        results = [
            initialized.InitializeStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told
        ]
        return initialized.InitializeShareGroupStateResponse(results=results)

    async def _initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> initialized.PartitionResult:
        outcome = await self._asked(
            key,
            lambda machine: machine.initialize(key, state_epoch, start_offset, self._clock.now),
            to="initialize share group state",
        )
        error, message = _error(outcome)
        return initialized.PartitionResult(partition=key.partition, error_code=error, error_message=message)

    @endpoint(DELETE_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def delete_share_group_state(
        self, call: Call[DeleteShareGroupStateRequest]
    ) -> deleted.DeleteShareGroupStateResponse:
        """DeleteShareGroupState: a group reads partitions no longer."""
        request = call.request
        told = await _of_each(request, lambda key, asked: self._delete(key))
        results = [deleted.DeleteStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
        return deleted.DeleteShareGroupStateResponse(results=results)

    async def _delete(self, key: ShareKey) -> deleted.PartitionResult:
        error, message = _error(
            await self._asked(key, lambda machine: machine.delete(key), to="delete share group state")
        )
        return deleted.PartitionResult(partition=key.partition, error_code=error, error_message=message)

    @endpoint(READ_SHARE_GROUP_STATE_SUMMARY, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def read_share_group_state_summary(
        self, call: Call[ReadShareGroupStateSummaryRequest]
    ) -> summarized.ReadShareGroupStateSummaryResponse:
        """ReadShareGroupStateSummary: the position of a group, for descriptions."""
        request = call.request
        told = await _of_each(request, lambda key, asked: self._summarize(key))
        results = [
            summarized.ReadStateSummaryResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told
        ]
        return summarized.ReadShareGroupStateSummaryResponse(results=results)

    async def _summarize(self, key: ShareKey) -> summarized.PartitionResult:
        state = await self._asked(key, lambda machine: machine.summary(key), to="read share group state summary")
        if isinstance(state, Refused):
            return summarized.PartitionResult(
                partition=key.partition, error_code=state.error, error_message=state.message
            )
        if state is None:
            return summarized.PartitionResult(
                partition=key.partition, start_offset=NO_OFFSET, delivery_complete_count=NO_COUNT
            )
        return summarized.PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
        )

    async def _asked(self, key: ShareKey, decide: Callable[[ShareCoordinator], Decision[T]], *, to: str) -> T | Refused:
        """The decision of a coordinator on this partition, once it is in the log; `to` is for the text of a refusal."""
        shard = self._coordinators.share(coordinator_key(key))
        if isinstance(shard, Refused):
            return Refused(shard.error, f"Unable to {to}: {_TEXTS.get(shard.error, shard.message)}")
        return await shard.carry_out(decide(shard.machine))
