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
from odradek.share.coordinator import Owner, ShareCoordinator, Written, refused_by
from odradek.share.state import (
    NO_COUNT,
    NO_OFFSET,
    ShareKey,
    ShareState,
    batches_of,
    coordinator_key,
    tell_staged,
)
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
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.log.partition import Guard
    from odradek.share.shard import ShareShard
    from odradek.txn.admission import Admission
    from odradek.wire.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from odradek.wire.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from odradek.wire.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
    from odradek.wire.messages.write_share_group_state_request import PartitionData, WriteShareGroupStateRequest

__all__ = ["ShareStateApi"]

T = TypeVar("T")
NO_SEQUENCE = -1


_TEXTS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
}
"""Kafka's texts for these errors."""


class _AskedPartition(Protocol):
    """A partition of a request. A Protocol: each request has a class of its own for it."""

    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=_AskedPartition)
P_co = TypeVar("P_co", bound=_AskedPartition, covariant=True)


class _AskedTopic(Protocol[P_co]):
    """A topic of a request, with its partitions. A Protocol: each request has a class of its own for it."""

    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


class _Request(Protocol[P_co]):
    """A request about share partitions. A Protocol: messages have no base in common but `Struct`."""

    @property
    def group_id(self) -> str: ...
    @property
    def topics(self) -> Sequence[_AskedTopic[P_co]]: ...


def _error(outcome: Refused | None) -> tuple[ErrorCode, str | None]:
    return (ErrorCode.NONE, None) if outcome is None else (outcome.error, outcome.message)


class ShareStateApi:
    """InitializeShareGroupState, ReadShareGroupState and its summary, WriteShareGroupState, DeleteShareGroupState."""

    def __init__(
        self, node: Host, coordinators: CoordinatorsOf[ShareShard], *, admission: Callable[[], Admission]
    ) -> None:
        """`admission`: how a write gets into a transaction; asked for with the first staged records."""
        self._coordinators = coordinators
        self._admission = admission
        self._settings = node.settings
        self._codecs = node.codecs
        self._turns = node.turns
        self._clock = node.clock

    @endpoint(READ_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def read_share_group_state(self, call: Call[ReadShareGroupStateRequest]) -> read.ReadShareGroupStateResponse:
        """ReadShareGroupState: the state of partitions, for a new leader."""
        request = call.request
        told = await self._of_each(call, request, lambda key, asked: self._read(key, asked.leader_epoch))
        results = [read.ReadStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
        return read.ReadShareGroupStateResponse(results=results)

    async def _read(self, key: ShareKey, leader_epoch: int) -> read.PartitionResult:
        state = await self._asked(
            key, lambda machine: machine.read(key, leader_epoch, self._clock.now), to="read share group state"
        )
        if isinstance(state, Refused):
            return read.PartitionResult(partition=key.partition, error_code=state.error, error_message=state.message)
        result = read.PartitionResult(
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
        return self._with_staged(result, state) if any(each.staged for each in state.batches) else result

    def _with_staged(self, result: read.PartitionResult, state: ShareState) -> read.PartitionResult:
        """The result with the transactions of its staged batches, which only a message of a dialect can hold."""
        whole = read.ReadShareGroupStateResponse(results=[read.ReadStateResult(partitions=[result])])
        [of_topic] = self._codecs.own(whole).results
        [own] = of_topic.partitions
        tell_staged(own.state_batches, state.batches)
        return own

    @endpoint(WRITE_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def write_share_group_state(
        self, call: Call[WriteShareGroupStateRequest]
    ) -> written.WriteShareGroupStateResponse:
        """WriteShareGroupState: store the state that a leader sends."""
        request = call.request
        owner_id: str | None = getattr(request, "transactional_id", None)  # a field of KIP-1289
        told = await self._of_each(call, request, lambda key, asked: self._write(key, asked, owner_id))
        results = [written.WriteStateResult(topic_id=topic_id, partitions=answers) for topic_id, answers in told]
        return written.WriteShareGroupStateResponse(results=results)

    async def _write(self, key: ShareKey, asked: PartitionData, owner_id: str | None) -> written.PartitionResult:
        batches = batches_of(asked.state_batches)
        staged = None if owner_id is None else next((each.staged for each in batches if each.staged), None)
        owner = (
            None if owner_id is None or staged is None else Owner(owner_id, staged.producer_id, staged.producer_epoch)
        )
        told = Written(
            asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches, owner
        )
        outcome = await self._asked(
            key, lambda machine: machine.write(key, told, self._clock.now), to="write share group state", owner=owner
        )
        error, message = _error(outcome)
        return written.PartitionResult(partition=key.partition, error_code=error, error_message=message)

    async def _admit(self, shard: ShareShard, owner: Owner) -> Guard | Refused | None:
        """The proof that the partition of the state is in the transaction, for a write that begins it there (KIP-890).

        The leader of the share partition has added it, and the transaction may have ended since.
        """
        if not self._settings.verifies_offsets:
            return None
        from odradek.txn.admission import Applicant  # only a dialect has staged records
        from odradek.txn.verification_errors import TransactionOperation

        applicant = Applicant(shard.partition, owner.producer_id, owner.producer_epoch, NO_SEQUENCE)
        await self._admission().admit(
            [applicant],
            transactional_id=owner.transactional_id,
            operation=TransactionOperation.GENERIC_ERROR_SUPPORTED,
            judge=lambda _, failure: refused_by(failure),
        )
        return applicant.refused or applicant.guard

    @endpoint(INITIALIZE_SHARE_GROUP_STATE, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def initialize_share_group_state(
        self, call: Call[InitializeShareGroupStateRequest]
    ) -> initialized.InitializeShareGroupStateResponse:
        """InitializeShareGroupState: a group begins to read partitions."""
        request = call.request
        told = await self._of_each(
            call, request, lambda key, asked: self._initialize(key, asked.state_epoch, asked.start_offset)
        )
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
        told = await self._of_each(call, request, lambda key, asked: self._delete(key))
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
        told = await self._of_each(call, request, lambda key, asked: self._summarize(key))
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

    async def _of_each(
        self, call: Call, request: _Request[P], answer: Callable[[ShareKey, P], Awaitable[T]]
    ) -> list[tuple[bytes, list[T]]]:
        """The answers to all partitions of a request, one after the other, by topic; none without a group id.

        A partition that is named twice has one answer, the last one.
        """
        if not request.group_id:
            return []
        answers: dict[bytes, dict[int, T]] = {}
        asked = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
        async for some in self._turns.share(call, asked):
            for topic_id, partition in some:
                key = ShareKey(request.group_id, topic_id, partition.partition)
                answers.setdefault(topic_id, {})[partition.partition] = await answer(key, partition)
        return [(topic_id, list(of_topic.values())) for topic_id, of_topic in answers.items()]

    async def _asked(
        self,
        key: ShareKey,
        decide: Callable[[ShareCoordinator], Decision[T]],
        *,
        to: str,
        owner: Owner | None = None,
    ) -> T | Refused:
        """The decision of a coordinator on this partition, once it is in the log; `to` is for the text of a refusal.

        With an `owner` its transaction has to be open.
        """
        shard = self._coordinators.of(coordinator_key(key))
        if isinstance(shard, Refused):
            return Refused(shard.error, f"Unable to {to}: {_TEXTS.get(shard.error, shard.message)}")
        if owner is None:
            return await shard.carry_out(decide(shard.machine))
        guard = await self._admit(shard, owner)
        return guard if isinstance(guard, Refused) else await shard.carry_out(decide(shard.machine), guard=guard)
