"""The audit of a broker's event log: verifications, transactions, and who holds the last stable offset where it is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.audit.lines import json_lines, shown
from odradek_pipeline.audit.progress import Progress, files_read
from odradek_pipeline.audit.result import Result, Severity, anomalies_frame, anomaly
from odradek_pipeline.events.checks import CONTRADICTION_COLUMNS, Contradictions, Numbers
from odradek_pipeline.events.fields import check_event
from odradek_pipeline.logs.layout import Problem, problem
from odradek_pipeline.wording import span

__all__ = [
    "CLOCK",
    "COLUMNS",
    "STALL_MS",
    "Timeline",
    "audit_events",
    "contradiction_rows",
    "hanging_of",
    "hanging_rows",
    "stall_rows",
    "told_of",
]

CLOCK = "wall_minus_monotonic_ns"
"""In the summary: what makes a time of the wall clock of a `ts_ns`; None where the events do not say it."""
STALL_MS = 10_000
"""A stall that lasts as long is told as an anomaly: about the time a consumer of committed data would notice."""

_UNDER_WAY = frozenset(("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"))
_MS = 1_000_000

Event = dict[str, Any]
Partition = tuple[str, int]

COLUMNS: dict[str, list[str]] = {
    "verification": [
        "ts_ns",
        "node",
        "topic",
        "partition",
        "transactional_id",
        "producer_id",
        "verdict",
        "error",
        "duration_ns",
    ],
    "txn_states": [
        "ts_ns",
        "node",
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "state_from",
        "state_to",
        "tv",
    ],
    "txn_durations": ["transactional_id", "producer_id", "begin_ns", "end_ns", "outcome"],
    "lso": ["ts_ns", "topic", "partition", "hw", "lso"],
    "stalls": [
        "topic",
        "partition",
        "begin_ns",
        "end_ns",
        "lso",
        "producer_id",
        "producer_epoch",
        "transactional_id",
        "open_at_end",
        "holder_state",
    ],
    "requests": ["ts_ns", "api", "version", "client_id"],
    "faults": ["ts_ns", "kind", "fault_id", "node"],
}


@dataclass(slots=True)
class Timeline:
    """The fold over the events."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    open: dict[Partition, dict[int, Event]] = field(default_factory=dict)
    """By producer id, what opened its transaction in a partition."""
    stall: dict[Partition, tuple[int, Event]] = field(default_factory=dict)
    """Since when the present holder keeps the last stable offset where it is."""
    state: dict[int, Event] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    begun: dict[str, Event] = field(default_factory=dict)
    last_ns: int = 0
    events: int = 0
    clock_ns: int | None = None
    """Wall clock minus `ts_ns`, the least there was; None where no event has both."""
    contradictions: Contradictions = field(default_factory=lambda: Contradictions([]))

    def add(self, event: Event) -> None:
        """Fold one event."""
        self.events += 1
        self.last_ns = max(self.last_ns, int(event["ts_ns"]))
        if "wall_ns" in event:
            clock = int(event["wall_ns"]) - int(event["ts_ns"])
            self.clock_ns = clock if self.clock_ns is None else min(self.clock_ns, clock)
        at = (event.get("topic"), event.get("partition"))
        opened = self.open.get(at, {}).get(event.get("producer_id"))  # type: ignore[arg-type]
        self.contradictions.add(event, opened)
        handler = _HANDLERS.get(event["kind"])
        if handler is not None:
            handler(self, event)

    def row(self, table: str, event: Event) -> None:
        """A row of plain fields."""
        self.rows[table].append(tuple(event.get(column) for column in COLUMNS[table]))

    def verified(self, event: Event) -> None:
        self.row("verification", event)

    def lso_moved(self, event: Event) -> None:
        self.row("lso", event)

    def requested(self, event: Event) -> None:
        self.row("requests", event)

    def named(self, event: Event) -> None:
        self.names[event["producer_id"]] = event.get("transactional_id", "")

    def changed(self, event: Event) -> None:
        self.named(event)
        self.row("txn_states", event)
        self.state[event["producer_id"]] = event
        name, state = event["transactional_id"], event["state_to"]
        if state == "Ongoing":
            self.begun.setdefault(name, event)
        elif state.startswith("Complete") and name in self.begun:
            begun = self.begun.pop(name)
            outcome = "commit" if state == "CompleteCommit" else "abort"
            self.rows["txn_durations"].append((name, begun["producer_id"], begun["ts_ns"], event["ts_ns"], outcome))

    def opened(self, event: Event) -> None:
        at = (event["topic"], event["partition"])
        self.open.setdefault(at, {}).setdefault(event["producer_id"], event)
        self.hold(at, event["ts_ns"])
        self.reached(event)

    def reached(self, event: Event) -> None:
        """The log is as long as that, while the last stable offset stays where its holder keeps it."""
        at = (event["topic"], event["partition"])
        end = int(event["offset"]) + 1
        stalled = self.stall.get(at)
        lso = int(stalled[1]["offset"]) if stalled is not None else end
        self.rows["lso"].append((event["ts_ns"], *at, end, lso))

    def closed(self, event: Event) -> None:
        at = (event["topic"], event["partition"])
        self.open.get(at, {}).pop(event["producer_id"], None)
        self.hold(at, event["ts_ns"])

    def hold(self, at: Partition, now: int) -> None:
        """The smallest open first offset holds the last stable offset; where it changes, the next stall begins."""
        holder = (
            min(self.open[at].values(), key=lambda event: int(event["offset"]), default=None)
            if at in self.open
            else None
        )
        before = self.stall.get(at)
        if before is not None and before[1] is holder:
            return
        if before is not None:
            self.end_stall(at, *before, now, open_at_end=False)
            del self.stall[at]
        if holder is not None:
            self.stall[at] = (now, holder)

    def end_stall(self, at: Partition, begin: int, holder: Event, end: int, *, open_at_end: bool) -> None:
        producer = holder["producer_id"]
        name = holder.get("transactional_id") or self.names.get(producer, "")
        state = self.state.get(producer, {}).get("state_to", "")
        self.rows["stalls"].append(
            (*at, begin, end, holder["offset"], producer, holder["producer_epoch"], name, open_at_end, state)
        )

    def finish(self) -> None:
        """What is open at the end stays so up to the last event."""
        for at, (begin, holder) in self.stall.items():
            self.end_stall(at, begin, holder, self.last_ns, open_at_end=True)
        self.contradictions.finish()

    def table(self, name: str) -> pd.DataFrame:
        if name == "contradictions":
            return pd.DataFrame(self.contradictions.rows, columns=CONTRADICTION_COLUMNS)
        return pd.DataFrame(self.rows[name], columns=COLUMNS[name])

    def hanging(self) -> list[Event]:
        """What opened transactions that no coordinator has under way."""
        found = []
        for producers in self.open.values():
            for producer, event in producers.items():
                if self.state.get(producer, {}).get("state_to") not in _UNDER_WAY:
                    found.append(event)
        return found

    def fault(self, event: Event) -> None:
        self.row("faults", event)


_HANDLERS = {
    "verify_end": Timeline.verified,
    "lso_moved": Timeline.lso_moved,
    "request": Timeline.requested,
    "init_producer_id": Timeline.named,
    "partitions_added": Timeline.named,
    "state_change": Timeline.changed,
    "marker_written": Timeline.reached,
    "transaction_opened": Timeline.opened,
    "transaction_closed": Timeline.closed,
    "leadership_given_up": Timeline.fault,
    "broker_fenced": Timeline.fault,
    "fault": Timeline.fault,
}


def audit_events(paths: Iterable[Path], *, stall_ms: int = STALL_MS, progress: Progress | None = None) -> Result:
    """Audit the files in the order of their events."""
    began = time.perf_counter()
    problems: list[Problem] = []
    files = list(paths)
    timeline, numbers = Timeline(), Numbers()
    if progress is not None:
        progress.step("reading")
    for path, reading in files_read(files, progress):
        for number, event in enumerate(json_lines(path, problems, reading)):
            try:
                check_event(event)
            except ValueError as error:
                problems.append(problem(path, number, "bad-event", f"event {number + 1} {told_of(event, error)}"))
            else:
                timeline.add({name: value for name, value in event.items() if value is not None})
                numbers.add(str(path), event.get("seq"))
    numbers.check()
    if progress is not None:
        progress.step("checking")
    timeline.finish()
    hanging = hanging_of(timeline)
    rows = [*numbers.anomalies(), *contradiction_rows(timeline.table("contradictions").to_dict("records"))]
    rows += hanging_rows(hanging)
    rows += stall_rows(timeline.table("stalls").to_dict("records"), hanging, stall_ms)
    size = sum(path.stat().st_size for path in files if path.is_file())
    result = Result("events", anomalies_frame(rows), problems, files=len(files), bytes=size)
    result.tables = {name: timeline.table(name) for name in COLUMNS}
    result.facts = {"events": timeline.events, CLOCK: timeline.clock_ns, **_figures(result.tables)}
    result.seconds = time.perf_counter() - began
    return result


def told_of(event: Event, error: ValueError) -> str:
    """What is wrong with an event."""
    return f"({shown(event.get('kind'))}): {error}"


def hanging_of(timeline: Timeline) -> list[dict[str, Any]]:
    """What opened transactions that no coordinator has under way: where, by whom, and what its coordinator says."""
    return [
        {
            **{name: event[name] for name in ("topic", "partition", "offset", "producer_id", "producer_epoch")},
            "transactional_id": event.get("transactional_id") or timeline.names.get(event["producer_id"], ""),
            "state": timeline.state.get(event["producer_id"], {}).get("state_to", ""),
        }
        for event in timeline.hanging()
    ]


def contradiction_rows(contradictions: Iterable[dict[Any, Any]]) -> Iterator[dict[str, Any]]:
    """Their anomalies."""
    for row in contradictions:
        evidence = {name: row[name] for name in CONTRADICTION_COLUMNS[1:-1]}
        yield anomaly(row["anomaly"], Severity.BAD, row["detail"], **evidence)


def hanging_rows(hanging: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Their anomalies."""
    for row in hanging:
        detail = f"open since offset {row['offset']}; its coordinator says {row['state'] or 'nothing'}"
        evidence = {name: value for name, value in row.items() if name != "state"}
        yield anomaly("txn-hanging", Severity.BAD, detail, **evidence)


def stall_rows(
    stalls: Iterable[dict[str, Any]], hanging: Iterable[dict[str, Any]], stall_ms: int
) -> Iterator[dict[str, Any]]:
    """Long ones, and those that a hanging transaction holds: nothing will end these."""
    held = {(row["topic"], row["partition"], row["producer_id"]) for row in hanging}
    for stall in stalls:
        for_good = stall["open_at_end"] and (stall["topic"], stall["partition"], stall["producer_id"]) in held
        length = (stall["end_ns"] - stall["begin_ns"]) // _MS
        if not for_good and length < stall_ms:
            continue
        name = stall["transactional_id"]
        holder = f"producer {stall['producer_id']}" + (f" ({name})" if name else "")
        detail = f"the last stable offset stays at {stall['lso']} for {span(length)}, held by {holder}"
        keys = ("topic", "partition", "producer_id", "producer_epoch", "transactional_id")
        severity = Severity.BAD if for_good else Severity.ALLOWED
        yield anomaly("lso-stall", severity, detail, offset=stall["lso"], **{key: stall[key] for key in keys})


def _figures(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    verification = tables["verification"]
    figures: dict[str, Any] = {
        "verifications": {str(verdict): int(count) for verdict, count in verification["verdict"].value_counts().items()}
    }
    if len(verification):
        in_ms = verification["duration_ns"].astype("float64") / _MS
        figures["verification_ms"] = {"median": float(in_ms.median()), "p99": float(in_ms.quantile(0.99))}
    durations = tables["txn_durations"]
    if len(durations):
        figures["transactions"] = {
            str(outcome): int(count) for outcome, count in durations["outcome"].value_counts().items()
        }
    return figures
