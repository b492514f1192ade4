"""Events are told, and what comes is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.control.conditions import wait_for
from odradek.control.endpoints.asked import Asked
from odradek.control.event_kinds import check_kind
from odradek.control.events import event_body
from odradek.control.messages.events import Came, EventBody, EventsPage

__all__ = ["kinds_of", "list_events", "list_lines", "seq_of", "wait"]

DIGITS_MAX = 18
PART = 100


async def wait(asked: Asked) -> Came:
    """Wait until something is so; 408 says what came nearest."""
    hosted = asked.hosted
    return await wait_for(asked.body, hosted.running, hosted.events)


async def list_events(asked: Asked) -> EventsPage:
    """The events that are kept, or with `follow` a stream of server-sent events."""
    ring = asked.hosted.events
    after = seq_of(asked.query.get("after", "0"))
    kinds = kinds_of(asked.query)
    last, lost = ring.last, max(0, ring.first - 1 - after)
    events: list[EventBody] = []
    for event in ring.after(after):
        if not kinds or event.fact.kind in kinds:
            events.append(event_body(event))
            await _give_way(len(events))
    return EventsPage(events=events, last=last, lost=lost)


async def list_lines(asked: Asked) -> list[str]:
    """The events that are kept, as the lines of an event file: what `odradek serve --events --event-bodies` writes."""
    lines: list[str] = []
    for line in asked.hosted.events.recent.lines():
        lines.append(line.decode())
        await _give_way(len(lines))
    return lines


async def _give_way(count: int) -> None:
    """Bodies take a while to make readable: the brokers have their turns meanwhile."""
    if count % PART == 0:
        await asyncio.sleep(0)


def seq_of(text: str) -> int:
    """The number of an event. Raises ValueError for what is none, or has more digits than any will have."""
    if not text.isdecimal() or len(text) > DIGITS_MAX:
        raise ValueError(f"after is the number of an event, not {text}")
    return int(text)


def kinds_of(query: Mapping[str, str]) -> frozenset[str]:
    """The kinds of events that are asked for; none means all. Raises ValueError for one that there is not."""
    return frozenset(check_kind(kind) for kind in query.get("kind", "").split(",") if kind)
