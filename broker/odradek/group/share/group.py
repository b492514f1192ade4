"""A share group: a fold over its records, and the sessions of its members beside them.

There is nothing to give up and nothing to wait for: a member has what the target says as soon as it has heard of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct

from odradek.group.consumer.member import JOINING_EPOCH, NO_PARTITIONS, Partitions
from odradek.group.modern import FIRST_EPOCH
from odradek.group.times import Times

__all__ = ["KnownTopic", "ShareGroup", "ShareGroupState", "ShareMember", "StatePartitions"]


class ShareGroupState(Enum):
    """Whether anybody is there."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareMember(Struct, frozen=True):
    """Who it is, what it subscribes to, and what it reads from."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    assigned: Partitions = NO_PARTITIONS


class KnownTopic(Struct, frozen=True):
    """Partitions of a topic whose share state the coordinator of states has, or is to have."""

    name: str
    partitions: frozenset[int]


class StatePartitions(Struct, frozen=True):
    """How far the share coordinator is with the partitions of a group, by the id of the topic."""

    initializing: Mapping[bytes, KnownTopic] = {}
    initialized: Mapping[bytes, KnownTopic] = {}
    deleting: Mapping[bytes, str] = {}

    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)


class ShareGroup:
    """Members, what each shall have, and the epochs of both."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.states: StatePartitions | None = None
        """None until the log has a record of it."""

        self.times: Times[str] = Times()
        """When the session of a member is over (ms)."""
        self.hashed_offset: int | None = None
        """As of which metadata the hash was compared last."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic."""
        return any(topic in member.topic_names for member in self.members.values())

    def subscribed_topics(self, members: Iterable[ShareMember]) -> frozenset[str]:
        """What these members subscribe to together."""
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
        """What the log says, and nothing else."""
        epochs = self.epoch, self.metadata_hash, self.assignment_epoch, self.assignment_timestamp
        return epochs, dict(self.members), dict(self.targets), self.states
