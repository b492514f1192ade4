"""The audit of histories on Spark: the same answers as in one process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from tests.pipeline.jobs.test_audit_history import ALL, HISTORIES, SEEN, SENT, fail, ok, poll, send

from odradek_pipeline.audit.result import Result, write_result
from odradek_pipeline.jobs.audit_history import audit_history
from odradek_pipeline.jobs.audit_history_spark import audit_history_on_spark
from odradek_pipeline.spark.lines import lines_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def played(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Some processes that send and poll, and see now and then what they should not."""
    log: dict[str, list[int]] = {"x-0": [], "x-1": [], "y": []}
    lines: list[dict[str, Any]] = []
    for number in range(count):
        process, key = dice.randrange(4), dice.choice(list(log))
        steps: list[list[Any]] = []
        for _ in range(dice.randrange(1, 4)):
            if dice.random() < 0.5:
                log[key].append(number * 10 + len(steps))
                at = len(log[key]) - 1 if dice.random() < 0.95 else max(0, len(log[key]) - 3)
                steps.append(send(key, at if dice.random() < 0.9 else None, log[key][-1]))
            else:
                start = dice.randrange(len(log[key]) + 1)
                read = [[at, log[key][at]] for at in range(start, min(len(log[key]), start + 3))]
                steps.append(poll(**{key: read if dice.random() < 0.9 else read[::-1]}))
            key = dice.choice(list(log))
        whole = ok(process, *steps) | {"time": number // 2}
        kind = dice.choices(["ok", "fail", "info", "subscribe", "lost"], [20, 2, 2, 1, 1])[0]
        if kind == "subscribe":
            whole |= {"f": dice.choice(["subscribe", "assign"]), "value": []}
        elif kind != "lost":
            whole["type"] = kind
        if dice.random() < 0.7 or kind == "lost":
            lines.append(whole | {"type": "invoke"})
            whole = {name: value for name, value in whole.items() if name != "value" or dice.random() < 0.7}
        if kind != "lost":
            lines.append(whole)
    return lines


def told(result: Result) -> list[tuple[Any, ...]]:
    return sorted(result.anomalies.itertuples(index=False, name=None), key=repr)


def table(folder: Path, name: str) -> list[tuple[Any, ...]]:
    frame = pd.read_parquet(folder / f"{name}.parquet")
    return sorted(frame[sorted(frame.columns)].itertuples(index=False, name=None), key=repr)


def test_it_finds_what_one_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    """Every anomaly that there is, healthy and random histories, and lines of all kinds that cannot be read."""
    histories = [*HISTORIES.values(), [*SENT, fail(3, send("k", None, 9)), SEEN, ok(1, poll(k=ALL[:2]))]]
    histories += [played(random.Random(seed), 60) for seed in range(6)]
    paths = []
    for number, history in enumerate(histories):
        paths.append(tmp_path / f"history {number}.jsonl")
        lines = [json.dumps({"time": at, **line}) for at, line in enumerate(history)]
        paths[-1].write_text("\n".join(lines) + "\n")
    bad = ["{", "[]", "", '{"type": "ok"}', '{"process": 1}', json.dumps({**SEEN, "value": 7}), json.dumps(ok(1, [9]))]
    values: list[list[Any]] = [
        ["send", "k", [5, {"a": 1}]],
        ["poll", {"k": [[5, {"a": 1}]]}],
        ["send", "ü", [0, "text"]],
        ["send", "k", [6, 1.0]],
    ]
    odd = json.dumps(ok(2, *values))
    paths[-1].write_text("\n".join([*bad, odd, paths[-1].read_text(), '{"cut": ']))
    plain = audit_history(paths)
    write_result(plain, tmp_path / "plain")
    spread = audit_history_on_spark(spark, paths, tmp_path / "spread", range_bytes=1500)
    write_result(spread, tmp_path / "spread")
    assert {name for name, _ in HISTORIES} == plain.counts().keys()
    assert told(plain) == told(spread)
    key = ["path", "position", "problem"]
    assert sorted(plain.problems, key=lambda one: [getattr(one, name) for name in key]) == sorted(
        spread.problems, key=lambda one: [getattr(one, name) for name in key]
    )
    assert {"bad-line", "bad-operation", "half-written"} == {one.problem for one in spread.problems}
    assert plain.facts == spread.facts
    for name in ("transactions", "unseen", "lag"):
        assert table(tmp_path / "plain", name) == table(tmp_path / "spread", name), name
    assert not (tmp_path / "spread" / "work").exists()


def test_ranges_of_lines(tmp_path: Path) -> None:
    """Wherever a file is cut, each line belongs to one range."""
    content = b"a\nbb\n\nccc\ndddd"
    path = tmp_path / "lines"
    path.write_bytes(content)
    whole = list(lines_between(str(path), 0, -1))
    assert content == b"".join(line for _, line in whole)
    for size in range(1, len(content) + 2):
        starts = list(range(0, len(content), size))
        ends = [*starts[1:], -1]
        assert whole == [
            one for start, end in zip(starts, ends, strict=True) for one in lines_between(str(path), start, end)
        ], size
