"""One member of a streams group, as the log has it: a thread of a Kafka Streams application."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from odradek.group.modern import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from odradek.group.streams.tasks import NO_HELD_TASKS, HeldTasks

__all__ = [
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "Endpoint",
    "MemberState",
    "StreamsMember",
]


class MemberState(IntEnum):
    """How far a member is from its target, numbered as in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It has been asked to give up tasks, and has not said that it has."""
    UNRELEASED_TASKS = 3
    """Others have not given up what it shall have."""
    UNKNOWN = 127


class Endpoint(Struct, frozen=True):
    """Where the stores of a process can be asked (`application.server`)."""

    host: str
    port: int


class StreamsMember(Struct, frozen=True):
    """Its identity, its process, and its tasks."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Sorted by key."""
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    revoking: HeldTasks = NO_HELD_TASKS
    """The partitions or tasks that it has been asked to give up."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch_of(self, subtopology: str, index: int) -> int | None:
        """Since which epoch it has had this active task; None if it has not."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology, {}).get(index)
            if epoch is not None:
                return epoch
        return None
