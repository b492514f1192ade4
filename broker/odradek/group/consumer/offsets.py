"""Whether a member of a consumer group may commit and fetch offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.group import member_epochs

if TYPE_CHECKING:
    from odradek.core.machine import Refused
    from odradek.group.consumer.group import ConsumerGroup
    from odradek.group.consumer.member import ConsumerMember
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup
    from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["refusal_of_commit", "refusal_of_fetch"]


def refusal_of_commit(
    group: ConsumerGroup,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    known_error: bool,
    with_older_epochs: bool,
) -> Refused | None:
    """Why the whole commit is refused; None if it may be done, in some releases `with_older_epochs` too (KIP-1251)."""

    def has_had_since(member: ConsumerMember, epoch: int) -> bool:
        return with_older_epochs and all(
            (since := member.assignment_epoch_of(topic.topic_id, partition.partition_index)) is not None
            and epoch >= since
            for topic in request.topics
            for partition in topic.partitions
        )

    return member_epochs.refusal_of_commit(
        group, request, known_error=known_error, speaks_classic=_speaks_classic, has_had_since=has_had_since
    )


def refusal_of_fetch(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> Refused | None:
    """Why a member may not fetch; who names no member may."""
    return member_epochs.refusal_of_fetch(group, request, speaks_classic=_speaks_classic)


def _speaks_classic(member: ConsumerMember) -> bool:
    return member.classic is not None
