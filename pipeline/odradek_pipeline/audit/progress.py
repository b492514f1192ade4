"""How far an audit is, and how long it will take: a line on a terminal, without Spark and with it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from odradek_pipeline.wording import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "EVENTS_ON_SPARK",
    "HERE",
    "HISTORY_ON_SPARK",
    "ON_SPARK",
    "OF_LINES",
    "Progress",
    "files_read",
    "followed",
    "shown",
]

HERE = {"reading": 70, "checking transactions": 20, "comparing what lies beside": 10}
ON_SPARK = {"reading": 45, "folding coordinators": 10, "checking transactions": 35, "timelines": 10}
"""The steps of both ways of an audit of logs, and about how much of its time each takes (bench/README.md)."""
OF_LINES = {"reading": 90, "checking": 10}
HISTORY_ON_SPARK = {"reading": 20, "pairing operations": 30, "judging values": 30, "looking for cycles": 20}
EVENTS_ON_SPARK = {"reading": 40, "following transactions": 25, "following partitions": 35}
"""Those of histories and event logs."""

TERMINAL_S, LINES_S = 0.2, 10.0
"""How often a line is written on a terminal, and where there is none."""
POLL_S = 0.5
ESTIMATE_MIN = 0.02
"""Before so much is done nothing can be said of the rest."""


class Progress:
    """The steps of one audit. The estimate takes the steps that are to come to be as long as they usually are."""

    def __init__(self, weights: Mapping[str, float], show: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.weights, self.show, self.clock = weights, show, clock
        self.began = clock()
        self.name, self.part, self.what = "", 0.0, ""

    def step(self, name: str) -> None:
        """A step begins, and all before it are done."""
        assert name in self.weights, name
        self.name, self.part, self.what = name, 0.0, ""
        self.show(self.line())

    def reading(self, done: int, total: int) -> None:
        """So many of so many bytes."""
        self.at(done / total if total else 1.0, f"{size(done)} of {size(total)}")

    def at(self, part: float, what: str) -> None:
        """How much of the step is done, from 0 to 1, and the same in words. What was done stays done."""
        if part >= self.part:
            self.part, self.what = min(part, 1.0), what
        self.show(self.line())

    def line(self) -> str:
        names = list(self.weights)
        at = names.index(self.name)
        parts = [f"{at + 1} of {len(names)}: {self.name}", self.what, f"{self.done():.0%}"]
        left = self.left_s()
        if left is not None:
            parts.append(f"about {_seconds(left)} left")
        return ", ".join(part for part in parts if part)

    def done(self) -> float:
        """Of the whole audit, from 0 to 1."""
        before = 0.0
        for name, weight in self.weights.items():
            if name == self.name:
                return (before + weight * self.part) / sum(self.weights.values())
            before += weight
        return 0.0

    def left_s(self) -> float | None:
        """Seconds that remain, if it goes on as it did; None while nothing can be said."""
        done = self.done()
        return None if done < ESTIMATE_MIN else (self.clock() - self.began) * (1 - done) / done


def files_read(
    files: Sequence[Path], progress: Progress | None, *, checked: float = 0.0
) -> Iterator[tuple[Path, Callable[[int], None] | None]]:
    """The files one after the other, each with what is told how many of its bytes are behind.

    `checked` is the part of a file's time that is spent on it once it is read.
    """
    sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
    before, total = 0, sum(sizes)
    for path, length in zip(files, sizes, strict=True):
        if progress is None:
            yield path, None
            continue

        def reading(done: int, begins: int = before, shows: Progress = progress) -> None:
            shows.reading(begins + round(done * (1 - checked)), total)

        yield path, reading
        before += length
        progress.reading(before, total)


def _seconds(value: float) -> str:
    whole = max(1, round(value))
    return f"{whole} s" if whole < 120 else f"{round(whole / 60)} min"


@contextlib.contextmanager
def shown(weights: Mapping[str, float], *, asked: bool = False, out: TextIO | None = None) -> Iterator[Progress | None]:
    """Progress on standard error: over one line of a terminal; elsewhere, if it was asked for, in lines."""
    out = sys.stderr if out is None else out
    terminal = out.isatty()
    if not terminal and not asked:
        yield None
        return
    last = float("-inf")
    every = TERMINAL_S if terminal else LINES_S

    def show(line: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            out.write(f"\r\x1b[K{line}" if terminal else f"{line}\n")
            out.flush()

    try:
        yield Progress(weights, show, time.monotonic)
    finally:
        if terminal:
            out.write("\r\x1b[K")
            out.flush()


@contextlib.contextmanager
def followed(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Spark is asked every half second how many tasks of the step are done."""
    if progress is None:
        yield
        return
    ended = threading.Event()

    def follow() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(POLL_S):
            stages = [found for one in tracker.getActiveStageIds() if (found := tracker.getStageInfo(one)) is not None]
            total = sum(one.numTasks for one in stages)
            if total and progress.name:
                done = sum(one.numCompletedTasks for one in stages)
                progress.at(done / total, f"{done} of {total} tasks")

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
