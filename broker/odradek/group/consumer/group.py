"""A consumer group: a fold over its records, and the times that are set beside them.

Whatever outlives a failover changes in the `fold_...` functions alone, which `records` calls for what is committed.
Deadlines are volatile: a coordinator that takes over sets them anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.consumer.member import (
    LEAVING_EPOCH,
    NO_PARTITIONS,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Partitions,
)
from odradek.group.modern import FIRST_EPOCH, ModernGroup

__all__ = ["ConsumerGroup", "ConsumerGroupState", "ResolvedPattern", "Timer"]

NOBODY: Mapping[int, object] = MappingProxyType({})
"""The owners of a topic of which no partition is assigned."""


class ConsumerGroupState(Enum):
    """Derived from the epochs and the members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group has moved on, and its assignment has not."""
    RECONCILING = "Reconciling"
    """Some member does not have what it shall have."""
    STABLE = "Stable"
    DEAD = "Dead"


class Timer(Enum):
    """Why a member is dropped when its time is over."""

    SESSION = "it was silent"
    REBALANCE = "it did not give up its partitions"
    JOIN = "it did not join again, in the classic protocol"
    SYNC = "it did not ask for its partitions, in the classic protocol"


class ResolvedPattern(Struct, frozen=True):
    """The topics that a pattern matched, in which version of the metadata and when (ms)."""

    topics: frozenset[str]
    version: int
    timestamp: int


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions, Timer]):
    """Members, their targets, and the epochs of both."""

    def __init__(self, group_id: str, *, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, NO_PARTITIONS, first_epoch=first_epoch)
        self.patterns: dict[str, ResolvedPattern] = {}
        self.has_partition_metadata = False
        """Whether an older coordinator has left a record of partitions, which the hash is instead of."""

        self._owners: dict[bytes, dict[int, str]] = {}
        self.pattern_counts: Counter[str] = Counter()
        """How many members subscribe to each pattern."""
        self._classic_members = 0
        self._supporters: Counter[str] = Counter()
        """How many of the members with the classic protocol support each assignor."""
        self._subscribed: frozenset[str] | None = None
        """The topics that all members together subscribe to; None until it is computed again."""

    # ------------------------------------------------------------------ reading

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.STABLE if self.is_reconciled else ConsumerGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic."""
        if self._subscribed is None:
            self._subscribed = self.subscribed_topics(self.members.values())
        return topic in self._subscribed

    def topic_names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to; a pattern that is not resolved yet matches none."""
        resolved = self.patterns.get(member.pattern) if member.pattern else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def subscribed_topics(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        """The topics that these members together subscribe to."""
        names: set[str] = set()
        for member in members:
            names |= self.topic_names_of(member)
        return frozenset(names)

    def taken(self, topic_id: bytes) -> Set[int]:
        """The partitions of a topic that any member has, or is still to give up."""
        return self._owners.get(topic_id, NOBODY).keys()

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether somebody else has what the member shall have."""
        return any(
            not self.taken(topic_id).isdisjoint(indexes - member.assigned.get(topic_id, NOBODY).keys())
            for topic_id, indexes in self.targets.get(member.member_id, NO_PARTITIONS).items()
        )

    def last_refresh(self) -> tuple[int, int] | None:
        """Version and time of the patterns that were resolved last; None if none is."""
        if not self.patterns:
            return None
        resolved = self.patterns.values()
        return max(each.version for each in resolved), max(each.timestamp for each in resolved)

    def all_classic_except(self, gone: Iterable[str]) -> bool:
        """Whether all members but these speak the classic protocol."""
        left_out = set(gone)
        return all(each.classic is not None for each in self.members.values() if each.member_id not in left_out)

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member that knows these assignors can join with the classic protocol."""
        return protocol_type == "consumer" and any(self._supporters[name] == self._classic_members for name in names)

    def preferred_assignor(self, members: Iterable[ConsumerMember]) -> str | None:
        """The assignor that most members prefer, of those that prefer one."""
        votes = Counter(each.server_assignor for each in members if each.server_assignor is not None)
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    def durable_state(self) -> tuple[object, ...]:
        """The state that follows from the log alone."""
        epochs = self.epoch, self.metadata_hash, self.assignment_epoch, self.assignment_timestamp
        return epochs, dict(self.members), dict(self.targets), dict(self.patterns), self.has_partition_metadata

    # ------------------------------------------------------------------ folding

    def fold_member(self, member: ConsumerMember) -> None:
        """A member as it is from now on."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._subscribed = None
        if before is None or before.classic is not member.classic:
            self._count_classic(None if before is None else before.classic, -1)
            self._count_classic(member.classic, 1)
        if before is None or before.pattern != member.pattern:
            self._count_pattern(None if before is None else before.pattern, -1)
            self._count_pattern(member.pattern, 1)
        if before is None or before.assigned is not member.assigned or before.revoking is not member.revoking:
            if before is not None:
                self._release(before)
            for held in (member.assigned, member.revoking):
                for topic_id, indexes in held.items():
                    self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member.member_id))

    def fold_no_member(self, member_id: str) -> None:
        """It is gone, and its times with it."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._subscribed = None
        self._release(member)
        self._count_classic(member.classic, -1)
        self._count_pattern(member.pattern, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        self.cancel(member_id, *Timer)
        self.slow_epochs.pop(member_id, None)

    def fold_no_assignment(self, member_id: str) -> None:
        """The member has nothing any more: it is about to go."""
        member = self.members.get(member_id)
        if member is not None:
            gone = replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, state=MemberState.STABLE)
            self.fold_member(replace(gone, assigned=NO_PARTITIONS, revoking=NO_PARTITIONS))

    def fold_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        self._subscribed = None
        if resolved is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = resolved

    def _release(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, indexes in held.items():
                owners = self._owners.get(topic_id, {})
                for index in indexes:
                    # Another member may have it already: a record of the next owner can come before this one's.
                    if owners.get(index) == member.member_id:
                        del owners[index]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _count_classic(self, classic: ClassicMetadata | None, by: int) -> None:
        if classic is not None:
            self._classic_members += by
            for name, _ in classic.protocols:
                self._supporters[name] += by
                if not self._supporters[name]:
                    del self._supporters[name]

    def _count_pattern(self, pattern: str | None, by: int) -> None:
        if pattern:
            self.pattern_counts[pattern] += by
            if not self.pattern_counts[pattern]:
                del self.pattern_counts[pattern]
