"""A stub of a hub whose cluster `kitchen` has a ring of events."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.page.browser import StubHub
from tests.page.histories import long

from odradek.show.history import History, Step

__all__ = ["CLUSTER", "Ring"]

CLUSTER = "kitchen"
WORK = long(3_000)
"""What happens in it, again and again."""


class Ring:
    """So many events have happened; `per_ask` more happen before each question for the newest."""

    def __init__(self, events: int = 5_210, *, per_ask: int = 0, clusters: tuple[str, ...] = (CLUSTER,)) -> None:
        self.events = events
        self.clusters = clusters
        self._per_ask = per_ask
        self.hub = StubHub(self.answer)

    @property
    def asked(self) -> list[dict[str, str]]:
        """The questions for a history."""
        return [query for _, path, query, _ in self.hub.asked if path.endswith("/history")]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> object:
        """What the hub answers."""
        if path == "clusters":
            return [{"id": each} for each in self.clusters]
        if method == "GET" and path.endswith("/history"):
            return self.window(**query)
        return 404, {"detail": f"There is no {path}."}

    def window(self, most: str, before: str | None = None, transaction: str | None = None) -> History:
        """The newest events below a number, of a transactional id where one is asked for."""
        if before is None:
            self.events += self._per_ask
        last = self.events if before is None else min(self.events, int(before) - 1)
        found: list[Step] = []
        while last > 0 and len(found) < int(most):
            step = self._step(last)
            if transaction in (None, step.transactional_id):
                found.append(step)
            last -= 1
        steps = found[::-1]
        start = steps[0].at_ms if steps else 0.0
        return replace(
            WORK,
            title=CLUSTER,
            steps=tuple(replace(step, at_ms=step.at_ms - start) for step in steps),
            transactions=tuple(dict.fromkeys(step.transactional_id or "" for step in steps)),
            events=len(steps),
            start_ms=1_795_600_000_000.0 + start,
            left_out=self.events - len(steps),
            note=f"These are the newest {len(steps)} of {self.events} events.",
        )

    @staticmethod
    def _step(seq: int) -> Step:
        rounds, at = divmod(seq - 1, len(WORK.steps))
        step = WORK.steps[at]
        shift = rounds * len(WORK.steps)
        return replace(
            step,
            seq=seq,
            at_ms=step.at_ms + rounds * (WORK.steps[-1].at_ms + 1),
            answer_to=None if step.answer_to is None else step.answer_to + shift,
        )
