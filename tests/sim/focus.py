"""What the runs are about: a general one, and those that look for one family of races.

A race that needs several things in a row is hardly ever met where everything happens now and then.
So each of the others turns most of it off and a little of it far up, the clients' habits with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from tests.sim.habits import Habits
from tests.sim.nemesis import Deed, Nemesis

__all__ = ["FOCUSES", "GENERAL", "Focus"]


class Focus(Struct, frozen=True):
    """The tables that a run draws from."""

    weights: Mapping[Deed, int]
    """How often the nemesis does what."""
    levels: tuple[tuple[int, ...], ...] = ((2,), (1, 2), (2, 1), (0,), (0, 1, 2))
    """Levels of transaction.version: the first is that at the start."""
    habits: Habits = Habits()
    slowest_ms: tuple[int, ...] = (0, 5, 40, 120)
    """Of messages between brokers."""


def _focus(weights: dict[Deed, int], **how: object) -> Focus:
    return Focus(MappingProxyType(weights), **how)  # type: ignore[arg-type]


OLDER = ((0,), (1,))
"""The levels at which one epoch serves many transactions."""

GENERAL = _focus(
    {
        Nemesis.move_a_leader: 2,
        Nemesis.move_a_coordinator: 2,
        Nemesis.lose_connections: 1,
        Nemesis.lose_requests: 1,
        Nemesis.lose_answers: 1,
        Nemesis.delay_requests: 1,
        Nemesis.delay_records: 3,
        Nemesis.hold_markers: 1,
        Nemesis.remove_a_broker: 1,
        Nemesis.return_a_broker: 1,
        Nemesis.crash_a_broker: 1,
        Nemesis.restart_a_broker: 2,
        Nemesis.deafen_a_broker: 1,
        Nemesis.replace_a_coordinator_amid_markers: 3,
        Nemesis.change_the_level: 2,
    }
)

DUPLICATES = _focus(
    {Nemesis.lose_answers_of_records: 4, Nemesis.move_a_leader: 1},
    habits=Habits(gives_up=0.0, in_flight=2),
    levels=((2,), (1, 2)),
)
"""Batches are written, and their producers are not told."""

LATE_VERDICTS = _focus(
    {Nemesis.delay_verdicts: 6, Nemesis.delay_records: 1, Nemesis.move_a_coordinator: 1},
    habits=Habits(newer=0.2, gives_up=0.6, hangs_up=0.3),
    levels=((0,), (1,), (1, 2), (2,)),
    slowest_ms=(0, 5, 40),
)
"""A leader hears that a transaction is open when it is over."""

LATE_RECORDS = _focus(
    {Nemesis.delay_records: 6, Nemesis.move_a_leader: 1},
    habits=Habits(newer=0.0, gives_up=0.6),
    levels=OLDER,
    slowest_ms=(0, 5),
)
"""Batches of older clients arrive when their transaction is over."""

LATE_MARKERS = _focus(
    {Nemesis.replace_a_coordinator_amid_markers: 8, Nemesis.delay_records: 1},
    habits=Habits(newer=0.0, gives_up=0.0, commits=0.5),
    levels=OLDER,
    slowest_ms=(0, 5, 40),
)
"""Markers of older clients' transactions arrive when their coordinator is replaced and the next transaction is open."""

IN_FLIGHT = _focus(
    {
        Nemesis.move_a_leader: 2,
        Nemesis.hold_markers: 2,
        Nemesis.lose_requests: 2,
        Nemesis.lose_answers: 1,
        Nemesis.delay_verdicts: 1,
        Nemesis.lose_connections: 2,
    },
    # Without the newer style a leader that has never heard of a producer takes any sequence (KIP-360).
    habits=Habits(newer=1.0, gives_up=0.1, in_flight=4),
    levels=((2,), (1, 2)),
)
"""Several batches of a producer are on their way to a partition, and the first of them is not taken at once."""

WALKING_AWAY = _focus(
    {Nemesis.move_a_coordinator: 2, Nemesis.crash_a_broker: 1, Nemesis.restart_a_broker: 2, Nemesis.delay_records: 2},
    habits=Habits(walks_away=0.1, timeout_ms=1_500),
)
"""Transactions are left open, and nobody but their coordinator can end them."""

FOCUSES: Mapping[str, Focus] = MappingProxyType(
    {
        "general": GENERAL,
        "duplicates": DUPLICATES,
        "late-verdicts": LATE_VERDICTS,
        "late-records": LATE_RECORDS,
        "late-markers": LATE_MARKERS,
        "in-flight": IN_FLIGHT,
        "walking-away": WALKING_AWAY,
    }
)
