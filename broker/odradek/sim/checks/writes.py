"""Promises to producers: a lagging replica delays a write for replica.lag.time.max.ms at most (KIP-16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked
from odradek.wire.messages.produce_request import ProduceRequest

__all__ = ["LAG_MAX_MS", "write_problems"]

LAG_MAX_MS = 700
"""replica.lag.time.max.ms: how long an in-sync replica may lag."""
WORK_MS = 400
"""Extra time for brokers and the network."""


def write_problems(asked: Sequence[Asked], *, until: int) -> Iterator[Problem]:
    """If only replicas are slow, a batch waits for those of its coordinator and its own until they are out of sync.

    After `until` clients do not take answers at once, so later ones are not judged.
    """
    for each in asked:
        if not isinstance(each.request, ProduceRequest) or each.ended_at is None or each.ended_at > until:
            continue
        took_ms = each.ended_at - each.at
        if took_ms > 2 * LAG_MAX_MS + WORK_MS:
            yield Problem("slow write", f"{each.name} sent a batch to broker {each.node_id}, and waited {took_ms} ms")
