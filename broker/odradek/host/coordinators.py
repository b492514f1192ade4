"""The coordinators of this broker: one for each partition of an internal topic that it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.core.internal_topics import CoordinatorKind
from odradek.core.machine import Refused
from odradek.host.shard import Coordinator, CoordinatorsOf

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.log.partition import Partition

__all__ = ["Coordinators"]

C = TypeVar("C", bound=Coordinator)


class Coordinators:
    """The coordinators of all kinds, by the topic of their logs, and by partition."""

    def __init__(self, node: Host) -> None:
        self._node = node
        self._by_topic: dict[str, CoordinatorsOf[Coordinator]] = {}
        self.wake: Callable[[str, int], Partition | None] = _nothing
        """Called with a partition that is not led, in case that it is to be led from its first use on."""
        self.load_ms = 0
        """How long a coordinator takes to load (ms); tests raise it."""

    def of_kind(
        self, kind: CoordinatorKind, make: Callable[[Partition], C], nameless: Refused | None = None
    ) -> CoordinatorsOf[C]:
        """The coordinators of one kind; `make` imports their machine, and makes one over a partition."""
        made = CoordinatorsOf(kind.topic, self._node, make, self._load, self._wake, nameless)
        self._by_topic[kind.topic] = made
        return made

    def at(self, topic: str, index: int) -> Coordinator | None:
        """The coordinator over this partition, if there is one."""
        of_topic = self._by_topic.get(topic)
        return None if of_topic is None else of_topic.at(index)

    def all(self) -> list[Coordinator]:
        """Every coordinator, also those that are loading."""
        return [each for of_topic in self._by_topic.values() for each in of_topic.all()]

    def begin(self, partition: Partition) -> None:
        """Make the coordinator over a partition of an internal topic, and have it replay its log.

        It answers COORDINATOR_LOAD_IN_PROGRESS until then.
        """
        self._by_topic[partition.topic].begin(partition)

    def end(self, topic: str, index: int) -> None:
        """Remove the coordinator of a partition that this broker no longer leads."""
        of_topic = self._by_topic.get(topic)
        if of_topic is not None:
            of_topic.end(index)

    def _wake(self, topic: str, index: int) -> Partition | None:
        return self.wake(topic, index)

    def _load(self, coordinator: Coordinator) -> None:
        if self.load_ms:
            self._node.kernel.spawn(self._load_later(coordinator))
        else:
            coordinator.load()

    async def _load_later(self, coordinator: Coordinator) -> None:
        await self._node.kernel.sleep(self.load_ms)
        if not coordinator.resigned:
            coordinator.load()


def _nothing(topic: str, index: int) -> Partition | None:
    return None
