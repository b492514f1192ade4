"""The tables that runs are drawn from: frequencies of faults, and habits of clients."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from random import Random
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from odradek.sim.schedules.faults import RULES
from odradek.sim.schedules.schedule import KINDS
from odradek.sim.workloads.habits import Habits

__all__ = ["Focus", "focus"]


class Focus(Struct, frozen=True):
    """The tables that a run draws from."""

    weights: Mapping[str, int]
    """Relative frequency of each deed or rule, by name."""
    levels: tuple[tuple[int, ...], ...] = ((2,), (1, 2), (2, 1), (0,), (0, 1, 2))
    """Levels of transaction.version, of which one tuple is drawn; its first level is that at the start."""
    habits: Habits = Habits()
    slowest_ms: tuple[int, ...] = (0, 5, 40, 120)
    """The longest delay of a message between brokers."""
    segments_ms: tuple[int, ...] = (0, 0, 300)
    """Age at which segments roll; 0: not within a run."""
    producer_expiration_ms: tuple[int, ...] = (0,)
    """Expiration of idle producers at leaders; 0: not within a run."""
    min_insync: tuple[int, ...] = (1,)
    """min.insync.replicas."""
    disk: Literal["none", "unsynced", "synced"] = "none"
    """Whether the logs are files, and on the device before anything is acknowledged."""
    lag_ms: int = 0
    """How long a replica takes to acknowledge."""
    gaps_ms: tuple[int, int] = (20, 250)
    """Shortest and longest time from one fault to the next."""
    follow_ups: tuple[str, ...] = ()
    """Deeds to do at a rule's first hit; one is drawn for each rule."""
    dialect: str | None = None
    """The dialect of the brokers, if the user names no other one."""
    swarm: bool = False
    """Whether each run turns most faults off and some far up, and draws its own habits."""

    def __post_init__(self) -> None:
        known = [*KINDS, *RULES]
        for name in self.weights:
            if name not in known:
                near = get_close_matches(name, known, 1)
                meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
                raise ValueError(f"there is no fault {name}: {meant}")

    def drawn(self, dice: Random) -> tuple[Habits, dict[str, int]]:
        """The habits and weights of one run."""
        weights = dict(self.weights)
        if not self.swarm:
            return self.habits, weights
        weights = {deed: weight for deed in weights if (weight := dice.choice((0, 0, 0, 1, 5)))}
        habits = replace(
            self.habits,
            newer=dice.choice((0.0, 0.5, 1.0)),
            gives_up=dice.choice((0.0, 0.2, 0.6)),
            hangs_up=dice.choice((0.2, 1.0)),
            commits=dice.choice((0.5, 0.8)),
            walks_away=dice.choice((0.0, 0.0, 0.1)),
            in_flight=dice.choice((1, 1, 2, 4)),
            timeout_ms=dice.choice((1_500, 8_000)),
        )
        # For the older style a leader that has no state of a producer takes any sequence (KIP-360).
        return (replace(habits, in_flight=1) if habits.newer < 1 else habits), weights


def focus(weights: dict[str, int], **how: object) -> Focus:
    """A focus with these weights, and other fields by name."""
    return Focus(MappingProxyType(weights), **how)  # type: ignore[arg-type]
