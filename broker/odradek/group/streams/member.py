"""One member of a streams group, as the log has it: a thread of a Kafka Streams application."""

from __future__ import annotations

from msgspec import Struct

from odradek.group.modern_member import ModernMember
from odradek.group.streams.tasks import NO_HELD_TASKS, HeldTasks

__all__ = ["Endpoint", "StreamsMember"]


class Endpoint(Struct, frozen=True):
    """Where the stores of a process can be asked (`application.server`)."""

    host: str
    port: int


class StreamsMember(ModernMember, frozen=True):
    """Its identity, its process, and its tasks."""

    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Sorted by key."""
    assigned: HeldTasks = NO_HELD_TASKS
    revoking: HeldTasks = NO_HELD_TASKS
    """The tasks that it has been asked to give up."""

    def assignment_epoch_of(self, subtopology: str, index: int) -> int | None:
        """Since which epoch it has had this active task; None if it has not."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology, {}).get(index)
            if epoch is not None:
                return epoch
        return None
