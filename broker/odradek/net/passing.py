"""Time that passes for the brokers of a cluster because a test advances it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.net.clock import Clock
    from odradek.net.driver import Driver
    from odradek.net.post import Post

__all__ = ["pass_time"]

STEPS_MAX = 200
"""A week has 600,000 checks for idle connections: checks closer together than this share of the time happen at once."""


def pass_time(clock: Clock, drivers: Collection[Driver], post: Post, milliseconds: int) -> None:
    """Let this much time pass, from one due work to the next, each at its own time.

    Messages between brokers arrive before the next work; input from clients is handled afterwards. Raises ValueError
    below 0, or for too much time; then no time has passed.
    """
    clock.check(milliseconds)
    grain_ms = max(1, milliseconds // STEPS_MAX)
    left_ms = milliseconds
    post.deliver_all()
    while left_ms > 0:
        due = min((at for driver in drivers if (at := driver.wake_at()) is not None), default=None)
        step_ms = left_ms if due is None else min(left_ms, max(due - clock.now(), grain_ms))
        clock.advance(step_ms)
        left_ms -= step_ms
        for driver in drivers:
            driver.tick_if_due()
        post.deliver_all()
    for driver in drivers:
        driver.time_changed()
    post.deliver_all()
