"""Names by which the parts of a node were reached before they were parts; for what has not been converted yet."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from odradek.log.machine import Fact, Refused

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.log.replica import Replica
    from odradek.node.facts import Facts
    from odradek.node.hosting.replicas import Replicas
    from odradek.node.kernel.flow import Kernel
    from odradek.node.transport.peers import HasPeers
    from odradek.wire.registry import ApiKey

R = TypeVar("R", bound=Struct)


class OldNames:
    """Passes each on to the part that has it now."""

    replicas: Replicas
    facts: Facts
    kernel: Kernel

    def partition(self, topic: str, index: int) -> Partition | Refused:
        return self.replicas.led(topic, index)

    def partition_in(self, topic: str, index: int, leader_epoch: int) -> Partition | Refused:
        return self.replicas.led_in(topic, index, leader_epoch)

    def replica(self, topic: str, index: int) -> Replica | Refused:
        return self.replicas.held(topic, index)

    def appended(self, partition: Partition) -> None:
        self.replicas.appended(partition)

    def emit(self, facts: Sequence[Fact]) -> None:
        self.facts.emit(facts)

    def sleep(self, milliseconds: int) -> Any:
        return self.kernel.sleep(milliseconds)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.kernel.spawn(coroutine)

    async def controller_call(
        self: HasPeers, api_key: ApiKey, request: Struct, version: int, answer: type[R]
    ) -> R | None:
        return await self.peers.call_controller(api_key, request, version, answer)
