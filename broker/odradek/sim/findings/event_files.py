"""Event files of simulated runs (docs/events.md), and the run to compare a finding with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.event_line import event_head, event_line
from odradek.sim.model.promises import Violation
from odradek.sim.run import Run
from odradek.sim.schedules.faults import told
from odradek.sim.schedules.schedule import Deed, Schedule
from odradek.sim.world.world import START_MS

__all__ = ["Calm", "calm_run", "event_lines", "write_events"]

NS_PER_MS = 1_000_000


class Calm(Struct, frozen=True):
    """A run of the same schedule with fewer faults, which kept every promise."""

    run: Run
    left_out: str
    """The deeds that were left out, such as `pause a broker`."""


def event_lines(run: Run) -> Iterator[bytes]:
    """The events of a finished run as the lines of an event file; times are virtual."""
    for seq, (at_ms, node, fact) in enumerate(run.facts, 1):
        ts_ns, wall_ns = (at_ms - START_MS) * NS_PER_MS, at_ms * NS_PER_MS
        head = event_head(ts_ns=ts_ns, wall_ns=wall_ns, seq=seq, node=node, kind=fact.kind)
        yield event_line(head | fact.fields | fact.body) + b"\n"


def write_events(path: Path, run: Run) -> None:
    """Write the event file of a finished run. Raises OSError if it cannot be written."""
    with path.open("wb") as file:
        file.writelines(event_lines(run))


def calm_run(schedule: Schedule) -> Calm | None:
    """The run without the last deed of the schedule, else without all deeds; None if both break a promise.

    In a finding that was shrunk every deed is necessary. Both runs are the same until the last deed, so the first
    event in which they differ is its first consequence.
    """
    deeds = sorted(schedule.deeds, key=lambda deed: deed.at_ms)
    without = {_named(deeds[-1:]): deeds[:-1], _named(deeds): []} if deeds else {}
    for left_out, kept in without.items():
        run = Run(replace(schedule, deeds=tuple(kept)))
        try:
            run.play()
        except Violation:
            continue
        return Calm(run, left_out)
    return None


def _named(deeds: list[Deed]) -> str:
    if len(deeds) > 1:
        return f"all {len(deeds)} deeds"
    return ", ".join(deed.kind if deed.rule is None else told(deed.rule) for deed in deeds)
