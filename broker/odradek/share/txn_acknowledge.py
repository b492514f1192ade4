"""TxnShareAcknowledge (key 95), version 0: acknowledgements of a share group inside a transaction (KIP-1289).

No release has it; the dialect kip-1289 offers it. The leader of the share partitions adds the partitions of
`__share_group_state` with their states to the transaction, and has the share coordinators stage the records there.
Markers settle them: they are acknowledged if the transaction commits, and available again if it aborts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed, in_series
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.metadata.features import SHARE_VERSION
from odradek.share.coordinator import Owner, refused_by
from odradek.share.fetch import MEMBER_ID_LENGTH_MAX, NOT_HOSTED, ShareFetchApi, acknowledgements
from odradek.share.partition import Acknowledged, AckType, Change, SharePartition
from odradek.share.state import ShareKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import TXN_SHARE_ACKNOWLEDGE
from odradek.wire.messages.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.messages.share_group_describe_response import ShareGroupDescribeResponse
from odradek.wire.messages.txn_share_acknowledge_response import (
    TxnShareAcknowledgeResponse,
    TxnShareAcknowledgeTopicResponse,
    TxnSharePartitionResponse,
)
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.share.state_client import ShareStateClient
    from odradek.txn.admission import Admission
    from odradek.wire.messages.txn_share_acknowledge_request import (
        TxnAcknowledgementBatch,
        TxnShareAcknowledgeRequest,
    )

__all__ = ["TxnShareApi"]

TopicPartition = tuple[bytes, int]
_NONSENSE = Refused(ErrorCode.INVALID_REQUEST)
_NOT_STAGED = "Only accept, reject and gap can be part of a transaction."
_UNREACHABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group coordinator cannot be asked for the member.")
_OTHER_EPOCH = "The member epoch is not the present one of the member."


class _Staging(Struct, frozen=True):
    """A change that waits for its transaction."""

    topic_partition: TopicPartition
    share: SharePartition
    change: Change
    state_partition: tuple[str, int]


class TxnShareApi:
    """TxnShareAcknowledge."""

    def __init__(
        self, node: Serving, readers: ShareFetchApi, states: ShareStateClient, *, peers: Peers, admission: Admission
    ) -> None:
        self._readers = readers
        self._shares = readers.shares
        self._states = states
        self._peers = peers
        self._admission = admission
        self._router = node.router
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns

    @endpoint(
        TXN_SHARE_ACKNOWLEDGE,
        needs=in_series(
            allowed(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, of=lambda request: request.transactional_id),
            allowed(AclOperation.READ, AclResource.GROUP, of=lambda request: request.group_id),
        ),
    )
    async def txn_share_acknowledge(self, call: Call[TxnShareAcknowledgeRequest]) -> TxnShareAcknowledgeResponse:
        """TxnShareAcknowledge: stage a member's acknowledgements in a transaction."""
        request = call.request
        if not self._metadata.image.feature(SHARE_VERSION):
            return TxnShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        tid, member_id = request.transactional_id, request.member_id
        if not tid or not request.group_id or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
            return TxnShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
        refused = await self._member_refusal(request.group_id, member_id, request.member_epoch)
        if refused is not None:
            return TxnShareAcknowledgeResponse(error_code=refused.error)
        outcomes: dict[TopicPartition, Refused | None] = {}
        stagings: list[_Staging] = []
        async for topics in self._turns.share(call, request.topics):
            for topic in topics:
                for asked in topic.partitions:
                    said = _said(asked.acknowledgement_batches)
                    topic_partition = topic.topic_id, asked.partition_index
                    staging = said if isinstance(said, Refused) else self._stage(call, topic_partition, said)
                    outcomes[topic_partition] = staging if isinstance(staging, Refused) else None
                    if isinstance(staging, _Staging):
                        stagings.append(staging)
        await self._tell(Owner(tid, request.producer_id, request.producer_epoch), stagings, outcomes)
        return _response(outcomes)

    def _stage(
        self, call: Call[TxnShareAcknowledgeRequest], topic_partition: TopicPartition, said: tuple[Acknowledged, ...]
    ) -> _Staging | Refused | None:
        """Take the acknowledgements of one partition; nobody else gets the records until the coordinators answer."""
        request = call.request
        partition = self._readers.partition(call, *topic_partition)
        if isinstance(partition, Refused):
            return partition
        key = ShareKey(request.group_id, *topic_partition)
        share, state_partition = self._shares.known(key, partition), self._states.partition_of(key)
        if share is None or state_partition is None:
            return NOT_HOSTED
        pair = request.producer_id, request.producer_epoch
        limits = self._shares.limits(request.group_id)
        change = share.acknowledge(request.member_id, said, limits, self._clock.now, pair)
        return _Staging(topic_partition, share, change, state_partition) if isinstance(change, Change) else change

    async def _tell(
        self, owner: Owner, stagings: list[_Staging], outcomes: dict[TopicPartition, Refused | None]
    ) -> None:
        """Add the partitions of the states to the transaction, and have the share coordinators stage the records."""
        if not stagings:
            return
        undecided = dict(enumerate(stagings))
        try:
            failures = await self._admission.add(
                list(dict.fromkeys(each.state_partition for each in stagings)),
                transactional_id=owner.transactional_id,
                producer_id=owner.producer_id,
                producer_epoch=owner.producer_epoch,
                retry_within_ms=self._settings.config.add_partitions_to_txn_retry_backoff_max_ms,
            )
            for number, each in enumerate(stagings):
                failure = failures.get(each.state_partition)
                if failure is None:
                    outcomes[each.topic_partition] = await self._shares.tell(each.share, each.change, owner=owner)
                    del undecided[number]
                else:
                    outcomes[each.topic_partition] = refused_by(failure)
        finally:
            # They stay with their member: they were refused, or the flow has ended with its connection.
            for each in undecided.values():
                each.share.settled(each.change, kept=False)
                self._shares.watch(each.share)

    async def _member_refusal(self, group_id: str, member_id: str, epoch: int) -> Refused | None:
        """Why the member may not acknowledge: only its group's coordinator knows members and their epochs."""
        image = self._metadata.image
        topic = image.topic(CoordinatorKind.GROUP.topic)
        if topic is None:
            return _UNREACHABLE
        registered = topic.partitions[partition_for(group_id, len(topic.partitions))]
        if not image.is_alive(registered.leader):
            return _UNREACHABLE
        api_key = ApiKey.SHARE_GROUP_DESCRIBE
        response = await self._peers.call(
            registered.leader,
            api_key,
            self._router.newest(api_key),
            ShareGroupDescribeRequest(group_ids=[group_id]),
            ShareGroupDescribeResponse,
            deadline=self._clock.now + self._settings.config.request_timeout_ms,
        )
        if response is None:
            return _UNREACHABLE
        [group] = response.groups
        if group.error_code:
            return Refused(ErrorCode(group.error_code))
        known = next((each.member_epoch for each in group.members if each.member_id == member_id), None)
        if known is None:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return None if epoch == known else Refused(ErrorCode.STALE_MEMBER_EPOCH, _OTHER_EPOCH)


def _said(batches: Sequence[TxnAcknowledgementBatch]) -> tuple[Acknowledged, ...] | Refused:
    said = acknowledgements(batches, renews=False)
    if isinstance(said, Refused) or not said:
        return _NONSENSE
    if any(AckType.RELEASE in each.types for each in said):
        return Refused(ErrorCode.INVALID_REQUEST, _NOT_STAGED)
    return said


def _response(outcomes: dict[TopicPartition, Refused | None]) -> TxnShareAcknowledgeResponse:
    topics: dict[bytes, TxnShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), outcome in outcomes.items():
        answer = TxnSharePartitionResponse(partition_index=index)
        if outcome is not None:
            answer.error_code, answer.error_message = outcome.error, outcome.message
        topic = topics.setdefault(topic_id, TxnShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(answer)
    return TxnShareAcknowledgeResponse(responses=list(topics.values()))
