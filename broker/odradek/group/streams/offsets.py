"""Whether a member of a streams group may commit and fetch offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.group import member_epochs

if TYPE_CHECKING:
    from odradek.core.machine import Refused
    from odradek.group.streams.group import StreamsGroup
    from odradek.group.streams.member import StreamsMember
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup
    from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["refusal_of_commit", "refusal_of_fetch"]


def refusal_of_commit(
    group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, *, known_error: bool
) -> Refused | None:
    """Why the whole commit is refused; None if it may be done."""

    def has_had_since(member: StreamsMember, epoch: int) -> bool:
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

    return member_epochs.refusal_of_commit(
        group, request, known_error=known_error, speaks_classic=_speaks_classic, has_had_since=has_had_since
    )


def refusal_of_fetch(group: StreamsGroup, request: OffsetFetchRequestGroup) -> Refused | None:
    """Why a member may not fetch; who names no member may."""
    return member_epochs.refusal_of_fetch(group, request, speaks_classic=_speaks_classic)


def _speaks_classic(member: StreamsMember) -> bool:
    """Members of the classic protocol cannot be migrated into a streams group."""
    return False
