"""A consumer group: a fold over its records, and its volatile deadlines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.consumer.member import NO_EPOCHS, NO_PARTITIONS, ConsumerMember, Partitions, ResolvedPattern
from odradek.group.consumer.records import RECORDS
from odradek.group.modern import ModernGroup
from odradek.group.modern_member import FIRST_EPOCH, JOINING_EPOCH, LEAVING_STATIC_EPOCH
from odradek.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue

__all__ = ["ConsumerGroup", "ConsumerGroupState"]

NOBODY: Mapping[int, object] = MappingProxyType({})
"""The owners of a topic without assigned partitions."""


class ConsumerGroupState(Enum):
    """Derived from the epochs and the members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group has a newer epoch than its assignment."""
    RECONCILING = "Reconciling"
    """Some member has not reached its target."""
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """Members, their targets, and the epochs of both."""

    kind = "consumer"
    nothing = MappingProxyType({"assigned": NO_EPOCHS, "revoking": NO_EPOCHS})

    def __init__(self, group_id: str, *, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, RECORDS, NO_PARTITIONS, first_epoch=first_epoch)
        self.patterns: dict[str, ResolvedPattern] = {}
        self.has_partition_metadata = False
        """Whether the log has a record of partitions from an older coordinator, which the hash has replaced."""

        self._owners: dict[bytes, dict[int, str]] = {}
        self.pattern_counts: Counter[str] = Counter()
        """Number of members by pattern."""
        self._classic_members = 0
        self._supporters: Counter[str] = Counter()
        """Number of members with the classic protocol by supported assignor."""
        self._subscribed: frozenset[str] | None = None
        """Topics that all members together subscribe to; None until they are computed again."""

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.STABLE if self.is_reconciled else ConsumerGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        if self._subscribed is None:
            self._subscribed = self.subscribed_topics(self.members.values())
        return topic in self._subscribed

    def topic_names_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics of a member's subscription; a pattern that is not resolved yet matches none."""
        resolved = self.patterns.get(member.pattern) if member.pattern else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def subscribed_topics(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        names: set[str] = set()
        for member in members:
            names |= self.topic_names_of(member)
        return frozenset(names)

    def taken(self, topic_id: bytes) -> Set[int]:
        """The partitions of a topic that members have, including those that they have to give up."""
        return self._owners.get(topic_id, NOBODY).keys()

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has partitions of the member's target."""
        return any(
            not self.taken(topic_id).isdisjoint(indexes - member.assigned.get(topic_id, NOBODY).keys())
            for topic_id, indexes in self.targets.get(member.member_id, NO_PARTITIONS).items()
        )

    def last_refresh(self) -> tuple[int, int] | None:
        """Metadata version and time of the newest resolved pattern; None if there is none."""
        if not self.patterns:
            return None
        resolved = self.patterns.values()
        return max(each.version for each in resolved), max(each.timestamp for each in resolved)

    def all_classic_except(self, gone: Iterable[str]) -> bool:
        """Whether all members but these speak the classic protocol."""
        left_out = set(gone)
        return all(each.classic is not None for each in self.members.values() if each.member_id not in left_out)

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these assignors can join with the classic protocol."""
        return protocol_type == "consumer" and any(self._supporters[name] == self._classic_members for name in names)

    def preferred_assignor(self, members: Iterable[ConsumerMember]) -> str | None:
        """The assignor that most members prefer; None if no member prefers one."""
        votes = Counter(each.server_assignor for each in members if each.server_assignor is not None)
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    def away(self, member: ConsumerMember) -> ConsumerMember:
        """A static member that is away for a while; its replacement may commit for its partitions from epoch 0 on."""
        assigned = {topic_id: dict.fromkeys(indexes, JOINING_EPOCH) for topic_id, indexes in member.assigned.items()}
        return replace(member, epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking=NO_EPOCHS)

    def assignment_epoch_of(self, member_id: str, topic: str, topic_id: bytes, index: int) -> int | None:
        """The epoch since which a member has had this partition; None if it has not."""
        return self.members[member_id].assignment_epoch_of(topic_id, index)

    def durable_state(self) -> tuple[object, ...]:
        return *super().durable_state(), dict(self.patterns), self.has_partition_metadata

    def _replaced(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self._subscribed = None
        if before is None or after is None or before.classic is not after.classic:
            self._count_classic(before, -1)
            self._count_classic(after, 1)
        if before is None or after is None or before.pattern != after.pattern:
            self._count_pattern(before, -1)
            self._count_pattern(after, 1)
        if before and after and before.assigned is after.assigned and before.revoking is after.revoking:
            return
        if before is not None:
            self._release(before)
        member_id, has = ("", ()) if after is None else (after.member_id, (after.assigned, after.revoking))
        for held in has:
            for topic_id, indexes in held.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member_id))

    @property
    def _folds(self) -> Mapping[str, Callable[..., None]]:
        return {"RegularExpression": self._fold_pattern, "PartitionMetadata": self._fold_partition_metadata}

    def _fold_pattern(self, value: ConsumerGroupRegularExpressionValue | None, pattern: str) -> None:
        self._subscribed = None
        if value is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)

    def _fold_partition_metadata(self, value: Struct | None, _: str) -> None:
        self.has_partition_metadata = value is not None

    def _own_tombstones(self) -> Iterator[LogRecord]:
        return (self.pattern_record(pattern, None) for pattern in self.patterns)

    def pattern_record(self, pattern: str, resolved: ResolvedPattern | None) -> LogRecord:
        """The topics that a pattern matches; None: no member uses the pattern any more."""
        value = resolved and ConsumerGroupRegularExpressionValue(
            sorted(resolved.topics), resolved.version, resolved.timestamp
        )
        return self.records.record("RegularExpression", value, self.group_id, pattern)

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

    def _count_classic(self, member: ConsumerMember | None, by: int) -> None:
        if member is not None and member.classic is not None:
            self._classic_members += by
            for name, _ in member.classic.protocols:
                self._supporters[name] += by
                if not self._supporters[name]:
                    del self._supporters[name]

    def _count_pattern(self, member: ConsumerMember | None, by: int) -> None:
        if member is not None and member.pattern:
            self.pattern_counts[member.pattern] += by
            if not self.pattern_counts[member.pattern]:
                del self.pattern_counts[member.pattern]
