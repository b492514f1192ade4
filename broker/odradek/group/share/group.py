"""A share group: a fold over its records, and the sessions of its members beside them.

A member gives nothing up and waits for nothing: it has its target assignment as soon as it gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from odradek.core.machine import LogRecord
from odradek.group.consumer.member import NO_PARTITIONS, Partitions
from odradek.group.modern import ModernGroup
from odradek.group.share.member import ShareMember, StatePartitions
from odradek.group.share.records import RECORDS
from odradek.wire.messages.share_group_state_partition_metadata_value import ShareGroupStatePartitionMetadataValue

__all__ = ["ShareGroup", "ShareGroupState"]


class ShareGroupState(Enum):
    """The state of a share group."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """Members, their targets, and the epochs of both."""

    kind = "share"
    nothing = MappingProxyType({"assigned": NO_PARTITIONS})

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, RECORDS, NO_PARTITIONS)
        self.states: StatePartitions | None = None
        """The partitions whose state the share coordinator initializes, has initialized, or deletes for this group.

        None until the log has a ShareGroupStatePartitionMetadata record of the group.
        """

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
        return *super().durable_state(), self.states

    def states_record(self, states: StatePartitions) -> LogRecord:
        """The record of the share partitions that are initialized, to be initialized, and to be deleted."""
        return RECORDS.states_record(self.group_id, states)

    @property
    def _folds(self) -> Mapping[str, Callable[..., None]]:
        return {"StatePartitionMetadata": self._fold_states}

    def _fold_states(self, value: ShareGroupStatePartitionMetadataValue | None, _: str) -> None:
        self.states = None if value is None else RECORDS.read_states(value)
