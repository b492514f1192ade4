"""Deadlines: what is due, and when to look again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.txn.deadlines import Deadlines, next_tick


@pytest.mark.parametrize(("at", "tick"), [(0, 0), (1, 10), (9, 10), (10, 10), (11, 20)])
def test_next_tick(at: int, tick: int) -> None:
    assert tick == next_tick(at, 10)


def test_due_is_level_triggered_and_wake_at_is_not() -> None:
    deadlines = Deadlines()
    deadlines.put("a", 10)
    deadlines.put("b", 20)
    assert 10 == deadlines.wake_at()
    assert [] == deadlines.due(9)
    assert ["a"] == deadlines.due(10)
    assert ["a"] == deadlines.due(11)
    assert 20 == deadlines.wake_at()
    assert ["a", "b"] == deadlines.due(20)
    assert deadlines.wake_at() is None
    deadlines.drop("a")
    deadlines.put("b", 30)
    assert [] == deadlines.due(29)
    assert 30 == deadlines.wake_at()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 50)), max_size=30))
def test_due_lists_what_a_plain_dictionary_would(steps: list[tuple[str, int | None]]) -> None:
    deadlines, plain = Deadlines(), dict[str, int]()
    for now, (key, at) in enumerate(steps):
        if at is None:
            deadlines.drop(key)
            plain.pop(key, None)
        else:
            deadlines.put(key, at)
            plain[key] = at
        assert sorted(deadlines.due(now)) == sorted(key for key, at in plain.items() if at <= now)
        coming = min((at for at in plain.values() if at > now), default=None)
        wake_at = deadlines.wake_at()
        # A dropped key may have it wake too early, never too late and never at once.
        assert wake_at is None or wake_at > now
        assert coming is None or (wake_at is not None and wake_at <= coming)
    assert len(plain) == len(deadlines)
