"""A share group: a fold over its records, and the sessions of its members beside them.

A member gives nothing up and waits for nothing: it has its target assignment as soon as it gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.consumer.member import JOINING_EPOCH, NO_PARTITIONS, Partitions
from odradek.group.modern import LEAVING_EPOCH, MembersAndTargets
from odradek.group.times import Times

__all__ = ["KnownTopic", "ShareGroup", "ShareGroupState", "ShareMember", "StatePartitions"]


class ShareGroupState(Enum):
    """The state of a share group."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareMember(Struct, frozen=True):
    """A member: its client, its subscriptions and its assignment."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    assigned: Partitions = NO_PARTITIONS


class KnownTopic(Struct, frozen=True):
    """Partitions of a topic whose state the share coordinator has, or will have."""

    name: str
    partitions: frozenset[int]


class StatePartitions(Struct, frozen=True):
    """The progress of the share coordinator with the partitions of a group, by topic id."""

    initializing: Mapping[bytes, KnownTopic] = {}
    initialized: Mapping[bytes, KnownTopic] = {}
    deleting: Mapping[bytes, str] = {}

    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)


class ShareGroup(MembersAndTargets[ShareMember, Partitions]):
    """Members, their targets, and the epochs of both."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states: StatePartitions | None = None
        """None until the log has a record of it."""

        self.times: Times[str] = Times()
        """The end of each member's session (ms)."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic."""
        return any(topic in member.topic_names for member in self.members.values())

    def subscribed_topics(self, members: Iterable[ShareMember]) -> frozenset[str]:
        """All topics that these members subscribe to."""
        names: set[str] = set()
        for member in members:
            names |= member.topic_names
        return frozenset(names)

    def initialized(self) -> dict[bytes, frozenset[int]]:
        """The partitions that may be assigned: the share coordinator has their state."""
        if self.states is None:
            return {}
        return {topic_id: known.partitions for topic_id, known in self.states.initialized.items()}

    def durable_state(self) -> tuple[object, ...]:
        """The state that follows from the log alone."""
        epochs = self.epoch, self.metadata_hash, self.assignment_epoch, self.assignment_timestamp
        return epochs, dict(self.members), dict(self.targets), self.states

    # ------------------------------------------------------------------ folding

    def fold_member(self, member: ShareMember) -> None:
        """Add or replace a member."""
        self.members[member.member_id] = member

    def fold_no_member(self, member_id: str) -> None:
        """Remove a member and its session."""
        self.members.pop(member_id, None)
        self.times.drop(member_id)

    def fold_no_assignment(self, member_id: str) -> None:
        """Remove the assignment of a member that is about to go."""
        member = self.members.get(member_id)
        if member is not None:
            self.fold_member(replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NO_PARTITIONS))
