"""Calls that list events, also as a history, and that wait for conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.control.conditions import wait_for
from odradek.control.endpoints.asked import Asked
from odradek.control.event_kinds import check_kind
from odradek.control.events import event_body
from odradek.control.history import MOST_MAX, history
from odradek.control.messages.events import Came, EventBody, EventsPage
from odradek.show.history import History

__all__ = ["kinds_of", "list_events", "list_lines", "seq_of", "show_history", "wait"]

DIGITS_MAX = 18
PART = 100


async def wait(asked: Asked) -> Came:
    """Wait until the conditions hold; 408 has the nearest state."""
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
    """Bodies take a while to format, so the brokers get their turns meanwhile."""
    if count % PART == 0:
        await asyncio.sleep(0)


def seq_of(text: str) -> int:
    """The number of an event. Raises ValueError for any other text, and for one with too many digits."""
    if not text.isdecimal() or len(text) > DIGITS_MAX:
        raise ValueError(f"after is the number of an event, not {text}")
    return int(text)


def kinds_of(query: Mapping[str, str]) -> frozenset[str]:
    """The kinds of events in the query; none means all. Raises ValueError for an unknown one."""
    return frozenset(check_kind(kind) for kind in query.get("kind", "").split(",") if kind)


MOST = 500
"""The number of events in a history, unless another one is given."""
SEQ_MAX = 10**18


async def show_history(asked: Asked) -> History:
    """The newest events as a history: lanes, and steps between them. Its note says what is left out."""
    query, hosted = asked.query, asked.hosted
    return history(
        hosted.events,
        hosted.id,
        most=_number("most", query.get("most", str(MOST)), MOST_MAX),
        transactional_id=query.get("transaction"),
        before=_number("before", query["before"], SEQ_MAX) if "before" in query else None,
    )


def _number(name: str, text: str, highest: int) -> int:
    """A number in the query, from 1 on. Raises ValueError for any other text, and for a number above the limit."""
    if not text.isdecimal() or len(text) > len(str(highest)) or not 1 <= int(text) <= highest:
        raise ValueError(f"{name} is a number from 1 to {highest}, not {text}")
    return int(text)
