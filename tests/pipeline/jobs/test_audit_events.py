"""The audit of event logs, on small written ones, and on two real ones: the KIP-890 picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.wire.errors import ErrorCode
from odradek_pipeline.audit.result import Result, write_result
from odradek_pipeline.demo.__main__ import LEVELS, tell
from odradek_pipeline.jobs.audit_events import audit_events
from odradek_pipeline.report.write import write_report

SECOND = 1_000_000_000


def event(kind: str, at: float, **more: Any) -> dict[str, Any]:
    at_partition = {"topic": "t", "partition": 0} if kind.startswith(("transaction_", "lso")) else {}
    return {"ts_ns": int(at * SECOND), "wall_ns": 0, "seq": 0, "node": 1, "kind": kind, **at_partition, **more}


def state(at: float, producer: int, before: str | None, after: str) -> dict[str, Any]:
    return event(
        "state_change",
        at,
        transactional_id=f"id-{producer}",
        producer_id=producer,
        producer_epoch=0,
        state_from=before,
        state_to=after,
        tv=2,
    )


def opened(at: float, producer: int, offset: int) -> dict[str, Any]:
    return event("transaction_opened", at, producer_id=producer, producer_epoch=0, offset=offset)


def closed(at: float, producer: int, offset: int) -> dict[str, Any]:
    return event("transaction_closed", at, producer_id=producer, producer_epoch=0, offset=offset, commit=True)


def audit(tmp_path: Path, *events: dict[str, Any], **options: Any) -> Result:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return audit_events([path], **options)


def test_the_holder_is_the_smallest_open_first_offset(tmp_path: Path) -> None:
    events = [
        state(0, 1, "Empty", "Ongoing"),
        state(0, 2, "Empty", "Ongoing"),
        opened(1, 1, 10),
        opened(2, 2, 11),
        closed(4, 1, 12),
        state(5, 1, "PrepareCommit", "CompleteCommit"),
        closed(7, 2, 13),
        state(8, 2, "PrepareAbort", "CompleteAbort"),
    ]
    result = audit(tmp_path, *events)
    stalls = result.tables["stalls"]
    assert [("id-1", 1, 4, 10), ("id-2", 4, 7, 11)] == [
        (row["transactional_id"], row["begin_ns"] // SECOND, row["end_ns"] // SECOND, row["lso"])
        for row in stalls.to_dict("records")
    ]
    assert {} == result.counts()
    durations = result.tables["txn_durations"]
    assert [("id-1", "commit", 5), ("id-2", "abort", 8)] == [
        (row["transactional_id"], row["outcome"], (row["end_ns"] - row["begin_ns"]) // SECOND)
        for row in durations.to_dict("records")
    ]


def test_a_long_stall_is_told_but_allowed(tmp_path: Path) -> None:
    result = audit(tmp_path, state(0, 1, "Empty", "Ongoing"), opened(1, 1, 10), closed(12, 1, 11), stall_ms=10_000)
    assert {"lso-stall": {"allowed": 1}} == result.counts()


def test_what_no_coordinator_has_under_way_hangs(tmp_path: Path) -> None:
    result = audit(
        tmp_path, state(0, 1, "PrepareCommit", "CompleteCommit"), opened(1, 1, 10), event("lso_moved", 2, hw=12, lso=10)
    )
    assert {"txn-hanging": {"bad": 1}, "lso-stall": {"bad": 1}} == result.counts()
    assert ["id-1", "id-1"] == result.anomalies["transactional_id"].tolist()


def test_open_and_known_at_the_end_is_no_anomaly(tmp_path: Path) -> None:
    assert {} == audit(tmp_path, state(0, 1, "Empty", "Ongoing"), opened(1, 1, 10)).counts()


def test_verifications(tmp_path: Path) -> None:
    ends = [
        event(
            "verify_end",
            at,
            topic="t",
            partition=0,
            transactional_id="x",
            producer_id=1,
            verdict=verdict,
            error="NONE",
            duration_ns=at * 1_000_000,
        )
        for at, verdict in ((1, "accepted"), (3, "refused"))
    ]
    assert ({"accepted": 1, "refused": 1}, 2.0) == (
        (facts := audit(tmp_path, *ends).facts)["verifications"],
        facts["verification_ms"]["median"],
    )


def test_a_broken_event(tmp_path: Path) -> None:
    result = audit(tmp_path, {"kind": "lso_moved"}, {"ts_ns": 1, "kind": "transaction_opened"})
    assert ["bad-event", "bad-event"] == [one.problem for one in result.problems]
    assert result.is_bad


@pytest.mark.client
def test_the_late_produce_with_and_without_verification(tmp_path: Path) -> None:
    """KIP-890, "Motivation": a late message of an ended transaction hangs, and blocks the last stable offset."""
    answers = {}
    counts = {}
    for name, options in LEVELS.items():
        (tmp_path / name).mkdir()
        answers[name] = tell(tmp_path / name / "events.jsonl", *options, transactions=3)
        result = audit_events([tmp_path / name / "events.jsonl"])
        counts[name] = result.counts()
        if not result.counts():
            assert {"accepted": 4, "refused": 1} == result.facts["verifications"]
        else:
            assert {"late-shop"} == set(result.anomalies["transactional_id"])
        write_result(result, tmp_path / name)
    assert {"level-0-unverified": ErrorCode.NONE, "level-2": ErrorCode.TRANSACTION_ABORTABLE} == answers
    assert {"level-0-unverified": {"txn-hanging": {"bad": 1}, "lso-stall": {"bad": 1}}, "level-2": {}} == counts
    assert write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "held by late-shop" in page
    assert "<script" not in page
    assert {"level-0-unverified", "level-2"} == json.loads((tmp_path / "summary.json").read_text())["audits"].keys()
