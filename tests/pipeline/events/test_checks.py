"""Events that contradict each other, each in a small run that is whole but for that, by both ways of the audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.jobs.test_audit_events import event, state

from odradek.cli.usage import UsageError
from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_events import audit_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Events = list[dict[str, Any]]
Alter = Callable[[Events], Events]


def at(partition: int, kind: str, **more: Any) -> dict[str, Any]:
    where = {"topic": "t", "partition": partition, "producer_id": 1, "producer_epoch": 0}
    return event(kind, 0) | where | more


def run() -> Events:
    """Two transactions of one producer in two partitions, with their leaders; the second is aborted."""
    events = [at(part, "leadership_taken", leader_epoch=0, topic_id="one") for part in (0, 1)]
    for number, (decision, commit) in enumerate((("Commit", True), ("Abort", False))):
        events.append(state(0, 1, "Empty", "Ongoing"))
        for part in (0, 1):
            events.append(at(part, "partitions_added", transactional_id="id-1"))
            events.append(at(part, "transaction_opened", offset=2 * number))
        events.append(state(0, 1, "Ongoing", f"Prepare{decision}"))
        for part in (0, 1):
            for kind in ("marker_written", "transaction_closed"):
                events.append(at(part, kind, offset=2 * number + 1, commit=commit))
        events.append(state(0, 1, f"Prepare{decision}", f"Complete{decision}"))
    return [one | {"seq": number, "ts_ns": number} for number, one in enumerate(events, 1)]


def place(events: Events, kind: str, number: int) -> int:
    return [at for at, one in enumerate(events) if one["kind"] == kind][number]


def changed(kind: str, number: int, **more: Any) -> Alter:
    def alter(events: Events) -> Events:
        events[place(events, kind, number)] |= more
        return events

    return alter


def without(kind: str, number: int, also: Events | None = None) -> Alter:
    """One event less, renumbered; others behind the last."""

    def alter(events: Events) -> Events:
        del events[place(events, kind, number)]
        behind = [one | {"ts_ns": 100 + extra} for extra, one in enumerate(also or [])]
        return [one | {"seq": number} for number, one in enumerate([*events, *behind], 1)]

    return alter


CASES: dict[str, tuple[Alter, dict[str, dict[str, int]]]] = {
    "as it was": (lambda events: events, {}),
    "a marker of another outcome": (changed("marker_written", 1, commit=False), {"txn-wrong-outcome": {"bad": 1}}),
    "an end of another outcome": (changed("transaction_closed", 2, commit=True), {"txn-wrong-outcome": {"bad": 1}}),
    "no marker": (without("marker_written", 1), {"txn-without-marker": {"bad": 1}}),
    "no marker, of a topic that was deleted": (without("marker_written", 3, [at(1, "leadership_given_up")]), {}),
    "an offset that goes back": (changed("marker_written", 2, offset=0), {"offset-regression": {"bad": 1}}),
    "an event less": (lambda events: [*events[:1], *events[2:]], {"events-missing": {"info": 1}}),
}


def told(result: Result) -> list[list[object]]:
    columns = ["anomaly", "severity", "topic", "partition", "offset", "producer_id", "transactional_id", "detail"]
    return sorted(result.anomalies[columns].to_numpy().tolist(), key=repr)


def written(path: Path, events: Events) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return path


@pytest.mark.parametrize("name", CASES)
def test_it_is_found(tmp_path: Path, name: str) -> None:
    alter, expected = CASES[name]
    assert expected == audit_events([written(tmp_path / "events", alter(run()))]).counts()


def test_a_log_may_begin_anew(tmp_path: Path) -> None:
    """Offsets go back where a leader lost the end of the log, and where a topic is made again."""
    for between in (at(0, "log_truncated", end_offset=0), at(0, "leadership_taken", leader_epoch=0, topic_id="two")):
        events = [*run(), between, at(0, "marker_written", offset=0, commit=False)]
        events = [one | {"seq": number, "ts_ns": number} for number, one in enumerate(events, 1)]
        assert {} == audit_events([written(tmp_path / "events", events)]).counts()


@pytest.mark.parametrize("order", ["backwards", "twice", "a file twice", "another run behind"])
def test_what_is_not_one_run(tmp_path: Path, order: str) -> None:
    events = run()
    one = written(tmp_path / "events", events)
    paths = [one]
    if order == "backwards":
        written(one, events[::-1])
    elif order == "twice":
        written(one, events * 2)
    elif order == "a file twice":
        paths = [one, one]
    else:
        paths.append(written(tmp_path / "other", [event("lso_moved", 9, hw=1, lso=1) | {"seq": 1}]))
    with pytest.raises(UsageError, match=r"several runs, one twice, or one in disorder"):
        audit_events(paths)


def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """In one run with all that there is, in other partitions; and it refuses one that comes twice."""
    from odradek_pipeline.jobs.audit_events_spark import audit_events_on_spark

    events: Events = []
    for number, (alter, _) in enumerate(CASES.values()):
        apart = {"topic": f"t{number}", "producer_id": number, "transactional_id": f"id-{number}"}
        events += [one | {key: value for key, value in apart.items() if key in one} for one in alter(run())]
    events = [one | {"seq": number, "ts_ns": number} for number, one in enumerate(events, 1)]
    paths = [written(tmp_path / "one", [*events[:5], *events[7:]])]
    plain, spread = audit_events(paths), audit_events_on_spark(spark, paths, tmp_path / "out")
    names = {"txn-wrong-outcome", "txn-without-marker", "offset-regression", "events-missing"}
    assert names <= plain.counts().keys()
    assert told(plain) == told(spread)
    paths.append(written(tmp_path / "two", events[:3]))
    with pytest.raises(UsageError, match=r"several runs, one twice, or one in disorder"):
        audit_events_on_spark(spark, paths, tmp_path / "again")
