"""What is promised to those that write: a replica that lags holds nobody up for longer than was agreed (KIP-16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked
from odradek.wire.messages.produce_request import ProduceRequest

__all__ = ["LAG_MAX_MS", "write_problems"]

LAG_MAX_MS = 700
"""As long as a replica may lack something and be in sync."""
WORK_MS = 400
"""What brokers and the network may take besides."""


def write_problems(asked: Sequence[Asked], *, until: int) -> Iterator[Problem]:
    """Where nothing but replicas is slow, a batch waits for those of its coordinator and for its own, and no longer.

    After `until` nobody looks at answers as soon as they are there.
    """
    for each in asked:
        if not isinstance(each.request, ProduceRequest) or each.ended_at is None or each.ended_at > until:
            continue
        took_ms = each.ended_at - each.at
        if took_ms > 2 * LAG_MAX_MS + WORK_MS:
            yield Problem("slow write", f"{each.name} sent a batch to broker {each.node_id}, and waited {took_ms} ms")
