"""TxnOffsetCommit (key 28), versions 0 to 6: offsets of a group as part of a transaction (KIP-98, KIP-447, KIP-890).

Version 2 adds the leader epoch, 3 the member and its generation, 4 may be answered TRANSACTION_ABORTABLE, 5 adds the
partition of the offsets to the transaction implicitly, 6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed, allowed_on_each, in_series
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import DECIDED_AT_ONCE, extend_answers, in_parts, joined_answers
from odradek.txn.admission import Applicant
from odradek.txn.verification_errors import offset_commit_error, offset_commit_operation
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import TXN_OFFSET_COMMIT
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from odradek.wire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.log.partition import Guard
    from odradek.metadata.image import TopicImage
    from odradek.txn.admission import Admission
    from odradek.txn.decision_tables import Rules

__all__ = ["TxnOffsetApi"]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
BY_TOPIC_ID_SINCE = 6
NO_SEQUENCE = -1


class TxnOffsetApi:
    """TxnOffsetCommit."""

    def __init__(
        self, node: Host, coordinators: CoordinatorsOf[GroupShard], admission: Admission, *, rules: Rules
    ) -> None:
        self._coordinators = coordinators
        self._admission = admission
        self._rules = rules
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns

    @endpoint(
        TXN_OFFSET_COMMIT,
        needs=in_series(
            allowed(WRITE, AclResource.TRANSACTIONAL_ID, of=lambda request: request.transactional_id),
            allowed(READ, AclResource.GROUP, of=lambda request: request.group_id),
            allowed_on_each(
                READ,
                AclResource.TOPIC,
                asked=lambda request: request.topics,
                answered=lambda response: response.topics,
                name=lambda topic: topic.name,
                topic_id=lambda topic: topic.topic_id,
            ),
        ),
    )
    async def txn_offset_commit(self, call: Call[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
        """TxnOffsetCommit (key 28): adds or verifies the partition of the offsets, then commits them.

        Very many are committed in parts, all of them in the same transaction; what is refused on the way is answered
        as refused, with all that comes after it.
        """
        request = call.request
        missing: dict[str | bytes, TxnOffsetCommitResponseTopic] = {}
        committed: list[TxnOffsetCommitResponseTopic] = []
        begun: tuple[GroupShard, Guard | None] | None = None
        refused: Refused | None = None
        by_id = call.version >= BY_TOPIC_ID_SINCE

        def key(topic: TxnOffsetCommitResponseTopic) -> str | bytes:
            return topic.topic_id if by_id else topic.name

        few = sum(len(topic.partitions) or 1 for topic in request.topics) <= DECIDED_AT_ONCE
        for number, topics in enumerate((request.topics,) if few else in_parts(request.topics)):
            if number:
                await self._turns.breathe(call)
            part = replace(request, topics=self._existing(topics, missing, by_id=by_id))
            if not part.topics:
                continue
            if refused is None and begun is None:
                admitted = await self._begin(call, part, missing)
                if isinstance(admitted, Refused):
                    refused = admitted
                else:
                    begun = admitted
            outcome = refused or await self._commit(call, part, begun)
            if isinstance(outcome, Refused):
                refused = outcome
            answers = _answer(part, outcome, call.version)
            if committed:
                extend_answers(committed, answers, key)
            else:
                committed = answers
        return TxnOffsetCommitResponse(topics=joined_answers(missing, committed, key) if missing else committed)

    def _existing(
        self,
        topics: list[TxnOffsetCommitRequestTopic],
        answers: dict[str | bytes, TxnOffsetCommitResponseTopic],
        *,
        by_id: bool,
    ) -> list[TxnOffsetCommitRequestTopic]:
        image = self._metadata.image
        images = [image.topics_by_id.get(each.topic_id) if by_id else image.topics.get(each.name) for each in topics]
        return _split(topics, images, answers, by_id=by_id)

    async def _begin(
        self,
        call: Call[TxnOffsetCommitRequest],
        request: TxnOffsetCommitRequest,
        answers: dict[str | bytes, TxnOffsetCommitResponseTopic],
    ) -> tuple[GroupShard, Guard | None] | Refused:
        """Let the offsets into the transaction: by whose coordinator, and with which proof of that."""
        shard = self._shard(request.group_id)
        if isinstance(shard, Refused):
            return shard
        guard = await self._admit(shard, request, call.version)
        if isinstance(guard, Refused):
            return guard
        # While the request was parked topics may have been deleted, by when others may have their names.
        by_id = self._metadata.image.topics_by_id
        images = [by_id.get(topic.topic_id) for topic in request.topics]
        request.topics = _split(request.topics, images, answers, by_id=call.version >= BY_TOPIC_ID_SINCE)
        return shard, guard

    async def _commit(
        self,
        call: Call[TxnOffsetCommitRequest],
        request: TxnOffsetCommitRequest,
        begun: tuple[GroupShard, Guard | None] | None,
    ) -> TxnOffsetCommitResponse | Refused:
        if begun is None or not request.topics:
            return TxnOffsetCommitResponse()
        shard, guard = begun
        # Meanwhile the coordinator may have moved. If it came back it is another one: the guard was that of its
        # predecessor, and the client asks again.
        now = self._shard(request.group_id)
        if now is not shard:
            return now if isinstance(now, Refused) else Refused(ErrorCode.NOT_COORDINATOR)
        return await shard.carry_out(shard.machine.txn_commit(request, call.version, self._clock.now), guard=guard)

    async def _admit(self, shard: GroupShard, request: TxnOffsetCommitRequest, version: int) -> Guard | Refused | None:
        """The partition of the offsets is a partition of the transaction like any other (KIP-890)."""
        rules = self._rules
        operation = offset_commit_operation(version, rules.since)
        if operation.verifies_only and not self._settings.verifies_offsets:
            return None
        applicant = Applicant(shard.partition, request.producer_id, request.producer_epoch, NO_SEQUENCE)
        await self._admission.admit(
            [applicant],
            transactional_id=request.transactional_id,
            operation=operation,
            judge=lambda operation, failure: Refused(rules.offset_commit_error(operation, failure)),
        )
        return applicant.refused or applicant.guard

    def _shard(self, group_id: str) -> GroupShard | Refused:
        return self._coordinators.of(group_id) if group_id else Refused(ErrorCode.INVALID_GROUP_ID)


def _split(
    topics: Iterable[TxnOffsetCommitRequestTopic],
    images: Iterable[TopicImage | None],
    answers: dict[str | bytes, TxnOffsetCommitResponseTopic],
    *,
    by_id: bool,
) -> list[TxnOffsetCommitRequestTopic]:
    """The topics and partitions that exist, with names and ids; `answers` gets errors for the others."""
    found = []
    for topic, image in zip(topics, images, strict=True):
        known: Container[int] = () if image is None else image.partitions
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in known]
        if missing or image is None:
            # A topic that is not there is named even where none of its partitions is.
            unknown_id = by_id and image is None
            error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            key = topic.topic_id if by_id else topic.name
            answer = answers.setdefault(key, TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id))
            answer.partitions += [_result(index, error) for index in missing]
        partitions = [each for each in topic.partitions if each.partition_index in known]
        if image is not None and partitions:
            found.append(TxnOffsetCommitRequestTopic(name=image.name, topic_id=image.id, partitions=partitions))
    return found


def _result(index: int, error: ErrorCode) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)


def _answer(
    request: TxnOffsetCommitRequest, committed: TxnOffsetCommitResponse | Refused, version: int
) -> list[TxnOffsetCommitResponseTopic]:
    if isinstance(committed, TxnOffsetCommitResponse):
        return committed.topics
    error = offset_commit_error(version, committed.error)
    return [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_result(each.partition_index, error) for each in topic.partitions],
        )
        for topic in request.topics
    ]
