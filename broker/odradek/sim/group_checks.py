"""What a group has promised to its members: nobody holds the others up for longer than was agreed (KIP-62)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.sim.actors import Asked
from odradek.sim.promises import Problem
from odradek.wire.messages.join_group_request import JoinGroupRequest

__all__ = ["WORK_MS", "rebalance_problems"]

WORK_MS = 500
"""What a broker and the network may take besides."""


def rebalance_problems(asked: Sequence[Asked], *, until: int) -> Iterator[Problem]:
    """A rebalance ends when its timeout is over, whoever has not joined again; brokers do not stand still.

    After `until` nobody looks at answers as soon as they are there.
    """
    for each in asked:
        request = each.request
        if not isinstance(request, JoinGroupRequest) or each.response is None or each.ended_at is None:
            continue
        if each.ended_at > until:
            continue
        took_ms = each.ended_at - each.at
        if took_ms > request.rebalance_timeout_ms + WORK_MS:
            seen = f"{each.name} joined {request.group_id}, and was answered after {took_ms} ms"
            yield Problem("slow rebalance", seen)
