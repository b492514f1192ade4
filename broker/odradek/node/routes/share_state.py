"""What only brokers ask of a share coordinator (KIP-932): the state of partitions of share groups.

- InitializeShareGroupState (key 83), ReadShareGroupState (84) and DeleteShareGroupState (86), version 0.
- WriteShareGroupState (85) and ReadShareGroupStateSummary (87), 0 and 1: 1 counts the records that are done with.

Each partition has a coordinator of its own, so a request of several may be answered in part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.log.machine import Decision, Refused
from odradek.node.hosting.coordinators import HasCoordinators
from odradek.node.seams import HasClock
from odradek.share.coordinator import ShareCoordinator, Written
from odradek.share.state import NO_COUNT, NO_OFFSET, ShareKey, StateBatch, coordinator_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import delete_share_group_state_response as deleted
from odradek.wire.messages import initialize_share_group_state_response as initialized
from odradek.wire.messages import read_share_group_state_response as read
from odradek.wire.messages import read_share_group_state_summary_response as summarized
from odradek.wire.messages import write_share_group_state_response as written

if TYPE_CHECKING:
    from odradek.node.transport.call import Call
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


async def _asked(node: Node, key: ShareKey, decide: Callable[[ShareCoordinator], Decision[T]]) -> T | Refused:
    """What the coordinator of this partition decides, once it is in the log."""
    shard = node.coordinators.share(coordinator_key(key))
    if isinstance(shard, Refused):
        return shard
    return await shard.carry_out(decide(shard.machine))


async def read_share_group_state(node: Node, call: Call) -> read.ReadShareGroupStateResponse:
    """Tell a new leader what is known."""
    request: ReadShareGroupStateRequest = call.request
    response = read.ReadShareGroupStateResponse()
    for topic in request.topics if request.group_id else ():
        results = []
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            results.append(await _read(node, key, asked.leader_epoch))
        response.results.append(read.ReadStateResult(topic_id=topic.topic_id, partitions=results))
    return response


async def _read(node: Node, key: ShareKey, leader_epoch: int) -> read.PartitionResult:
    state = await _asked(node, key, lambda machine: machine.read(key, leader_epoch, node.now))
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
    response = written.WriteShareGroupStateResponse()
    for topic in request.topics if request.group_id else ():
        results = []
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            error, message = await _write(node, key, asked)
            results.append(written.PartitionResult(partition=asked.partition, error_code=error, error_message=message))
        response.results.append(written.WriteStateResult(topic_id=topic.topic_id, partitions=results))
    return response


async def _write(node: Node, key: ShareKey, asked: PartitionData) -> tuple[ErrorCode, str | None]:
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in asked.state_batches
    )
    told = Written(asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)
    return _error(await _asked(node, key, lambda machine: machine.write(key, told, node.now)))


def _error(outcome: Refused | None) -> tuple[ErrorCode, str | None]:
    return (ErrorCode.NONE, None) if outcome is None else (outcome.error, outcome.message)


async def initialize_share_group_state(node: Node, call: Call) -> initialized.InitializeShareGroupStateResponse:
    """A group begins with partitions."""
    request: InitializeShareGroupStateRequest = call.request
    response = initialized.InitializeShareGroupStateResponse()
    for topic in request.topics if request.group_id else ():
        results = []
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            error, message = await _initialize(node, key, asked.state_epoch, asked.start_offset)
            results.append(
                initialized.PartitionResult(partition=asked.partition, error_code=error, error_message=message)
            )
        response.results.append(initialized.InitializeStateResult(topic_id=topic.topic_id, partitions=results))
    return response


async def _initialize(node: Node, key: ShareKey, state_epoch: int, start_offset: int) -> tuple[ErrorCode, str | None]:
    outcome = await _asked(node, key, lambda machine: machine.initialize(key, state_epoch, start_offset, node.now))
    return _error(outcome)


async def delete_share_group_state(node: Node, call: Call) -> deleted.DeleteShareGroupStateResponse:
    """A group is done with partitions."""
    request: DeleteShareGroupStateRequest = call.request
    response = deleted.DeleteShareGroupStateResponse()
    for topic in request.topics if request.group_id else ():
        results = []
        for asked in topic.partitions:
            error, message = await _delete(node, ShareKey(request.group_id, topic.topic_id, asked.partition))
            results.append(deleted.PartitionResult(partition=asked.partition, error_code=error, error_message=message))
        response.results.append(deleted.DeleteStateResult(topic_id=topic.topic_id, partitions=results))
    return response


async def _delete(node: Node, key: ShareKey) -> tuple[ErrorCode, str | None]:
    return _error(await _asked(node, key, lambda machine: machine.delete(key)))


async def read_share_group_state_summary(node: Node, call: Call) -> summarized.ReadShareGroupStateSummaryResponse:
    """Tell whoever only looks how far a group is."""
    request: ReadShareGroupStateSummaryRequest = call.request
    response = summarized.ReadShareGroupStateSummaryResponse()
    for topic in request.topics if request.group_id else ():
        results = []
        for asked in topic.partitions:
            key = ShareKey(request.group_id, topic.topic_id, asked.partition)
            results.append(await _summarize(node, key))
        response.results.append(summarized.ReadStateSummaryResult(topic_id=topic.topic_id, partitions=results))
    return response


async def _summarize(node: Node, key: ShareKey) -> summarized.PartitionResult:
    state = await _asked(node, key, lambda machine: machine.summary(key))
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
