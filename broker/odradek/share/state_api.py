"""What only brokers ask of a share coordinator (KIP-932): the state of partitions of share groups.

- InitializeShareGroupState (key 83), ReadShareGroupState (84) and DeleteShareGroupState (86), version 0.
- WriteShareGroupState (85) and ReadShareGroupStateSummary (87), 0 and 1: 1 counts the records that are done with.

Each partition has a coordinator of its own, so a request of several may be answered in part.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.core.machine import Decision, Refused
from odradek.host.coordinators import HasCoordinators
from odradek.host.seams import HasClock
from odradek.share.coordinator import ShareCoordinator, Written
from odradek.share.state import NO_COUNT, NO_OFFSET, ShareKey, StateBatch, coordinator_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import delete_share_group_state_response as deleted
from odradek.wire.messages import initialize_share_group_state_response as initialized
from odradek.wire.messages import read_share_group_state_response as read
from odradek.wire.messages import read_share_group_state_summary_response as summarized
from odradek.wire.messages import write_share_group_state_response as written

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from odradek.wire.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
    from odradek.wire.messages.write_share_group_state_request import PartitionData, WriteShareGroupStateRequest

__all__ = [
    "delete_share_group_state",
    "initialize_share_group_state",
    "read_share_group_state",
    "read_share_group_state_summary",
    "write_share_group_state",
]

T = TypeVar("T")


class Node(HasClock, HasCoordinators, Protocol):
    """What these routes touch of their broker."""


_TEXTS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
}
"""Kafka's own words for these errors."""


async def _asked(
    node: Node, key: ShareKey, decide: Callable[[ShareCoordinator], Decision[T]], *, to: str
) -> T | Refused:
    """What the coordinator of this partition decides, once it is in the log; `to` says what is wanted of it."""
    shard = node.coordinators.share(coordinator_key(key))
    if isinstance(shard, Refused):
        return Refused(shard.error, f"Unable to {to}: {_TEXTS.get(shard.error, shard.message)}")
    return await shard.carry_out(decide(shard.machine))


class _AskedPartition(Protocol):
    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=_AskedPartition)
P_co = TypeVar("P_co", bound=_AskedPartition, covariant=True)


class _AskedTopic(Protocol[P_co]):
    """A topic of a request, with what is asked of its partitions."""

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
    """The answers to all partitions of a request, one after the other, by topic; none to who names no group.

    A partition that is named twice is answered once, as it was the last time.
    """
    if not request.group_id:
        return []
    answers: dict[bytes, dict[int, T]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            answers.setdefault(topic.topic_id, {})[asked.partition] = await answer(key, asked)
    return [(topic_id, list(of_topic.values())) for topic_id, of_topic in answers.items()]


async def read_share_group_state(node: Node, call: Call) -> read.ReadShareGroupStateResponse:
    """Tell a new leader what is known."""
    request: ReadShareGroupStateRequest = call.request
    told = await _of_each(request, lambda key, asked: _read(node, key, asked.leader_epoch))
    results = [read.ReadStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
    return read.ReadShareGroupStateResponse(results=results)


async def _read(node: Node, key: ShareKey, leader_epoch: int) -> read.PartitionResult:
    state = await _asked(
        node, key, lambda machine: machine.read(key, leader_epoch, node.now), to="read share group state"
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


async def write_share_group_state(node: Node, call: Call) -> written.WriteShareGroupStateResponse:
    """Keep what a leader says."""
    request: WriteShareGroupStateRequest = call.request
    told = await _of_each(request, lambda key, asked: _write(node, key, asked))
    results = [written.WriteStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
    return written.WriteShareGroupStateResponse(results=results)


async def _write(node: Node, key: ShareKey, asked: PartitionData) -> written.PartitionResult:
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in asked.state_batches
    )
    told = Written(asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
    outcome = await _asked(node, key, lambda machine: machine.write(key, told, node.now), to="write share group state")
    error, message = _error(outcome)
    return written.PartitionResult(partition=key.partition, error_code=error, error_message=message)


def _error(outcome: Refused | None) -> tuple[ErrorCode, str | None]:
    return (ErrorCode.NONE, None) if outcome is None else (outcome.error, outcome.message)


async def initialize_share_group_state(node: Node, call: Call) -> initialized.InitializeShareGroupStateResponse:
    """A group begins with partitions."""
    request: InitializeShareGroupStateRequest = call.request
    told = await _of_each(request, lambda key, asked: _initialize(node, key, asked.state_epoch, asked.start_offset))
    results = [initialized.InitializeStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
    return initialized.InitializeShareGroupStateResponse(results=results)


async def _initialize(node: Node, key: ShareKey, state_epoch: int, start_offset: int) -> initialized.PartitionResult:
    outcome = await _asked(
        node,
        key,
        lambda machine: machine.initialize(key, state_epoch, start_offset, node.now),
        to="initialize share group state",
    )
    error, message = _error(outcome)
    return initialized.PartitionResult(partition=key.partition, error_code=error, error_message=message)


async def delete_share_group_state(node: Node, call: Call) -> deleted.DeleteShareGroupStateResponse:
    """A group is done with partitions."""
    request: DeleteShareGroupStateRequest = call.request
    told = await _of_each(request, lambda key, asked: _delete(node, key))
    results = [deleted.DeleteStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
    return deleted.DeleteShareGroupStateResponse(results=results)


async def _delete(node: Node, key: ShareKey) -> deleted.PartitionResult:
    error, message = _error(await _asked(node, key, lambda machine: machine.delete(key), to="delete share group state"))
    return deleted.PartitionResult(partition=key.partition, error_code=error, error_message=message)


async def read_share_group_state_summary(node: Node, call: Call) -> summarized.ReadShareGroupStateSummaryResponse:
    """Tell whoever only looks how far a group is."""
    request: ReadShareGroupStateSummaryRequest = call.request
    told = await _of_each(request, lambda key, asked: _summarize(node, key))
    results = [summarized.ReadStateSummaryResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
    return summarized.ReadShareGroupStateSummaryResponse(results=results)


async def _summarize(node: Node, key: ShareKey) -> summarized.PartitionResult:
    state = await _asked(node, key, lambda machine: machine.summary(key), to="read share group state summary")
    if isinstance(state, Refused):
        return summarized.PartitionResult(partition=key.partition, error_code=state.error, error_message=state.message)
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
