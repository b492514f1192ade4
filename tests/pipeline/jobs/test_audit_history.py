"""Each anomaly in a small history that contains it, and only it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_history import audit_history


def send(key: str, offset: int | None, value: int) -> list[Any]:
    return ["send", key, [offset, value] if offset is not None else value]


def poll(**read: list[list[int]]) -> list[Any]:
    return ["poll", read]


def ok(process: int, *value: list[Any], f: str = "txn") -> dict[str, Any]:
    return {"process": process, "type": "ok", "f": f, "value": list(value)}


def fail(process: int, *value: list[Any]) -> dict[str, Any]:
    return {**ok(process, *value), "type": "fail"}


SENT = [ok(0, send("k", 0, 1)), ok(0, send("k", 1, 2)), ok(0, send("k", 3, 3)), ok(0, send("k", 4, 4))]
ALL = [[0, 1], [1, 2], [3, 3], [4, 4]]
SEEN = ok(9, poll(k=ALL))

HISTORIES: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("inconsistent-offsets", "bad"): [ok(0, send("k", 0, 1)), ok(1, poll(k=[[0, 1]])), ok(2, poll(k=[[0, 7]]))],
    ("duplicate", "bad"): [ok(0, send("k", 0, 1)), ok(1, poll(k=[[0, 1], [1, 1]]))],
    ("G1a", "bad"): [fail(0, send("k", None, 1)), ok(1, poll(k=[[0, 1]]))],
    ("lost-write", "bad"): [
        ok(0, send("k", 0, 1)),
        ok(0, send("k", 1, 2)),
        ok(0, send("k", 2, 3)),
        ok(1, poll(k=[[0, 1]])),
        ok(2, poll(k=[[2, 3]])),
    ],
    ("unseen", "bad"): [ok(0, send("k", 0, 1)), ok(0, send("k", 1, 2)), ok(1, poll(k=[[0, 1]]))],
    ("precommitted-read", "bad"): [ok(0, send("k", 0, 1), poll(k=[[0, 1]]))],
    ("poll-skip", "bad"): [*SENT, SEEN, ok(1, poll(k=ALL[:1])), ok(1, poll(k=ALL[2:]))],
    ("nonmonotonic-poll", "bad"): [*SENT, SEEN, ok(1, poll(k=ALL[:2])), ok(1, poll(k=ALL[1:]))],
    ("poll-skip", "allowed"): [*SENT, SEEN, ok(1, f="subscribe"), ok(1, poll(k=ALL[:1])), ok(1, poll(k=ALL[2:]))],
    ("nonmonotonic-poll", "allowed"): [
        *SENT,
        SEEN,
        ok(1, f="subscribe"),
        ok(1, poll(k=ALL[:2])),
        ok(1, poll(k=ALL[1:])),
    ],
    ("int-poll-skip", "bad"): [*SENT, SEEN, ok(1, poll(k=ALL[:1]), poll(k=ALL[2:]))],
    ("int-nonmonotonic-poll", "bad"): [*SENT, SEEN, ok(1, poll(k=ALL[:2]), poll(k=ALL[:1]))],
    ("nonmonotonic-send", "bad"): [ok(0, send("k", 1, 2)), ok(0, send("k", 0, 1)), ok(1, poll(k=[[0, 1], [1, 2]]))],
    ("int-nonmonotonic-send", "bad"): [ok(0, send("k", 1, 2), send("k", 0, 1)), ok(1, poll(k=[[0, 1], [1, 2]]))],
    ("int-send-skip", "allowed"): [
        ok(0, send("k", 0, 1), send("k", 2, 3)),
        {**ok(1, send("k", None, 2)), "type": "info"},
        ok(2, poll(k=[[0, 1], [1, 2], [2, 3]])),
    ],
    ("G0", "allowed"): [
        ok(0, send("x", 0, 1), send("y", 1, 2)),
        ok(1, send("x", 1, 3), send("y", 0, 4)),
        ok(2, poll(x=[[0, 1], [1, 3]], y=[[0, 4], [1, 2]])),
    ],
    ("G1c", "bad"): [ok(0, send("x", 0, 1), poll(y=[[0, 2]])), ok(1, send("y", 0, 2), poll(x=[[0, 1]]))],
    ("G1c", "allowed"): [
        ok(0, send("x", 0, 1), poll(y=[[0, 2]])),
        ok(1, send("x", 1, 3), send("y", 0, 2)),
        ok(2, poll(x=[[0, 1], [1, 3]])),
    ],
}


def audit(tmp_path: Path, operations: list[dict[str, Any]]) -> Result:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps({"time": number, **line}) + "\n" for number, line in enumerate(operations)))
    return audit_history([path])


@pytest.mark.parametrize(("name", "severity"), list(HISTORIES))
def test_it_and_only_it(tmp_path: Path, name: str, severity: str) -> None:
    result = audit(tmp_path, HISTORIES[name, severity])
    assert {name: {severity: 1}} == result.counts()
    assert (severity == "bad") == result.is_bad


def test_a_clean_history(tmp_path: Path) -> None:
    result = audit(tmp_path, [*SENT, fail(3, send("k", None, 9)), SEEN, ok(1, poll(k=ALL[:2])), ok(1, poll(k=ALL[2:]))])
    assert {} == result.counts()
    assert [] == result.problems


def test_assigning_anew_begins_anew(tmp_path: Path) -> None:
    assert {} == audit(tmp_path, [*SENT, SEEN, ok(9, f="assign"), ok(9, poll(k=ALL[:2]))]).counts()


def test_an_invocation_without_its_end_may_have_happened(tmp_path: Path) -> None:
    assert {} == audit(tmp_path, [{**ok(0, send("k", None, 1)), "type": "invoke"}, ok(1, poll(k=[[0, 1]]))]).counts()


def test_an_invocation_that_failed_has_its_values(tmp_path: Path) -> None:
    lines = [
        {**ok(0, send("k", None, 1)), "type": "invoke"},
        {"process": 0, "type": "fail", "f": "txn"},
        ok(1, poll(k=[[0, 1]])),
    ]
    assert {"G1a": {"bad": 1}} == audit(tmp_path, lines).counts()


def test_unseen_and_lag_over_time(tmp_path: Path) -> None:
    tables = audit(tmp_path, [*SENT, ok(1, poll(k=ALL[:2])), ok(1, poll(k=ALL[2:]))]).tables
    assert [1, 2, 3, 4, 2, 0] == tables["unseen"]["unseen"].tolist()
    assert [3, 0] == tables["lag"]["lag"].tolist()


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        ("{", [("half-written", "info")]),
        ("{\n", [("bad-line", "bad")]),
        ("[]\n", [("bad-line", "bad")]),
        ('{"type": "ok"}\n', [("bad-operation", "bad")]),
    ],
)
def test_a_broken_line(tmp_path: Path, tail: str, found: list[tuple[str, str]]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({"time": 1, **SEEN}) + "\n" + tail)
    assert found == [(one.problem, one.severity) for one in audit_history([path]).problems]
