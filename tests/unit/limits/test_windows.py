"""Rates and buckets of tokens, held to Kafka's own classes (`Rate`, `TokenBucket`) step by step.

Each line of `windows_of_kafka.json` is one run: a pause, what was recorded after it, whether it was asked for before it
was recorded, and the throttle time that Kafka 4.4 computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.limits.windows import Rate, TokenBucket, Windows, as_int

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


limits = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(limits, st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 1e18)), min_size=1, max_size=5))
def test_whatever_the_limit_is_there_is_a_time_to_wait(limit: float, used: list[tuple[int, float]]) -> None:
    rate, bucket, windows, now = Rate(), TokenBucket(), Windows(), START_MS
    for pause, value in used:
        now += pause
        rate.record(windows, value, now)
        bucket.record(windows, limit, value, now)
        for throttle_ms in (rate.throttle_ms(windows, limit, now), bucket.throttle_ms(windows, limit, now)):
            assert 0 <= throttle_ms < 2**63
            assert -(2**31) <= as_int(throttle_ms) < 2**31


def test_times_beyond_all_bounds() -> None:
    rate = Rate()
    rate.record(Windows(), 300, START_MS)
    assert 2**63 - 1 == rate.throttle_ms(Windows(), 5e-324, START_MS)
    assert 2**63 - 1 == rate.throttle_ms(Windows(), 0, START_MS)
    assert [0, -1, 2**31 - 1, -(2**31)] == [as_int(each) for each in (2**32, 2**63 - 1, 2**31 - 1, 2**31)]
