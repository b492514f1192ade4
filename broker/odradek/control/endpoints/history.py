"""The newest events as a history, which the page draws."""

from __future__ import annotations

from odradek.control.endpoints.asked import Asked
from odradek.control.history import MOST_MAX, history
from odradek.show.history import History

__all__ = ["show_history"]

MOST = 500
"""A history has so many events, unless it is asked for another number."""
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
    """A number of the query, from 1 on. Raises ValueError for what is none, and for a higher one."""
    if not text.isdecimal() or len(text) > len(str(highest)) or not 1 <= int(text) <= highest:
        raise ValueError(f"{name} is a number from 1 to {highest}, not {text}")
    return int(text)
