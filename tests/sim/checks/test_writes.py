"""A replica that lags holds a write up until it is out of sync; the controller's ISR has what is committed."""

from __future__ import annotations

import pytest
from msgspec import Struct

from odradek.sim.checks.writes import LAG_MAX_MS, WORK_MS, write_problems
from odradek.sim.model.promises import Violation
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Deed, Player, Schedule, Send, Txn
from odradek.sim.workloads.draw import draw
from odradek.sim.world.actors import Asked
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.produce_request import ProduceRequest

LONGEST_MS = 2 * LAG_MAX_MS + WORK_MS
CALM_MS = 10_000


def waited(took_ms: int, request: Struct | None = None, *, until: int = CALM_MS) -> list[str]:
    asked = Asked("p0", 100, 1, request or ProduceRequest(), 11, 100 + took_ms)
    return [each.name for each in write_problems([asked], until=until)]


def test_a_write_waits_for_its_coordinators_replicas_and_for_its_own() -> None:
    assert waited(LONGEST_MS) == []
    assert waited(LONGEST_MS + 1) == ["slow write"]
    assert waited(LONGEST_MS + 1, until=500) == []
    assert waited(LONGEST_MS + 1, HeartbeatRequest()) == []


@pytest.mark.slow
def test_writes_go_on_while_a_replica_is_silent() -> None:
    run = Run(draw(3, "silent-replicas"))
    run.play()
    took = [each.ended_at - each.at for each in run.asked if each.ended_at and isinstance(each.request, ProduceRequest)]
    assert LAG_MAX_MS <= max(took) <= LONGEST_MS


def test_a_replica_that_is_in_sync_and_lacks_what_is_committed_is_told() -> None:
    player = Player(name="p0", transactional_id="a", transactions=(Txn(sends=(Send(partition=0),)),))
    run = Run(Schedule(seed=1, players=(player,), deeds=(Deed(at_ms=0, kind="silence a replica"),), duration_ms=50))
    world = run.world
    leader = next(node for node in world.nodes.values() if ("t", 0) in node.partitions)
    partition = leader.partitions["t", 0]
    [other, *_] = [each for each in world.nodes if each != leader.node_id]
    world.set_replica_lag(other, 50)
    world.stepped.add(leader.node_id)
    run._watch(reads=True)
    partition.followers.in_sync = (leader.node_id,)
    world.stepped.add(leader.node_id)
    with pytest.raises(Violation, match="uncounted replica"):
        run._watch(reads=True)
    partition.followers.joining = frozenset(world.nodes) - {leader.node_id}
    world.stepped.add(leader.node_id)
    run._watch(reads=True)
    partition.log.behind[other] -= 1
    world.stepped.add(leader.node_id)
    with pytest.raises(Violation, match="uncounted replica"):
        run._watch(reads=True)
