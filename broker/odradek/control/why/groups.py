"""Groups that are rebalancing."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.control.messages.why import Reason
from odradek.control.why.remedies import advance
from odradek.control.why.scene import Scene
from odradek.core.wording import counted
from odradek.stuck.words import in_time, listed, plain

__all__ = ["restless_groups"]

RESTING = frozenset({"Stable", "Empty", "Dead"})


def restless_groups(scene: Scene) -> Iterator[Reason]:
    """Every group that is between two assignments, by name."""
    found = [
        (group.group_id, group.group_state, node.node_id, shard.machine)
        for node in scene.nodes.values()
        for shard in node.group_coordinators.led()
        for group in shard.machine.listed((), ())
        if group.group_state not in RESTING
    ]
    for group_id, state, broker, machine in sorted(found, key=lambda each: each[0]):
        members = len(machine.members_of(group_id))
        missing, until = machine.awaited(group_id)
        size = counted(members, "member")
        ends = f"it waits for {listed(missing)}" if missing else "nobody is missing"
        if until is not None:
            ends += f", and goes on without {'it' if len(missing) == 1 else 'them'} {in_time(until, scene.now)}"
        yield Reason(
            about="group",
            name=group_id,
            sentence=f"Group {plain(group_id)} is {state} with {size} at broker {broker}: {ends}.",
            stuck=True,
            since_ms=None,
            held_by=[],
            ends=ends,
            remedies=advance(until, scene.now),
        )
