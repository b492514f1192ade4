"""A classic group: its members, its generation, and the requests that it waits for.

Only the last generation is durable: `group.records` writes it when the leader has assigned partitions. A group that is
read back from the log has that generation and its members, and no timers.
Callers decide and answer (`group.classic_protocol`); a group only keeps its own invariants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.group.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from odradek.group.classic.states import ALLOWED, GroupState
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.machine import LogRecord
    from odradek.group.classic.member import Member, Protocols

__all__ = ["ClassicGroup"]


class ClassicGroup:
    """A group of the classic protocol; without a protocol type it only keeps offsets (a "simple" group)."""

    kind = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self._supporters: Counter[str] = Counter()
        """Number of members that support each protocol."""
        self.static_members: dict[str, str] = {}
        self.subscribed_topics: frozenset[str] | None = None
        """Topics that members subscribe to; None if the subscriptions cannot be read."""

        self.pending_joins: dict[str, int] = {}
        """Ends of sessions (ms) of member ids that were given out and have not joined (KIP-394)."""
        self.pending_syncs: set[str] = set()
        """Members of this generation without a SyncGroup."""
        self.sessions_to_begin: set[str] = set()
        """Members whose session begins at the next step with a time: `apply` does not know the time."""

        self.join_deadline: int | None = None
        self.sync_deadline: int | None = None
        self.initial_delay_ms: int | None = None
        """The last delay of a new group's first rebalance; None when there is no further delay."""
        self.initial_remaining_ms = 0
        self.new_member_added = False
        self.transitions: list[tuple[GroupState, GroupState]] = []
        """State changes that are not in the event log yet."""
        self.record_deadline: int | None = None
        """When a record of this new group must be written; None if there is one, or one is on its way."""
        self.debts: tuple[LogRecord, ...] = ()
        """Records to write before that: tombstones of the consumer group that this group replaces."""
        self.rebalance_owed = False
        """Whether the group starts with a rebalance: it was a consumer group whose members change."""

    def enter(self, state: GroupState, now: int) -> None:
        """Change the state; asserts that this transition is allowed."""
        assert self.state in ALLOWED[state], f"group {self.group_id}: {self.state.value} to {state.value}"
        self.transitions.append((self.state, state))
        self.previous_state = self.state
        self.state = state
        self.state_timestamp = now

    def begin_generation(self, now: int) -> None:
        """All remaining members have joined, or there are none: raise the generation and select the protocol."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.enter(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now)
        self.pending_syncs.clear()
        self.sync_deadline = None

    def restore(
        self,
        *,
        state: GroupState,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        leader: str | None,
        state_timestamp: int,
    ) -> None:
        """Set the state that the log has, without a transition."""
        self.state = state
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.leader = leader
        self.state_timestamp = state_timestamp
        self.subscribed_topics = self._subscribed_topics()

    @property
    def is_empty(self) -> bool:
        """Whether it could be deleted."""
        return self.state is GroupState.EMPTY

    @property
    def is_consumer_group(self) -> bool:
        """Whether the members' metadata are subscriptions of consumers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, f"group {self.group_id}: two protocol types"
        assert member.member_id not in self.members, f"group {self.group_id}: {member.member_id} joins twice"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, f"static member {member.instance_id} joins twice"
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or a member id that was given out."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supports_no_more(member)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if member_id == self.leader:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        self.sessions_to_begin.discard(member_id)
        return member

    def replace(self, old: Member, member: Member) -> None:
        """Give a static member a new member id; everything else stays (KIP-345, "Static Membership")."""
        assert old.instance_id is not None, "only a static member can be replaced"
        # It keeps its place, so that the order of members (and a new leader) does not depend on restarts.
        self.members = {
            (member.member_id if member_id == old.member_id else member_id): (
                member if member_id == old.member_id else known
            )
            for member_id, known in self.members.items()
        }
        self._supports_no_more(old)
        self._supporters.update(name for name, _ in member.protocols)
        if self.leader == old.member_id:
            self.leader = member.member_id
        self.static_members[old.instance_id] = member.member_id
        self.pending_syncs.discard(old.member_id)
        self.sessions_to_begin.discard(old.member_id)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False if none has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is not None:
            return True
        for member in self.members.values():
            if member.join is not None:
                self.leader = member.member_id
                return True
        return False

    @property
    def all_joined(self) -> bool:
        return not self.pending_joins and all(member.join is not None for member in self.members.values())

    @property
    def joined_count(self) -> int:
        return sum(member.join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def refusal_of_member(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The error for a request of this member; None if it is a member of the group."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name, _ in protocols)

    def offer(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols that a member supports."""
        self._supports_no_more(member)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol that most members prefer, among those that all support."""
        common = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(common) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def _supports_no_more(self, member: Member) -> None:
        supporters = self._supporters
        for name, _ in member.protocols:
            supporters[name] -= 1
            if not supporters[name]:
                del supporters[name]

    def next_deadline(self) -> int | None:
        return min(self._deadlines(), default=None)

    def _deadlines(self) -> Iterator[int]:
        for deadline in (self.join_deadline, self.sync_deadline, self.record_deadline):
            if deadline is not None:
                yield deadline
        yield from self.pending_joins.values()
        for member in self.members.values():
            if member.deadline is not None:
                yield member.deadline

    def renew(self, member_id: str, now: int) -> int:
        """Restart the member's session; returns its end (ms)."""
        member = self.members[member_id]
        member.deadline = now + member.session_timeout_ms
        return member.deadline

    def begin_sessions(self, now: int) -> None:
        """Begin the sessions that wait for a known time."""
        for member_id in self.sessions_to_begin:
            self.renew(member_id, now)
        self.sessions_to_begin.clear()
