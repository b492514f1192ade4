"""Calls of a group coordinator to share coordinators: initialize and delete the states of a group."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.share.state import ShareKey

if TYPE_CHECKING:
    from odradek.core.turns import Turns
    from odradek.group.share.states import ShareStates
    from odradek.share.state_client import ShareStateClient

__all__ = ["Failures", "begin_states", "delete_states"]

ASKED_AT_ONCE = 20
"""Number of calls to share coordinators before other requests get a turn."""
Failures = dict[tuple[bytes, int], Refused]


class Begun(Struct, frozen=True):
    """The initialized partitions by topic id, and the failures."""

    ready: dict[bytes, frozenset[int]]
    lost: dict[bytes, frozenset[int]]
    failures: Failures


async def begin_states(client: ShareStateClient, turns: Turns, states: ShareStates) -> Begun:
    """Initialize the states of these partitions."""
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
    ready = {topic_id: frozenset(indexes) for topic_id, indexes in done.items()}
    lost = {topic_id: frozenset(indexes) for topic_id, indexes in failed.items()}
    return Begun(ready, lost, failures)


async def delete_states(client: ShareStateClient, turns: Turns, states: ShareStates) -> Failures:
    """Delete the states of these partitions; returns the failures."""
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
