"""Whether a member may commit and fetch offsets: its epoch is what the generation is to members of a classic group.

Consumer groups and streams groups ask the same; since when a member has what it commits, each of them knows by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.core.machine import Refused
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup

__all__ = ["Group", "Member", "refusal_of_commit", "refusal_of_fetch"]

NO_EPOCH = -1


class Member(Protocol):
    """The member or client that commits."""

    @property
    def epoch(self) -> int: ...


M_co = TypeVar("M_co", bound=Member, covariant=True)
M = TypeVar("M", bound=Member)


class Group(Protocol[M_co]):
    """A group whose members have epochs."""

    @property
    def is_empty(self) -> bool: ...
    @property
    def members(self) -> Mapping[str, M_co]: ...


def refusal_of_commit(
    group: Group[M],
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    known_error: bool,
    speaks_classic: Callable[[M], bool],
    has_had_since: Callable[[M, int], bool],
) -> Refused | None:
    """Why the whole commit is refused; None if it may be done.

    `known_error`: whether the version of the request knows errors of member epochs. A member with an epoch may not
    commit with an OffsetCommit that does not; a TxnOffsetCommit is told of a generation instead.
    `has_had_since`: whether a member has had all that it commits since an epoch, or an earlier one (KIP-1251).
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
    if not transactional and not known_error and not speaks_classic(member):
        return Refused(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.epoch:
        return None
    if epoch < member.epoch and has_had_since(member, epoch):
        return None
    # The classic protocol, and transactions of clients before KIP-1319, know generations alone.
    generations = (transactional and not known_error) or speaks_classic(member)
    return Refused(ErrorCode.ILLEGAL_GENERATION if generations else ErrorCode.STALE_MEMBER_EPOCH)


def refusal_of_fetch(
    group: Group[M], request: OffsetFetchRequestGroup, *, speaks_classic: Callable[[M], bool]
) -> Refused | None:
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
    if epoch == member.epoch:
        return None
    return Refused(ErrorCode.ILLEGAL_GENERATION if speaks_classic(member) else ErrorCode.STALE_MEMBER_EPOCH)
