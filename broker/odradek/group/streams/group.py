"""A streams group: a fold over its records, and what is volatile beside them.

Offsets of tasks, endpoints and the wish to shut down are volatile, as in Kafka: the next coordinator begins without
them.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.group.modern import ModernGroup, Timer
from odradek.group.modern_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from odradek.group.streams.member import StreamsMember
from odradek.group.streams.tasks import NO_HELD_TASKS, NO_TASKS, HeldTasks, Tasks, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from odradek.group.streams.configured import ConfiguredTopology
    from odradek.group.streams.topology import Topology
    from odradek.wire.messages.streams_group_metadata_value import StreamsGroupMetadataValue
    from odradek.wire.messages.streams_group_topology_value import StreamsGroupTopologyValue

__all__ = ["NO_OFFSETS", "NO_TOPOLOGY_EPOCH", "StreamsGroup", "StreamsGroupState", "TaskOffsets"]

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


class TaskOffsets(Struct, frozen=True):
    """How far the state of a member's tasks is: (subtopology, partition, offset)."""

    offsets: tuple[tuple[str, int, int], ...] = ()
    end_offsets: tuple[tuple[str, int, int], ...] = ()


NO_OFFSETS = TaskOffsets()


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """Members, their targets, the topology, and the epochs of all three."""

    kind = "streams"
    nothing = MappingProxyType({"assigned": NO_HELD_TASKS, "revoking": NO_HELD_TASKS})
    one_instance = True

    def __init__(self, group_id: str) -> None:
        from odradek.group.streams.records import RECORDS  # few clusters have any

        super().__init__(group_id, RECORDS, NO_TASKS)
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

    def away(self, member: StreamsMember) -> StreamsMember:
        """A static member that goes for a while; the one in its place may commit for its tasks from epoch 0 on."""
        active = {name: dict.fromkeys(epochs, JOINING_EPOCH) for name, epochs in member.assigned.active.items()}
        assigned = HeldTasks(active, member.assigned.standby, member.assigned.warmup)
        return replace(member, epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking=NO_HELD_TASKS)

    def assignment_epoch_of(self, member_id: str, topic: str, topic_id: bytes, index: int) -> int | None:
        """Since which epoch a member has run the task that reads this partition; None if it does not."""
        subtopology = None if self.topology is None else self.topology.subtopology_by_source.get(topic)
        return None if subtopology is None else self.members[member_id].assignment_epoch_of(subtopology, index)

    def durable_state(self) -> tuple[object, ...]:
        """The state that follows from the log alone."""
        topology = None if self.topology is None else self.topology.value
        epochs = self.validated_topology_epoch, self.description_epochs
        return *super().durable_state(), epochs, dict(self.assignment_configs), topology

    @property
    def initial_delay_runs(self) -> bool:
        """Whether the first assignment still waits for members."""
        return ("", Timer.INITIAL) in self.times

    def _replaced(self, before: StreamsMember | None, after: StreamsMember | None) -> None:
        if after is None and before is not None:
            self.offsets.pop(before.member_id, None)
            if not self.members:
                self.shutdown_by = None
        if (
            before
            and after
            and before.assigned is after.assigned
            and before.revoking is after.revoking
            and before.process_id == after.process_id
        ):
            return
        if before is not None:
            self._release(before)
        if after is not None:
            self._take(after)

    @property
    def _folds(self) -> Mapping[str, Callable[..., None]]:
        return {"Topology": self._fold_topology}

    def _fold_topology(self, value: StreamsGroupTopologyValue | None, _: str) -> None:
        from odradek.group.streams.topology import Topology  # few clusters have any

        self.topology = None if value is None else Topology(value)

    def _fold_metadata(self, value: Struct) -> None:
        super()._fold_metadata(value)
        metadata = cast("StreamsGroupMetadataValue", value)
        self.validated_topology_epoch = metadata.validated_topology_epoch
        self.assignment_configs = {each.key: each.value for each in metadata.last_assignment_configs or ()}
        self.description_epochs = metadata.stored_description_topology_epoch, metadata.failed_description_topology_epoch

    def epoch_record(
        self, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
    ) -> LogRecord:
        """The group has moved on to this epoch; `configs` are the settings of its assignment."""
        from odradek.wire.messages.streams_group_metadata_value import LastAssignmentConfig  # few clusters have any

        stored, failed = self.description_epochs
        return self.records.epoch_record(
            self.group_id,
            epoch,
            metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[LastAssignmentConfig(key, value) for key, value in configs.items()],
            stored_description_topology_epoch=stored,
            failed_description_topology_epoch=failed,
        )

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
