"""The group coordinator on a node: its shard, and how its works are done."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.group.coordinator import GroupCoordinator
from odradek.group.work import Work
from odradek.node.hosting.shard import Shard

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.node.node import Node

__all__ = ["GroupShard"]


class GroupShard(Shard[Work]):
    """A coordinator over a partition of `__consumer_offsets`, not loaded yet."""

    def __init__(self, node: Node, partition: Partition) -> None:
        self.machine = GroupCoordinator(node.config, member_suffix=lambda: _random_uuid(node))
        super().__init__(node, partition, self.machine)

    async def perform(self, work: Work) -> None:
        """Go on with a rebalance, or let offsets expire."""
        await self.carry_out(self.machine.perform(work, self.node.now))


def _random_uuid(node: Node) -> str:
    return str(UUID(int=node.random.getrandbits(128), version=4))
