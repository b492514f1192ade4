"""Tasks of a Kafka Streams application: a partition of a subtopology, run by somebody or kept warm for them.

Partitions stand by the id of their subtopology; a subtopology without any is left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from odradek.wire.messages import streams_group_current_member_assignment_value as current
    from odradek.wire.messages import streams_group_heartbeat_request as asked
    from odradek.wire.messages import streams_group_target_assignment_member_value as targeted

__all__ = [
    "NO_HELD_TASKS",
    "NO_TASKS",
    "Epochs",
    "HeldTasks",
    "Indexes",
    "Tasks",
    "contains",
    "indexes_of",
    "pairs",
]

TaskIds: TypeAlias = "asked.TaskIds | current.TaskIds | targeted.TaskIds"
"""Partitions of a subtopology as requests and records have them."""
Indexes = Mapping[str, frozenset[int]]
"""Partitions by subtopology."""
Epochs = Mapping[str, Mapping[int, int]]
"""The same, each with the epoch in which it was assigned (KIP-1251)."""

_NOTHING: Indexes = MappingProxyType({})
_NO_EPOCHS: Epochs = MappingProxyType({})


class Tasks(Struct, frozen=True):
    """The target of a member, or the tasks that it reports."""

    active: Indexes = _NOTHING
    standby: Indexes = _NOTHING
    warmup: Indexes = _NOTHING


class HeldTasks(Struct, frozen=True):
    """The tasks of a member; active tasks with the epoch in which each was assigned."""

    active: Epochs = _NO_EPOCHS
    standby: Indexes = _NOTHING
    warmup: Indexes = _NOTHING

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @property
    def plain(self) -> Tasks:
        """The tasks without the epochs."""
        active = {subtopology: frozenset(epochs) for subtopology, epochs in self.active.items()}
        return Tasks(active, self.standby, self.warmup)


NO_TASKS = Tasks()
NO_HELD_TASKS = HeldTasks()


def indexes_of(listed: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    """The partitions by subtopology, of a request or a record."""
    found: dict[str, frozenset[int]] = {}
    for each in listed:
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return found


def pairs(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    """Each task by itself."""
    for subtopology, indexes in tasks.items():
        for index in indexes:
            yield subtopology, index


def contains(tasks: Mapping[str, Container[int]], subtopology: str, index: int) -> bool:
    """Whether this task is among these."""
    return index in tasks.get(subtopology, ())
