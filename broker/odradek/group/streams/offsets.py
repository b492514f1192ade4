"""Whether a member of a streams group may commit and fetch offsets: its epoch is what its generation is to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.log.machine import Refused
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from odradek.group.streams.group import StreamsGroup
    from odradek.group.streams.member import StreamsMember
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup

__all__ = ["refusal_of_commit", "refusal_of_fetch"]

NO_EPOCH = -1


def refusal_of_commit(
    group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, *, known_error: bool
) -> Refused | None:
    """Why the whole commit is refused; None if it may be done.

    `known_error`: whether the version of the request knows errors of member epochs. A member may not commit with an
    OffsetCommit that does not; a TxnOffsetCommit is told of a generation instead.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return None
    transactional = isinstance(request, TxnOffsetCommitRequest)
    names_member = bool(request.member_id) or request.group_instance_id is not None
    if transactional and epoch == NO_EPOCH and not names_member:
        return None
    member = group.members.get(request.member_id)
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and not known_error:
        return Refused(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.epoch:
        return None
    if epoch < member.epoch and _is_since_assigned(group, member, request, epoch):
        return None
    generations = transactional and not known_error
    return Refused(ErrorCode.ILLEGAL_GENERATION if generations else ErrorCode.STALE_MEMBER_EPOCH)


def _is_since_assigned(
    group: StreamsGroup, member: StreamsMember, request: OffsetCommitRequest | TxnOffsetCommitRequest, epoch: int
) -> bool:
    """Whether the member has run the tasks of all these partitions since this epoch, or an earlier one (KIP-1251)."""
    if group.topology is None:
        return False
    subtopologies = group.topology.subtopology_by_source
    for topic in request.topics:
        subtopology = subtopologies.get(topic.name)
        if subtopology is None:
            return False
        for partition in topic.partitions:
            since = member.assignment_epoch_of(subtopology, partition.partition_index)
            if since is None or epoch < since:
                return False
    return True


def refusal_of_fetch(group: StreamsGroup, request: OffsetFetchRequestGroup) -> Refused | None:
    """Why a member may not fetch; who names no member may."""
    epoch = request.member_epoch
    if request.member_id is None and epoch < 0:
        return None
    if request.member_id is None:
        # Kafka looks for a member without an id, and fails.
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    member = group.members.get(request.member_id)
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    return None if epoch == member.epoch else Refused(ErrorCode.STALE_MEMBER_EPOCH)
