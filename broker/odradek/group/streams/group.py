"""A streams group: a fold over its records, and what is volatile beside them.

Whatever outlives a failover changes in the `fold_...` functions alone, which `records` calls for what is committed.
Deadlines, offsets of tasks, endpoints and the wish to shut down are volatile, as in Kafka: who coordinates next begins
without them.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.modern import ModernGroup
from odradek.group.streams.member import LEAVING_EPOCH, MemberState, StreamsMember
from odradek.group.streams.tasks import NO_HELD_TASKS, NO_TASKS, HeldTasks, Tasks, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from odradek.group.streams.configured import ConfiguredTopology
    from odradek.group.streams.topology import Topology

__all__ = ["NO_OFFSETS", "NO_TOPOLOGY_EPOCH", "StreamsGroup", "StreamsGroupState", "TaskOffsets", "Timer"]

NO_TOPOLOGY_EPOCH = -1


class StreamsGroupState(Enum):
    """Derived from the epochs, the topology and the members."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of the topology are missing, or do not fit it."""
    ASSIGNING = "Assigning"
    """The group has moved on, and its assignment has not."""
    RECONCILING = "Reconciling"
    """Some member does not have what it shall have."""
    STABLE = "Stable"
    DEAD = "Dead"


class Timer(Enum):
    """The reasons for a deadline."""

    SESSION = "the member was silent"
    REBALANCE = "the member did not give up its tasks"
    INITIAL = "members had time to come before the first assignment"


class TaskOffsets(Struct, frozen=True):
    """How far the state of a member's tasks is: (subtopology, partition, offset)."""

    offsets: tuple[tuple[str, int, int], ...] = ()
    end_offsets: tuple[tuple[str, int, int], ...] = ()


NO_OFFSETS = TaskOffsets()


class StreamsGroup(ModernGroup[StreamsMember, Tasks, Timer]):
    """Members, their targets, the topology, and the epochs of all three; the group's own times have the member ""."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, NO_TASKS)
        self.validated_topology_epoch = NO_TOPOLOGY_EPOCH
        """The epoch of the topology for which all topics were found."""
        self.description_epochs = NO_TOPOLOGY_EPOCH, NO_TOPOLOGY_EPOCH
        """Epochs of topologies whose description was stored elsewhere, or failed to be (KIP-1331); kept as they are."""
        self.assignment_configs: dict[str, str] = {}
        """The settings of the last assignment."""
        self.topology: Topology | None = None

        self._active: dict[tuple[str, int], str] = {}
        """By task, the process that runs it."""
        self._standby: Counter[tuple[str, int, str]] = Counter()
        self._warmup: Counter[tuple[str, int, str]] = Counter()

        self.configured: ConfiguredTopology | None = None
        """The topology, held against the topics of the metadata that was looked at last."""
        self.offsets: dict[str, TaskOffsets] = {}
        self.shutdown_by: str | None = None
        """The member that wants all of the application to stop."""
        self.endpoint_epoch = 0

    # ------------------------------------------------------------------ reading

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        return StreamsGroupState.STABLE if self.is_reconciled else StreamsGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_by_source

    @property
    def nobody_has_any(self) -> bool:
        """Whether no member has any task, in whatever way."""
        return not (self._active or self._standby or self._warmup)

    def active_process(self, subtopology: str, index: int) -> str | None:
        """The process of the member that runs this task, or is still to give it up."""
        return self._active.get((subtopology, index))

    def is_standby_of(self, subtopology: str, index: int, process_id: str) -> bool:
        """Whether a member of this process keeps the task as a standby."""
        return self._standby[subtopology, index, process_id] > 0

    def is_warmup_of(self, subtopology: str, index: int, process_id: str) -> bool:
        """Whether a member of this process warms the task up."""
        return self._warmup[subtopology, index, process_id] > 0

    def durable_state(self) -> tuple[object, ...]:
        """The state that follows from the log alone."""
        return (
            (self.epoch, self.metadata_hash, self.validated_topology_epoch, self.description_epochs),
            (dict(self.assignment_configs), self.assignment_epoch, self.assignment_timestamp),
            None if self.topology is None else self.topology.value,
            dict(self.members),
            dict(self.targets),
        )

    # ------------------------------------------------------------------ times

    @property
    def initial_delay_runs(self) -> bool:
        """Whether the first assignment still waits for members."""
        return ("", Timer.INITIAL) in self.times

    # ------------------------------------------------------------------ folding

    def fold_member(self, member: StreamsMember) -> None:
        """A member as it is from now on."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None and before.instance_id is not None:
            self.static_members.pop(before.instance_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if before is not None:
            if (
                before.assigned is member.assigned
                and before.revoking is member.revoking
                and before.process_id == member.process_id
            ):
                return
            self._release(before)
        self._take(member)

    def fold_no_member(self, member_id: str) -> None:
        """It is gone, and what is volatile of it too."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        self.cancel(member_id, *Timer)
        self.slow_epochs.pop(member_id, None)
        self.offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def fold_no_assignment(self, member_id: str) -> None:
        """The member has nothing any more: it is about to go."""
        member = self.members.get(member_id)
        if member is not None:
            gone = replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, state=MemberState.STABLE)
            self.fold_member(replace(gone, assigned=NO_HELD_TASKS, revoking=NO_HELD_TASKS))

    def fold_topology(self, topology: Topology | None) -> None:
        self.topology = topology

    def _take(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in pairs(held.active):
                self._active[task] = member.process_id
            for counter, tasks in self._replicas(held):
                counter.update((*task, member.process_id) for task in pairs(tasks))

    def _release(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for task in pairs(held.active):
                # Another process may have it already: a record of the next owner can come before this one's.
                if self._active.get(task) == member.process_id:
                    del self._active[task]
            for counter, tasks in self._replicas(held):
                for task in pairs(tasks):
                    key = (*task, member.process_id)
                    counter[key] -= 1
                    if counter[key] <= 0:
                        del counter[key]

    def _replicas(
        self, held: HeldTasks
    ) -> Iterator[tuple[Counter[tuple[str, int, str]], Mapping[str, frozenset[int]]]]:
        yield self._standby, held.standby
        yield self._warmup, held.warmup
