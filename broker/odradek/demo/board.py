"""The data of the view, as of the last message to the director."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from odradek.demo.ledger import Ledger
from odradek.demo.lines import AtEnd, Line, Read, Seen, Trouble, Violated
from odradek.demo.log import Marks

__all__ = ["Board"]

RATE_S = 3.0
TROUBLES_MAX = 4


class Board:
    """Filled from four sources: the lines of producers and consumer, the broker's events, its metrics, its offsets."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._samples: deque[tuple[float, int, int]] = deque([(self._began, 0, 0)])
        self.ledger = Ledger()
        self.crashes = 0
        self.restarts = 0
        self.seen: list[Seen] = []
        self.noticed: list[str] = []
        self.read_up_to: dict[int, int] = {}
        self.errors = 0
        self.troubles: deque[str] = deque(maxlen=TROUBLES_MAX)
        self.events: Counter[str] = Counter()
        self._states: dict[str, str] = {}
        self.metrics: dict[str, float] = {}
        self.parked_max = 0
        self.marks: dict[int, Marks] = {}
        self.behind_max = 0

    def hear(self, producer: int, line: Line) -> None:
        """A line of a producer."""
        self.ledger.hear(producer, line)
        self._hear_trouble(line)

    def hear_consumer(self, line: Line) -> None:
        """A line of the consumer."""
        match line:
            case Read(records=records):
                self.seen += records
                for record in records:
                    self.read_up_to[record.partition] = record.offset + 1
            case AtEnd(partition=partition, offset=offset):
                self.read_up_to[partition] = offset
            case Violated(what=what):
                self.noticed.append(what)
        self._hear_trouble(line)

    def trouble(self, text: str) -> None:
        """Note an unexpected event, as a sentence."""
        self.errors += 1
        self.troubles.append(text)

    def _hear_trouble(self, line: Line) -> None:
        if isinstance(line, Trouble):
            self.trouble(line.error)

    def note_event(self, event: Mapping[str, Any]) -> None:
        """A line of the broker's event file."""
        kind = event["kind"]
        if kind == "state_change":
            self._states[event["transactional_id"]] = event["state_to"]
            kind = event["state_to"]
        self.events[kind] += 1

    def note_metrics(self, metrics: Mapping[str, float]) -> None:
        """The broker's metrics, each the sum over the brokers."""
        self.metrics = dict(metrics)
        self.parked_max = max(self.parked_max, int(metrics.get("purgatory_size", 0)))

    def note_marks(self, marks: Mapping[int, Marks]) -> None:
        """High watermark and last stable offset of each partition."""
        self.marks = dict(marks)
        self.behind_max = max([self.behind_max, *map(_behind, marks.values())])

    def sample(self) -> None:
        """Remember the counts of now, for the rates."""
        self._samples.append((self._clock(), self.ledger.committed, len(self.seen)))
        while len(self._samples) > 2 and self._samples[1][0] < self._clock() - RATE_S:
            self._samples.popleft()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def rates(self) -> tuple[float, float]:
        """Recent rates: committed transactions and read records per second."""
        (t0, committed0, records0), (t1, committed1, records1) = self._samples[0], self._samples[-1]
        span = max(t1 - t0, 0.001)
        return (committed1 - committed0) / span, (records1 - records0) / span

    @property
    def ongoing(self) -> int:
        """Transactional ids whose transaction the coordinator has open or has not finished."""
        return sum(state not in ("Empty", "CompleteCommit", "CompleteAbort", "Dead") for state in self._states.values())

    @property
    def behind(self) -> int:
        """The largest distance from a last stable offset to its high watermark, in offsets."""
        return max(map(_behind, self.marks.values()), default=0)


def _behind(marks: Marks) -> int:
    return marks.high_watermark - marks.last_stable_offset
