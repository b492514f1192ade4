"""Parked requests of members: JoinGroup waits for other members, SyncGroup for the leader's assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from odradek.core.machine import Answered, Parked
from odradek.group.classic.member import GONE, Member, Token
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from odradek.group.classic.group import ClassicGroup

__all__ = ["Reply", "Waits"]

Reply: TypeAlias = JoinGroupResponse | SyncGroupResponse


class Waits:
    """Hands out tokens and collects replies to parked requests.

    A member has at most one parked JoinGroup and one SyncGroup. A repeated request ends the earlier one, because the
    client
    has given up that connection.
    """

    def __init__(self) -> None:
        self.ended: list[tuple[Token, Reply]] = []
        self._count = 0

    def begin_join(self, group: ClassicGroup, member: Member) -> Token:
        """Park the member's JoinGroup."""
        again = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        self.end_join(member, again)
        member.join = token = self._token(group, member)
        return token

    def begin_sync(self, group: ClassicGroup, member: Member) -> Token:
        """Park the member's SyncGroup."""
        self.end_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = token = self._token(group, member)
        return token

    def end_join(self, member: Member, reply: JoinGroupResponse) -> None:
        token, member.join = member.join, None
        self._end(token, reply)

    def end_sync(self, member: Member, reply: SyncGroupResponse) -> bool:
        """Reply to the member's parked SyncGroup; False if there is none."""
        token, member.sync = member.sync, None
        self._end(token, reply)
        return token is not None

    def end_both(self, member: Member, error: ErrorCode, *, member_id: str = "") -> None:
        """Refuse all parked requests of a member that is removed."""
        self.end_join(member, JoinGroupResponse(error_code=error, member_id=member_id))
        self.end_sync(member, SyncGroupResponse(error_code=error))

    def decision(self, token: Token) -> Parked[JoinGroupResponse] | Answered[JoinGroupResponse]:
        """The outcome of a JoinGroup that was parked: it may have completed the rebalance at once."""
        for index, (ended, reply) in enumerate(self.ended):
            if ended == token:
                del self.ended[index]
                assert isinstance(reply, JoinGroupResponse), "the token of a JoinGroup"
                return Answered(reply)
        return Parked(token)

    def abandon(self, group: ClassicGroup, token: Token) -> None:
        """The client is gone; its member stays, because Kafka notices that only when it answers."""
        member = group.members.get(token.member_id)
        if member is not None and member.join == token:
            member.join = GONE
        elif member is not None and member.sync == token:
            member.sync = GONE

    def _token(self, group: ClassicGroup, member: Member) -> Token:
        self._count += 1
        return Token(group.group_id, member.member_id, self._count)

    def _end(self, token: Token | None, reply: Reply) -> None:
        if token is not None and token is not GONE:
            self.ended.append((token, reply))
