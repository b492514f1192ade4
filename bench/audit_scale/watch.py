"""Memory and processor time of a process and all that it starts, sampled from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.quiet import TICKS, _busy_seconds

__all__ = ["Seen", "Watch", "end_all"]

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
INTERVAL_S = 0.25


@dataclass
class Seen:
    """The highest resident memory of a process, MiB, and the processor time it had when it was last seen, s."""

    parent: int
    name: str
    started: int
    memory: float = 0.0
    cpu: float = 0.0


class Watch:
    """Samples while it is entered; `roots` and everything below them."""

    def __init__(self, *roots: int) -> None:
        self.roots = roots
        self.together = 0.0
        """The highest memory that the first of the roots and the JVMs below it have had at a time, MiB."""
        self.seen: dict[tuple[int, int], Seen] = {}
        """By process id and the time it started: ids are used again."""
        self.others = 0.0
        """Share of all processors that other processes took."""
        self.cpu = 0.0
        """Processor time of those watched, s."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._before = {key: one.cpu for key, one in self._sample().items()}
        self._began, self._busy = time.perf_counter(), _busy_seconds()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.cpu = sum(one.cpu - self._before.get(key, 0.0) for key, one in self.seen.items())
        capacity = (time.perf_counter() - self._began) * (os.cpu_count() or 1)
        self.others = max(0.0, (_busy_seconds() - self._busy - self.cpu) / capacity)

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self._sample()

    def _sample(self) -> dict[tuple[int, int], Seen]:
        found = descendants(self.roots)
        driver = [one for (pid, _), one in found.items() if pid == self.roots[0]]
        jvms = [one for one in found.values() if one.parent == self.roots[0] and one.name.startswith("java")]
        self.together = max(self.together, sum(one.memory for one in driver + jvms))
        for key, now in found.items():
            known = self.seen.setdefault(key, now)
            known.memory = max(known.memory, now.memory)
            known.name, known.cpu = now.name, now.cpu
        return self.seen

    def below(self, roots: Iterable[int], name: str) -> list[Seen]:
        """What was seen below some of the roots whose name begins so, the roots themselves left out."""
        family = set(roots)
        for _ in range(len(self.seen)):
            more = {pid for (pid, _), one in self.seen.items() if one.parent in family} - family
            if not more:
                break
            family |= more
        family -= set(roots)
        return [one for (pid, _), one in self.seen.items() if pid in family and one.name.startswith(name)]

    def spent(self, roots: Iterable[int], *, only: bool = False) -> float:
        """Processor time of some of the roots while this watched, s; unless `only` they are meant, also of what is
        below them."""
        mine = set(roots)
        of_roots = sum(one.cpu - self._before.get(key, 0.0) for key, one in self.seen.items() if key[0] in mine)
        return of_roots if only else of_roots + sum(one.cpu for one in self.below(mine, ""))

    def memory(self, pid: int) -> float:
        """The highest of one process, MiB."""
        return max((one.memory for (seen, _), one in self.seen.items() if seen == pid), default=0.0)


def descendants(roots: Iterable[int]) -> dict[tuple[int, int], Seen]:
    """The processes below `roots`, themselves included."""
    everything: dict[int, Seen] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _process(int(name))) is not None:
            everything[int(name)] = found
    family = set(roots) & everything.keys()
    children: dict[int, list[int]] = {}
    for pid, found in everything.items():
        children.setdefault(found.parent, []).append(pid)
    waiting = list(family)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in family:
                family.add(child)
                waiting.append(child)
    return {(pid, everything[pid].started): everything[pid] for pid in family}


def _process(pid: int) -> Seen | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended meanwhile
        return None
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    cpu = (int(fields[11]) + int(fields[12])) / TICKS
    return Seen(int(fields[1]), name, int(fields[19]), int(fields[21]) * PAGE_MIB, cpu)


def end_all(processes: dict[tuple[int, int], Seen], *, signal: int) -> None:
    """Send a signal to those that are still the same processes."""
    for pid, started in processes:
        now = _process(pid)
        if now is not None and now.started == started:
            try:
                os.kill(pid, signal)
            except ProcessLookupError:
                continue
