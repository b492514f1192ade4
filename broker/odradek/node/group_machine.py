"""The group coordinator on a node: its shard, and how its works are done."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from odradek.group.coordinator import GroupCoordinator
from odradek.node.shards import Shard

if TYPE_CHECKING:
    from odradek.group.coordinator import Work
    from odradek.log.partition import Partition
    from odradek.node.node import Node

__all__ = ["begin"]


def begin(node: Node, partition: Partition) -> Shard[GroupCoordinator]:
    """A shard over a partition of `__consumer_offsets`, not loaded yet."""
    machine = GroupCoordinator(node.config, member_suffix=lambda: _random_uuid(node))
    return Shard(node, partition, machine, _perform)


async def _perform(shard: Shard[GroupCoordinator], work: Work) -> None:
    await shard.ask(shard.machine.perform, work, shard.node.now)


def _random_uuid(node: Node) -> str:
    return str(UUID(int=node.random.getrandbits(128), version=4))
