"""The audit of event logs on Spark: the same answers as in one process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from tests.pipeline.jobs.test_audit_events import SECOND, event, state

from odradek_pipeline.audit.result import write_result
from odradek_pipeline.jobs.audit_events import COLUMNS, audit_events
from odradek_pipeline.jobs.audit_events_spark import audit_events_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Transactions of some producers in some partitions, in one order; some end, some hang, some stay open."""
    events: list[dict[str, Any]] = []
    ends = dict.fromkeys(range(3), 0)
    open_in: dict[int, set[int]] = {}
    for number in range(count):
        at, producer = number / 7, dice.randrange(5)
        if producer not in open_in:
            events.append(state(at, producer, "Empty", "Ongoing"))
            open_in[producer] = set()
        elif dice.random() < 0.3:
            events.append(state(at, producer, "Ongoing", "PrepareCommit"))
            for partition in sorted(open_in[producer]):
                if dice.random() < 0.9:
                    where = {"topic": "t", "partition": partition, "producer_id": producer, "producer_epoch": 0}
                    events.append(event("marker_written", at) | where | {"offset": ends[partition]})
                    events.append(event("transaction_closed", at) | where | {"offset": ends[partition], "commit": True})
                    events.append(event("lso_moved", at) | where | {"hw": ends[partition] + 1, "lso": ends[partition]})
                    ends[partition] += 1
            events.append(state(at, producer, "PrepareCommit", dice.choice(["CompleteCommit", "CompleteAbort"])))
            del open_in[producer]
        else:
            partition = dice.randrange(3)
            place = {"topic": "t", "partition": partition, "producer_id": producer}
            if partition not in open_in[producer]:
                events.append(event("transaction_opened", at, offset=ends[partition], producer_epoch=0) | place)
                open_in[producer].add(partition)
            ends[partition] += 1
            verified = event("verify_end", at, transactional_id=f"id-{producer}", verdict="accepted", error="NONE")
            events.append(verified | place | {"duration_ns": number * 1000})
        if dice.random() < 0.1:
            events.append(event("request", at, api="PRODUCE", version=12, client_id="c"))
    events.append(event("transaction_opened", count / 7, offset=ends[0], producer_id=9, producer_epoch=0))
    for number, one in enumerate(events):
        one["seq"] = number
        one["ts_ns"] += number
    return events


def read(path: Path, name: str) -> list[tuple[object, ...]]:
    frame = pd.read_parquet(path / f"{name}.parquet")[COLUMNS[name]]
    rows = [tuple(None if pd.isna(cell) else cell for cell in row) for row in frame.itertuples(index=False)]
    return sorted(rows, key=repr)


def test_it_finds_what_one_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    events = made(random.Random(7), 500)
    first, second = tmp_path / "first.jsonl", tmp_path / "second, with a blank.jsonl"
    half = len(events) // 2
    first.write_text("".join(json.dumps(one) + "\n" for one in events[:half]) + "\n")
    second.write_text("".join(json.dumps(one) + "\n" for one in events[half:]) + '{"ts_ns": 1, "ki')
    plain = audit_events([first, second], stall_ms=3000)
    write_result(plain, tmp_path / "plain")
    spread = audit_events_on_spark(spark, [first, second], tmp_path / "spread", stall_ms=3000)
    write_result(spread, tmp_path / "spread")
    assert {"txn-hanging", "lso-stall"} == plain.counts().keys()
    columns = ["anomaly", "severity", "topic", "partition", "offset", "producer_id", "transactional_id", "detail"]
    told = [sorted(one.anomalies[columns].to_numpy().tolist(), key=repr) for one in (plain, spread)]
    assert told[0] == told[1]
    for name in COLUMNS:
        assert read(tmp_path / "plain", name) == read(tmp_path / "spread", name), name
    assert plain.facts["transactions"] == spread.facts["transactions"]
    assert plain.facts["verifications"] == spread.facts["verifications"]
    assert [("half-written", "info")] == [(one.problem, one.severity) for one in spread.problems]
    assert [str(second)] == [one.path for one in spread.problems]
    assert not (tmp_path / "spread" / "work").exists()


def test_what_is_wrong_with_a_line(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines: list[object] = [{"kind": "lso_moved"}, {"ts_ns": 1, "kind": "transaction_opened"}, [1]]
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + json.dumps(event("lso_moved", 2, hw=1, lso=1)) + "\n"
    )
    result = audit_events_on_spark(spark, [path], tmp_path / "out")
    assert ["bad-event", "bad-event", "bad-line"] == sorted(one.problem for one in result.problems)
    assert (True, 1) == (result.is_bad, result.facts["events"])
    path.write_text(json.dumps(state(1, 1, "Empty", "Ongoing")) + "\n")
    assert not audit_events_on_spark(spark, [path], tmp_path / "out").is_bad
    assert SECOND == read(tmp_path / "out", "txn_states")[0][0]
