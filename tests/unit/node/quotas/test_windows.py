"""Rates and buckets of tokens, held to Kafka's own classes (`Rate`, `TokenBucket`) step by step.

Each line of `windows_of_kafka.json` is one run: a pause, what was recorded after it, whether it was asked for before it
was recorded, and the throttle time that Kafka 4.4 computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.node.quotas.windows import Rate, TokenBucket, Windows

RUNS = json.loads((Path(__file__).parent / "windows_of_kafka.json").read_text())
START_MS = 1_700_000_000_000


def played(run: dict[str, Any]) -> list[int]:
    windows = Windows(run["samples"], run["window_ms"])
    limit, now = run["bound"], START_MS
    rate, bucket = Rate(), TokenBucket()
    throttles = []
    for pause, value, strict, _ in run["steps"]:
        now += pause
        if run["kind"] == "rate":
            rate.record(windows, value, now)
            # What is taken back is not checked.
            throttles.append(rate.throttle_ms(windows, limit, now) if value >= 0 else 0)
        else:
            throttle = bucket.throttle_ms(windows, limit, now) if strict else 0
            if not throttle:
                bucket.record(windows, limit, value, now)
                throttle = 0 if strict else bucket.throttle_ms(windows, limit, now)
            throttles.append(throttle)
    return throttles


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_as_kafka_computes_it(number: int) -> None:
    run = RUNS[number]
    assert [step[3] for step in run["steps"]] == played(run)


def test_the_runs_throttle_now_and_then() -> None:
    throttled = [step[3] > 0 for run in RUNS for step in run["steps"]]
    assert 0.2 < sum(throttled) / len(throttled) < 0.9
