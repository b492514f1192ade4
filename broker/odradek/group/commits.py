"""Permission to commit, fetch and delete a group's offsets, and their expiration.

The epoch of a member corresponds to the generation in classic groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.core.machine import Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.share.group import ShareGroup
from odradek.group.streams.group import StreamsGroup
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from odradek.group.modern_groups import Group
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup

__all__ = ["expires_since", "refusal_of_commit", "refusal_of_deletion", "refusal_of_fetch"]

NO_EPOCH = -1


def refusal_of_commit(
    group: Group | None,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    known_error: bool,
    with_older_epochs: bool,
) -> ErrorCode | None:
    """The error for a whole commit; None if it is allowed.

    `known_error`: whether the request's version knows errors about member epochs. A member with an epoch must not use
    an
    OffsetCommit without one; a TxnOffsetCommit gets the error about generations instead. `with_older_epochs`: a member
    of a
    consumer group may commit with an earlier epoch for partitions that it has kept since then (KIP-1251).
    """
    generation = request.generation_id_or_member_epoch
    if group is None:
        # A group that only keeps offsets comes into being with the first of them.
        if generation < 0:
            return None
        return ErrorCode.GROUP_ID_NOT_FOUND if known_error else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not isinstance(group, ClassicGroup):
        older = with_older_epochs or isinstance(group, StreamsGroup)
        return _refusal_of_member(group, request, known_error=known_error, with_older_epochs=older)
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    transactional = isinstance(request, TxnOffsetCommitRequest)
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        refusal = group.refusal_of_member(request.member_id, request.group_instance_id)
        if refusal is None and generation != group.generation:
            refusal = ErrorCode.ILLEGAL_GENERATION
        if refusal is not None:
            return refusal
    elif not transactional:
        # A consumer that no group manages must not write into one that has members.
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE and not transactional:
        # Its generation is right, so it has its JoinGroup answer: let it fetch its assignment first.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _refusal_of_member(
    group: ConsumerGroup | StreamsGroup,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    known_error: bool,
    with_older_epochs: bool,
) -> ErrorCode | None:
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return None
    transactional = isinstance(request, TxnOffsetCommitRequest)
    names_member = bool(request.member_id) or request.group_instance_id is not None
    if transactional and epoch == NO_EPOCH and not names_member:
        return None
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and not known_error and not member.speaks_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return None
    if epoch < member.epoch and with_older_epochs and _has_had_since(group, request, epoch):
        return None
    # The classic protocol, and transactions of clients before KIP-1319, know generations alone.
    generations = (transactional and not known_error) or member.speaks_classic
    return ErrorCode.ILLEGAL_GENERATION if generations else ErrorCode.STALE_MEMBER_EPOCH


def _has_had_since(
    group: ConsumerGroup | StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, epoch: int
) -> bool:
    """Whether the member has had all partitions of the commit since this epoch or longer."""
    return all(
        (since := group.assignment_epoch_of(request.member_id, topic.name, topic.topic_id, each.partition_index))
        is not None
        and epoch >= since
        for topic in request.topics
        for each in topic.partitions
    )


def refusal_of_fetch(group: Group | None, request: OffsetFetchRequestGroup) -> Refused | None:
    """Why a member may not fetch; only consumer and streams groups check, and only requests with a member."""
    if not isinstance(group, ConsumerGroup | StreamsGroup):
        return None
    epoch = request.member_epoch
    if request.member_id is None and epoch < 0:
        return None
    if request.member_id is None:
        # Kafka looks for a member without an id, and fails.
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    member = group.members.get(request.member_id)
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if epoch == member.epoch:
        return None
    return Refused(ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH)


def refusal_of_deletion(group: Group | None) -> ErrorCode | None:
    """Why no offset of the group may be deleted; None if offsets without a reader may (KIP-496)."""
    if group is None or isinstance(group, ShareGroup) or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ClassicGroup) and not group.is_empty and not group.is_consumer_group:
        return ErrorCode.NON_EMPTY_GROUP
    return None


def expires_since(group: Group) -> int | None:
    """Start of the retention: a time, -1 for the commit of each offset, None if nothing expires."""
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return -1
    if group.state is GroupState.EMPTY:
        return group.state_timestamp
    if group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed_topics is not None:
        return -1
    return None
