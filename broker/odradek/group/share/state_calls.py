"""Calls of a group coordinator to share coordinators: initialize and delete the state of a group's partitions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.core.machine import Answered, Refused
from odradek.share.state import ShareKey

if TYPE_CHECKING:
    from odradek.core.machine import Decision
    from odradek.core.turns import Turns
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.share.states import ShareStates
    from odradek.share.state_client import ShareStateClient

__all__ = ["begin_states", "delete_states", "initialize_shares"]

T = TypeVar("T")
ASKED_AT_ONCE = 20
"""Number of calls to the share coordinator before other requests get a turn."""
Failures = dict[tuple[bytes, int], Refused]


class Sharing(Protocol):
    """The part of a group coordinator that is used here."""

    resigned: bool

    @property
    def machine(self) -> GroupCoordinator: ...
    async def decided(self, decision: Decision[T]) -> T | Refused: ...


async def initialize_shares(shard: Sharing, client: ShareStateClient, turns: Turns, group_id: str) -> None:
    """Initialize the partitions that a group has begun to read."""
    # The record with these partitions may not be committed yet.
    share = shard.machine.share
    states = await shard.decided(Answered(share.initializing(group_id)))
    if states is not None and not isinstance(states, Refused):
        await begin_states(shard, client, turns, states)


async def begin_states(shard: Sharing, client: ShareStateClient, turns: Turns, states: ShareStates) -> Failures:
    """Initialize the state of these partitions, and note it in the group; returns the failures."""
    failures: Failures = {}
    done: dict[bytes, set[int]] = defaultdict(set)
    failed: dict[bytes, set[int]] = defaultdict(set)
    count = 0
    for topic_id, offsets in states.offsets.items():
        for index, offset in offsets.items():
            key = ShareKey(states.group_id, topic_id, index)
            count += 1
            if not count % ASKED_AT_ONCE:
                await turns.breathe_behind()
            refused = await client.initialize(key, states.state_epoch, offset)
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


async def delete_states(client: ShareStateClient, turns: Turns, states: ShareStates) -> Failures:
    """Delete the state of these partitions; returns the failures."""
    failures: Failures = {}
    count = 0
    for topic_id, offsets in states.offsets.items():
        for index in offsets:
            count += 1
            if not count % ASKED_AT_ONCE:
                await turns.breathe_behind()
            refused = await client.delete(ShareKey(states.group_id, topic_id, index))
            if refused is not None:
                failures[topic_id, index] = refused
    return failures
