"""What was found, and which of it has no cause yet: each cause claims the findings that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pandas as pd

from odradek_pipeline.incidents.nightly import identity
from odradek_pipeline.incidents.words import WARNINGS, words_of
from odradek_pipeline.logs.layout import TRANSACTION_STATE, Problem
from odradek_pipeline.transactions.steps import OF_STATES

__all__ = [
    "FAR",
    "INCIDENT_COLUMNS",
    "Findings",
    "Incident",
    "Partition",
    "Row",
    "Search",
    "at_partition",
    "incidents_frame",
    "key_of",
    "of_problem",
]

INCIDENT_COLUMNS: dict[str, str] = {
    "id": "object",
    "incident": "object",
    "severity": "object",
    "topic": "object",
    "partition": "int64",
    "offset": "int64",
    "end_offset": "int64",
    "producer_id": "int64",
    "producer_epoch": "int64",
    "transactional_id": "object",
    "upto": "int64",
    "since": "int64",
    "path": "object",
    "position": "int64",
    "what": "object",
    "blocks": "object",
    "run": "object",
    "cluster": "object",
    "first_seen": "int64",
    "is_new": "bool",
    "acknowledged": "object",
    "anomalies": "int64",
    "problems": "int64",
}
"""A row for each cause: `since` in milliseconds, -1 where nothing tells; how many findings follow from it.

`upto` is the last offset of its partition that was read, -1 where there is none. `severity` is critical, warning, or
info where a living cluster says that it is over; `cluster` is what it said. `first_seen`, `is_new` and `acknowledged`
are what earlier audits with the same --state know."""

Row = dict[str, Any]
Partition = tuple[str, int]

_BESIDE = frozenset(
    ("bad-snapshot", "bad-txn-index", "bad-index", "no-segment", "replica-lacks", "replica-has-more", "replica-differs")
)
_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_OF_BATCHES = frozenset(
    (
        "offset-gap",
        "offset-regression",
        "seq-gap",
        "seq-duplicate",
        "seq-first-not-zero",
        "txn-hanging",
        "txn-without-marker",
        "txn-undecided-marker",
        "txn-orphan-marker",
        "txn-double-marker",
        "txn-marker-epoch-regression",
        "txn-epoch-not-bumped",
        "producer-epoch-regression",
    )
)
"""What missing, repeated or swapped batches look like to the rules of transactions and sequences."""
FAR = 1 << 62


@dataclass(slots=True)
class Findings:
    """What was found, and what an incident needs to know of it."""

    anomalies: list[Row]
    problems: Sequence[Problem]
    jumps: pd.DataFrame
    """Every place where offsets do not follow each other, whatever the anomalies say of it."""
    ends: Mapping[Partition, int] = field(default_factory=dict)
    times: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    """When each open transaction began, ms: by topic, partition and first offset."""
    newest: Mapping[Partition, int] = field(default_factory=dict)
    """The newest time in each partition, ms."""
    decided: Mapping[tuple[str, int, str, int], int] = field(default_factory=dict)
    """When decisions without a marker were taken, ms: by topic, partition, path and position of the record."""
    exchanged: Mapping[Partition, Partition] = field(default_factory=dict)
    """Partitions all of whose missing markers are in another one, for which nobody decided them; and which one."""
    running: tuple[str, ...] = ()
    """The log directories that their brokers had not closed."""

    def open_before(self, key: Partition, offset: int) -> int:
        """Where the first transaction begins that is open in a partition before an offset, -1 if there is none."""
        found = (first for topic, partition, first in self.times if (topic, partition) == key and first < offset)
        return min(found, default=-1)

    def is_running(self, path: str) -> bool:
        """Whether a file lies in one of them."""
        return any(path == one or path.startswith(one.rstrip("/") + "/") for one in self.running)


@dataclass(slots=True)
class Incident:
    """A cause."""

    name: str
    row: Row
    anomalies: list[int] = field(default_factory=list)
    problems: list[int] = field(default_factory=list)


def incidents_frame(incidents: Iterable[Incident]) -> pd.DataFrame:
    """The table `incidents`."""
    rows = [_row(one) for one in incidents]
    frame = pd.DataFrame(rows, columns=list(INCIDENT_COLUMNS))
    numbers = {name: -1 for name, kind in INCIDENT_COLUMNS.items() if kind == "int64"}
    return frame.fillna(numbers).fillna("").astype(INCIDENT_COLUMNS)


def _row(one: Incident) -> Row:
    counts = {"anomalies": len(one.anomalies), "problems": len(one.problems)}
    severity = "warning" if one.name in WARNINGS else "critical"
    return one.row | counts | {"id": identity(one.row), "severity": severity, "is_new": True}


class Search:
    """Which findings still have no cause."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.incidents: list[Incident] = []
        self.free = {at for at, row in enumerate(findings.anomalies) if row["severity"] == "bad"}
        self.open = {at for at, one in enumerate(findings.problems) if one.severity == "bad"}

    def add(self, name: str, anomalies: Iterable[int], problems: Iterable[int] = (), **row: Any) -> None:
        """A cause, and what it claims; the first finding says where, as far as the row does not."""
        given = [at for at in anomalies if at in self.free]
        claimed, damage = sorted(set(given)), sorted(set(problems) & self.open)
        self.free -= set(claimed)
        self.open -= set(damage)
        first = self.findings.anomalies[given[0]] if given else {}
        base = {column: first[column] for column in INCIDENT_COLUMNS if column in first}
        base["detail"] = first.get("detail", "")
        whole = {"since": -1} | base | row | {"incident": name}
        whole["upto"] = self.findings.ends.get((whole.get("topic", ""), whole.get("partition", -1)), -1)
        for at in claimed:
            self.findings.anomalies[at]["incident"] = len(self.incidents)
        self.incidents.append(Incident(name, whole, claimed, damage))
        self.say(self.incidents[-1])

    def say(self, one: Incident, *, more: str = "") -> None:
        """Give an incident its sentences; `more` goes behind its detail."""
        row = one.row
        row["detail"] = str(row.get("detail", "")) + more
        key = (row.get("topic", ""), row.get("partition", -1))
        is_running = self.findings.is_running(str(row.get("path", "")))
        stop = self.findings.open_before(key, row.get("offset", -1))
        one.row |= words_of(one.name, row, self.findings.ends, is_running=is_running, stop=stop)

    def anomalies(self, names: Iterable[str], wanted: Callable[[Row], bool] = lambda row: True) -> list[int]:
        """Those without a cause, of these names."""
        listed = frozenset(names)
        rows = self.findings.anomalies
        return [at for at in sorted(self.free) if rows[at]["anomaly"] in listed and wanted(rows[at])]

    def problems(self, names: Iterable[str], wanted: Callable[[Problem], bool] = lambda one: True) -> list[int]:
        """The same of problems."""
        listed = frozenset(names)
        every = self.findings.problems
        return [at for at in sorted(self.open) if every[at].problem in listed and wanted(every[at])]

    def beside(self, key: Partition) -> list[int]:
        """What the files beside the segments of a partition say otherwise."""
        return self.problems(_BESIDE, lambda one: key_of(one.path) == key)

    def checkpoints(self, key: Partition) -> list[int]:
        """What checkpoints seem to lie of a partition, where a batch says a false offset."""
        named = f"{key[0]}-{key[1]} "
        return self.problems(["bad-checkpoint"], lambda one: one.detail.startswith(named))

    def consequences(self, key: Partition, start: int, end: int) -> list[int]:
        """What is wrong with batches around a place, and with transactions that reach over it."""

        def follows(row: Row) -> bool:
            if (row["topic"], row["partition"]) != key:
                return False
            if row["anomaly"] == "txn-without-marker":  # where in the partition it should be, nobody knows
                return True
            if row["anomaly"] == "txn-hanging" and row["end_offset"] < 0:
                return row["offset"] < end or start >= FAR
            last = max(row["end_offset"], row["offset"])
            return row["offset"] <= end and last >= start - 1

        return [*self.anomalies(_OF_BATCHES, follows), *self.steps(key)]

    def steps(self, key: Partition) -> list[int]:
        """What coordinators seem to have written wrongly in a partition of their log: a step may be missing."""
        return self.anomalies(OF_STATES, at_partition(key)) if key[0] == TRANSACTION_STATE else []


def key_of(path: str) -> Partition:
    """The partition of a directory, or of a file in one."""
    one = PurePath(path)
    found = _DIRECTORY.fullmatch(one.name) or _DIRECTORY.fullmatch(one.parent.name)
    return (found["topic"], int(found["partition"])) if found else ("", -1)


def at_partition(key: Partition) -> Callable[[Row], bool]:
    """Whether a finding is of this partition."""
    return lambda row: (row["topic"], row["partition"]) == key


def of_problem(one: Problem) -> Row:
    """Where a problem is, as columns of an incident."""
    topic, partition = key_of(one.path)
    place = {"topic": topic, "partition": partition, "path": one.path, "position": one.position, "offset": one.offset}
    return place | {"detail": one.detail}
