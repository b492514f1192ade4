"""The calls of the hub that end a wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from odradek.control.messages.why import Remedy
from odradek.stuck.words import ago, plain

if TYPE_CHECKING:
    from odradek.control.why.scene import Kept

__all__ = ["advance", "of_broker", "of_kept", "release", "resume_clock"]


def release(rule: str) -> Remedy:
    """Serve the requests that a rule holds."""
    return Remedy(label=f"Release {plain(rule)}", method="POST", path=f"/rules/{quote(rule, safe='')}/release", body={})


def advance(until_ms: int | None, now: int) -> list[Remedy]:
    """Advance the brokers' clock to this time; nothing if there is no such time, or it has passed."""
    if until_ms is None or until_ms <= now:
        return []
    wait = until_ms - now
    label = f"Advance the clock by {ago(wait)}"
    return [Remedy(label=label, method="POST", path="/time", body={"advance_ms": wait})]


def of_broker(broker: int, deed: str) -> Remedy:
    """Start or resume a broker."""
    return Remedy(
        label=f"{deed.capitalize()} broker {broker}", method="POST", path=f"/brokers/{broker}/{deed}", body={}
    )


def resume_clock() -> Remedy:
    return Remedy(label="Resume the clock", method="POST", path="/time", body={"resume": True})


def of_kept(kept: Iterable[Kept], now: int) -> list[Remedy]:
    """The calls that release requests from rules, each call once."""
    return list({(each.path, each.label): each for each in _of_kept(kept, now)}.values())


def _of_kept(kept: Iterable[Kept], now: int) -> Iterator[Remedy]:
    for each in kept:
        if each.how == "held":
            yield release(each.armed.name)
        elif each.how == "delayed":
            yield from advance(each.until_ms, now)
