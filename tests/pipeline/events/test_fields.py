"""Each field of a good line in turn of another type, or not there: one sentence that names the line, and no trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.commands.test_wrong_calls import called, exit_code
from tests.pipeline.jobs.test_audit_events import event
from tests.pipeline.jobs.test_audit_history import SEEN, SENT, fail, ok, poll, send

from odradek_pipeline.jobs.audit_events import audit_events
from odradek_pipeline.jobs.audit_history import audit_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHERS: tuple[object, ...] = (
    None,
    "two",
    "",
    [1],
    {},
    {"a": 1},
    True,
    -(1 << 80),
    10**30,
    1 << 62,
    1e300,
    0.5,
    float("nan"),
    "\ud800",
)
WHERE = {"topic": "t", "partition": 0, "producer_id": 1, "producer_epoch": 0}
EVENTS = [
    event("state_change", 1, transactional_id="a", state_from="Empty", state_to="Ongoing", tv=2) | WHERE,
    event("partitions_added", 1, transactional_id="a", tv=2) | WHERE,
    event("verify_end", 1, transactional_id="a", verdict="accepted", error="NONE", duration_ns=1) | WHERE,
    event("transaction_opened", 1, offset=0) | WHERE,
    event("marker_written", 1, offset=1, commit=True) | WHERE,
    event("transaction_closed", 1, offset=1, commit=True) | WHERE,
    event("lso_moved", 1, hw=1, lso=0) | WHERE,
    event("request", 1, api="PRODUCE", version=12, client_id="c"),
    event("fault", 1, fault_id="f"),
]
OPERATIONS = [{**ok(0, send("k", 0, 1), poll(k=[[0, 1]])), "time": 1, "txn": "t"}, {**ok(1, f="assign"), "time": 1}]
MICRO = [
    "x", {}, [], [1], ["send"], ["send", "k"], ["send", None, 1], ["send", "k", [1]], ["send", "k", ["1", 2]],
    ["send", "k", [1 << 70, 2]], ["send", "k", [1e300, 2]], ["poll", 5], ["poll", {"k": 5}], ["poll", {"k": [5]}],
    ["poll", {"k": [[1]]}], ["poll", {"k": [["1", 2]]}], ["poll", {"k": [[1 << 70, 1]]}], ["poll", {"k": [[None, 1]]}],
    ["poll", {"k": [[float("inf"), 1]]}],
]  # fmt: skip


def altered(good: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every line with one field less, or another in its place."""
    for line in good:
        for name in line:
            yield {key: value for key, value in line.items() if key != name}
            yield from ({**line, name: other} for other in OTHERS)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the folder `audit` if they are told no other."""
    monkeypatch.chdir(tmp_path)


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_fields_of_events(tmp_path: Path) -> None:
    lines = list(altered(EVENTS))
    result = audit_events([written(tmp_path / "events", lines)])
    assert len(lines) == result.facts["events"] + len(result.problems)
    assert not [one for one in result.problems if "Error" in one.detail]
    for name, value, sentence in [
        ("producer_id", "two", "producer_id is 'two', where a whole number belongs."),
        ("ts_ns", None, "it has no ts_ns."),
        ("offset", 10**30, "offset is 1000000000000000000000000000000, which is out of range."),
        ("topic", 5, "topic is 5, where a text belongs."),
        ("offset", True, "offset is True, where a whole number belongs."),
        ("commit", "yes", "commit is 'yes', where true or false belongs."),
    ]:
        path = written(tmp_path / "events", [*EVENTS[:5], {**EVENTS[5], name: value}])
        path.write_text(f"\n{path.read_text()}")  # lines are counted, and not events
        assert f"{path}, line 7: {sentence}" == called("audit", "events", path)


def test_fields_of_histories(tmp_path: Path) -> None:
    lines = list(altered(OPERATIONS))
    result = audit_history([written(tmp_path / "history", lines)])
    assert len(lines) == result.facts["operations"] + len(result.problems)
    assert not [one for one in result.problems if "Error" in one.detail]
    lines = [{**SEEN, "value": [micro]} for micro in MICRO]
    problems = audit_history([written(tmp_path / "history", lines)]).problems
    assert list(range(len(MICRO))) == [one.position for one in problems]
    path = written(tmp_path / "history", [SEEN, {**SEEN, "time": 1e300}])
    assert f"{path}, line 2: time is 1e+300, where a whole number belongs." == called("audit", "history", path)


def test_fields_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The same sentences."""
    from odradek_pipeline.jobs.audit_events_spark import audit_events_on_spark
    from odradek_pipeline.jobs.audit_history_spark import audit_history_on_spark

    events = written(tmp_path / "events", list(altered(EVENTS)))
    plain, spread = audit_events([events]), audit_events_on_spark(spark, [events], tmp_path / "out")
    assert plain.facts["events"] == spread.facts["events"]
    assert sorted(plain.problems, key=repr) == sorted(spread.problems, key=repr)
    history = written(
        tmp_path / "history", [*altered(OPERATIONS), *({**SEEN, "value": [micro]} for micro in MICRO), SEEN]
    )
    plain, spread = audit_history([history]), audit_history_on_spark(spark, [history], tmp_path / "out")
    assert plain.facts == spread.facts
    assert sorted(plain.problems, key=repr) == sorted(spread.problems, key=repr)


def test_a_history_in_which_nothing_succeeded_is_not_ok(tmp_path: Path) -> None:
    """Nothing is known of what became of it, so nothing was looked at."""
    for lines in (
        [fail(0, send("k", None, 1))],
        [{**ok(0, send("k", None, 1)), "type": "invoke"}],
        [ok(0, f="assign"), ok(0, f="sing")],
    ):
        path = written(tmp_path / "history", lines)
        sentence = f"There is no send, poll or txn that succeeded in {path}: nothing can be judged."
        assert sentence == called("audit", "history", path)
    assert 0 == exit_code("audit", "history", written(path, [*SENT, SEEN, fail(1, send("k", None, 5))]))
