"""Waiting for states that are described as data, as in the hub's `wait` (docs/hub.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from odradek.control.conditions import ClusterGone, TookTooLong, wait_for
from odradek.control.messages.events import WaitBody
from odradek.control.plan import PlanError, converted
from odradek.testing.witness import RUNNING

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster

__all__ = ["wait"]

__tracebackhide__ = True
__unittest = True
"""A timeout is reported in one sentence: pytest and unittest leave these frames out of tracebacks."""
TIMEOUT_MAX_S = 600
SENTENCES = (LookupError, ValueError, RuntimeError)
"""The exceptions of `wait_for` itself; a subclass of them is a bug, and keeps its traceback."""

Condition = Mapping[str, object]


def wait(cluster: RunningCluster, timeout_s: float, **conditions: Condition | None) -> list[object]:
    """The states found, in the order of the conditions, as soon as all hold; raises as `Cluster.wait` does."""
    asked = {name: dict(each) for name, each in conditions.items() if each is not None}
    if not asked:
        # The hub can also wait for an event.
        *others, last = (f"a {name}" if name != "telemetry" else name for name in conditions)
        raise ValueError(f"There is nothing to wait for: name {', '.join(others)} or {last}.")
    if not 0 <= timeout_s <= TIMEOUT_MAX_S:  # nor is a value that is no number
        raise ValueError(f"A wait takes 0 to {TIMEOUT_MAX_S} seconds, not {timeout_s:g}.")
    try:
        body = converted({**asked, "timeout_ms": round(timeout_s * 1000)}, WaitBody)
    except PlanError as error:
        raise ValueError(f"This cannot be waited for: {error.path.removeprefix('$.')}: {error.sentence}") from None
    # Events cannot be awaited here: they are about states that may be over.
    waiting = wait_for(body, cluster, None, RUNNING.get(cluster))
    try:
        came = asyncio.run_coroutine_threadsafe(waiting, cluster.loop).result()
    except TookTooLong as error:
        raise TimeoutError(str(error)) from None
    except (CancelledError, ClusterGone):
        raise RuntimeError("the cluster was left while somebody waited") from None
    except SENTENCES as error:
        if type(error) in SENTENCES:
            error.__traceback__ = None
        raise
    return came.found
