"""Promises of a group to its members: rebalances end in time, and committed offsets are not lost (KIP-62)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest

__all__ = ["WORK_MS", "offset_problems", "rebalance_problems"]

WORK_MS = 500
"""Extra time for brokers and the network."""


def rebalance_problems(asked: Sequence[Asked], *, until: int) -> Iterator[Problem]:
    """A rebalance ends at its timeout, even if members have not rejoined. For runs in which no broker stands still.

    After `until` clients do not take answers at once, so later ones are not judged.
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


def offset_problems(asked: Sequence[Asked], group_id: str) -> Iterator[Problem]:
    """The committed offset of a group that only moves forward never goes back, also when its coordinator moves."""
    known = -1
    under_way: list[tuple[int, int]] = []
    """(Virtual ms, offset) of answers that came after later requests were sent."""
    for each in asked:
        request = each.request
        if not isinstance(request, OffsetFetchRequest) or request.group_id != group_id:
            continue
        while under_way and under_way[0][0] < each.at:
            known = max(known, heappop(under_way)[1])
        offset = _told(each)
        if offset is None or each.ended_at is None:
            continue
        if offset < known:
            seen = f"{each.name} was told that {group_id} is at {offset} after it was at {known}"
            yield Problem("wrong group offset", seen)
        heappush(under_way, (each.ended_at, offset))


def _told(asked: Asked) -> int | None:
    """The offset in a response; None if it has an error."""
    if asked.response is None or asked.response.error_code != ErrorCode.NONE:
        return None
    [partition] = asked.response.topics[0].partitions
    offset: int = partition.committed_offset
    return offset if partition.error_code == ErrorCode.NONE else None
