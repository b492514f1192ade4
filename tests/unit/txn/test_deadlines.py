"""Deadlines: what is due, and when to look again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.txn.ledger import Deadlines, next_tick


@pytest.mark.parametrize(("at", "tick"), [(0, 0), (1, 10), (9, 10), (10, 10), (11, 20)])
def test_next_tick(at: int, tick: int) -> None:
    assert tick == next_tick(at, 10)


def test_a_key_is_listed_once_until_it_is_put_or_asked_for_again() -> None:
    deadlines = Deadlines()
    deadlines.put("a", 10)
    deadlines.put("b", 20)
    assert 10 == deadlines.wake_at()
    assert [] == deadlines.due(9)
    assert ["a"] == deadlines.due(10)
    assert [] == deadlines.due(11)
    assert 20 == deadlines.wake_at()
    deadlines.again("a")
    deadlines.again("b")
    assert 10 == deadlines.wake_at()
    assert ["a", "b"] == deadlines.due(20)
    assert deadlines.wake_at() is None
    assert 2 == len(deadlines), "they are owed still"
    deadlines.drop("a")
    deadlines.again("a")
    deadlines.put("b", 30)
    deadlines.again("b")
    assert [] == deadlines.due(29)
    assert 30 == deadlines.wake_at()


def test_what_was_put_elsewhere_takes_no_room_for_ever() -> None:
    deadlines = Deadlines()
    for at in range(10_000):
        deadlines.put(f"{at % 10}", 1_000_000 + at)
    assert len(deadlines._heap) < 100
    assert [f"{at}" for at in range(10)] == deadlines.due(2_000_000)


STEPS = st.tuples(st.sampled_from("abc"), st.sampled_from(["drop", "again"]) | st.integers(0, 50))


@given(st.lists(STEPS, max_size=30))
def test_due_lists_what_a_plain_dictionary_would(steps: list[tuple[str, str | int]]) -> None:
    deadlines, plain, listed = Deadlines(), dict[str, int](), set[str]()
    for now, (key, step) in enumerate(steps):
        if step == "drop":
            deadlines.drop(key)
            plain.pop(key, None)
        elif step == "again":
            deadlines.again(key)
        else:
            assert isinstance(step, int)
            deadlines.put(key, step)
            plain[key] = step
        listed.discard(key)
        expected = {key for key, at in plain.items() if at <= now} - listed
        assert sorted(expected) == sorted(deadlines.due(now))
        listed |= expected
        assert min((at for at in plain.values() if at > now), default=None) == deadlines.wake_at()
        assert len(plain) == len(deadlines)


def test_a_thousand_are_listed_at_a_time() -> None:
    deadlines = Deadlines()
    for number in range(2_500):
        deadlines.put(f"x{number}", number)
    assert [1_000, 1_000, 500, 0] == [len(deadlines.due(5_000)) for _ in range(4)]
