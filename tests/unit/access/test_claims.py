"""Times and objects in tokens: whatever number stands there, it is a time or none, and never an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.access.claims import LONG_MAX, LONG_MIN, json_object, rounded_ms, whole_ms

numbers = st.one_of(st.integers(-(10**400), 10**400), st.floats(), st.sampled_from([10**309, -(10**309), 2**63, 1e300]))


@given(st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=1)))
def test_any_value_is_a_time_or_none(value: object) -> None:
    read = json_object(json.dumps({"exp": value}))
    for of in (rounded_ms, whole_ms):
        for each in [value] if read is None else [value, read["exp"]]:
            found = of(each) if each == each else 0
            assert found is None or LONG_MIN * 1000 <= found <= LONG_MAX * 1000


def test_times_of_unsigned_tokens_are_rounded_and_end_with_longs() -> None:
    assert [1500, 2, 0, -1] == [rounded_ms(each) for each in (1.5, 0.0015, 0.0004, -0.0006)]
    assert [LONG_MAX] * 4 == [rounded_ms(each) for each in (10**309, 1e300, float("inf"), LONG_MAX)]
    assert [LONG_MIN] * 3 == [rounded_ms(each) for each in (-(10**309), -1e300, float("-inf"))]


def test_times_of_signed_tokens_are_whole_seconds() -> None:
    assert [1000, -5000, LONG_MAX * 1000] == [whole_ms(each) for each in (1.9, -5, 1e300)]
    assert [None] * 4 == [whole_ms(each) for each in (LONG_MAX + 1, LONG_MIN - 1, 10**309, "5")]


@pytest.mark.parametrize(
    "text", ['{"exp": NaN}', '{"exp": Infinity}', '{"exp": -Infinity}', '{"exp": %s}' % ("9" * 1001), "[1]", "{", ""]
)
def test_what_is_no_object_of_json(text: str) -> None:
    assert json_object(text) is None


def test_what_is_said_twice() -> None:
    assert {"exp": 2} == json_object('{"exp": 1, "exp": 2}')
    assert json_object('{"exp": 1, "exp": 2}', once=True) is None
