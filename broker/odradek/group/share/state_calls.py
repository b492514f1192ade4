"""What a group coordinator has the share coordinator do: begin with the partitions of a group, and forget them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.core.machine import Answered, Refused
from odradek.share.asking import AsksShares
from odradek.share.shard import delete_state, initialize_state
from odradek.share.state import ShareKey

if TYPE_CHECKING:
    from odradek.core.machine import Decision
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.share.states import ShareStates

__all__ = ["begin_states", "delete_states", "initialize_shares"]

T = TypeVar("T")
ASKED_AT_ONCE = 20
"""How many partitions the share coordinator is asked about before others may go on."""
Failures = dict[tuple[bytes, int], Refused]


class Sharing(Protocol):
    """A group coordinator, as it is asked about its share groups."""

    resigned: bool

    @property
    def node(self) -> AsksShares: ...
    @property
    def machine(self) -> GroupCoordinator: ...
    async def decided(self, decision: Decision[T]) -> T | Refused: ...


async def initialize_shares(shard: Sharing, group_id: str) -> None:
    """Tell the share coordinator of the partitions that a group has come to read."""
    # What the group is to begin with may not be committed yet.
    share = shard.machine.share
    states = await shard.decided(Answered(share.initializing(group_id)))
    if states is not None and not isinstance(states, Refused):
        await begin_states(shard, states)


async def begin_states(shard: Sharing, states: ShareStates) -> Failures:
    """Have the share coordinator begin with these partitions, and the group know of it; what failed, and why."""
    failures: Failures = {}
    done: dict[bytes, set[int]] = defaultdict(set)
    failed: dict[bytes, set[int]] = defaultdict(set)
    count = 0
    for topic_id, offsets in states.offsets.items():
        for index, offset in offsets.items():
            key = ShareKey(states.group_id, topic_id, index)
            count += 1
            if not count % ASKED_AT_ONCE:
                await shard.node.turns.breathe_behind()
            refused = await initialize_state(shard.node, key, states.state_epoch, offset)
            if refused is None:
                done[topic_id].add(index)
            else:
                failures[topic_id, index] = refused
                failed[topic_id].add(index)
    if not shard.resigned and (done or failed):
        ready = {topic_id: frozenset(indexes) for topic_id, indexes in done.items()}
        lost = {topic_id: frozenset(indexes) for topic_id, indexes in failed.items()}
        share = shard.machine.share
        await shard.decided(share.initialized(states.group_id, ready, lost))
    return failures


async def delete_states(node: AsksShares, states: ShareStates) -> Failures:
    """Have the share coordinator forget these partitions; what failed, and why."""
    failures: Failures = {}
    count = 0
    for topic_id, offsets in states.offsets.items():
        for index in offsets:
            count += 1
            if not count % ASKED_AT_ONCE:
                await node.turns.breathe_behind()
            refused = await delete_state(node, ShareKey(states.group_id, topic_id, index))
            if refused is not None:
                failures[topic_id, index] = refused
    return failures
