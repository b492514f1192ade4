"""Calls that export the newest events in the formats of other programs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from odradek.cli.usage import UsageError
from odradek.control.endpoints.asked import Asked, File
from odradek.control.history import history
from odradek.control.why import why
from odradek.net.recent import EVENTS_MAX

if TYPE_CHECKING:
    from odradek.show.exports import Form
    from odradek.show.history import History

__all__ = ["export"]

Written: TypeAlias = str | bytes
Maker: TypeAlias = "Callable[[Asked, str | None], Callable[[], Written]]"
"""Reads the cluster in its event loop, and returns a function that writes the format on another thread."""
UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
NAME_MAX = 80


def _history(asked: Asked, transactional_id: str | None) -> History:
    hosted = asked.hosted
    return history(hosted.events, hosted.id, most=EVENTS_MAX, transactional_id=transactional_id)


def _page(asked: Asked, transactional_id: str | None) -> Callable[[], Written]:
    from odradek.page.document import document  # most hubs never export

    hosted = asked.hosted
    data = {
        "histories": [_history(asked, transactional_id)],
        "difference": None,
        "why": why(hosted.running, hosted.events.recent),
        "transaction": transactional_id,
    }
    return lambda: document(msgspec.json.encode(data))


def _events(asked: Asked, transactional_id: str | None) -> Callable[[], Written]:
    if transactional_id is not None:
        raise ValueError("an event file has all events: leave transaction out")
    lines = list(asked.hosted.events.recent.lines())
    return lambda: b"".join(line + b"\n" for line in lines)


def _of(form: Form) -> Maker:
    return lambda asked, tid: partial(form.write, [_history(asked, tid)], tid)


@cache
def _makers() -> Mapping[str, tuple[str, str, Maker]]:
    """Formats by name: ending of the file name, media type, and the function that writes it."""
    from odradek.show.exports import FORMS  # most hubs never export

    return MappingProxyType(
        {
            "html": (".html", "text/html; charset=utf-8", _page),
            "events": (".jsonl", "application/jsonl", _events),
            **{name: (form.ending, form.media_type, _of(form)) for name, form in FORMS.items()},
        }
    )


async def export(asked: Asked) -> File:
    """The events that are kept in another form, as a file: html, events, svg, mermaid, shiviz or perfetto."""
    form, transactional_id = asked.path["form"], asked.query.get("transaction")
    makers = _makers()
    if form not in makers:
        raise LookupError(f"there is no form {form}: there is {', '.join(makers)}")
    ending, media_type, make = makers[form]
    try:
        content = await asyncio.to_thread(make(asked, transactional_id))
    except UsageError as error:
        raise LookupError(str(error)) from None
    words = [asked.hosted.id, *([transactional_id] if transactional_id else [])]
    name = "-".join(UNSAFE.sub("_", word)[:NAME_MAX] for word in words)
    return File(content if isinstance(content, bytes) else content.encode(), media_type, f"{name}{ending}")
