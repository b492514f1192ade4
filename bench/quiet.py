"""How much of the machine others used during a run, and the runs that were disturbed least."""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Sample", "Stopwatch", "awake", "median", "others_share", "process_seconds"]

TICKS = os.sysconf("SC_CLK_TCK")


SPIN = """
import os, time
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000000): pass
"""


@contextlib.contextmanager
def awake() -> Iterator[list[int]]:
    """Keeps every processor from sleeping, by processes that run only where nobody else wants to.

    Without it, one request at a time measures mostly how long a sleeping (virtual) processor takes to wake up.
    """
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield [process.pid for process in spinning]
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Sample:
    """A figure, and the share of all processors that other processes took meanwhile."""

    value: float
    others: float


class Stopwatch:
    """Measures the share of others from its making to `others`; the processes named are ours."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._start = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = self._own_seconds()

    def _own_seconds(self) -> float:
        children, here = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
        ended = children.ru_utime + children.ru_stime + here.ru_utime + here.ru_stime
        return ended + sum(process_seconds(pid) for pid in self._pids)

    def others(self) -> float:
        used = (_busy_seconds() - self._busy) - (self._own_seconds() - self._own)
        capacity = (time.perf_counter() - self._start) * (os.cpu_count() or 1)
        return max(0.0, used / capacity)


def _busy_seconds() -> float:
    user, nice, system, _idle, _waiting, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS


def process_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def quietest(samples: Sequence[Sample]) -> list[Sample]:
    """The less disturbed half, at least three where there are three."""
    count = max(min(3, len(samples)), (len(samples) + 1) // 2)
    return sorted(samples, key=lambda sample: sample.others)[:count]


def median(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.value for sample in quietest(samples))


def others_share(samples: Sequence[Sample]) -> float:
    """The worst share among the runs that `median` looks at."""
    return max(sample.others for sample in quietest(samples))
