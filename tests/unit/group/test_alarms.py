from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.group.times import Alarms


class Clock:
    def __init__(self) -> None:
        self.deadlines: dict[str, int | None] = {}
        self.alarms = Alarms(lambda key: self.deadlines.get(key))

    def set(self, key: str, at: int | None) -> None:
        self.deadlines[key] = at
        self.alarms.arm(key)


def test_nothing_is_due_without_a_deadline() -> None:
    clock = Clock()
    clock.set("a", None)
    assert clock.alarms.next_at() is None
    assert [] == clock.alarms.due(1_000)


def test_a_deadline_is_due_once_when_it_has_come_and_again_when_it_is_armed_again() -> None:
    clock = Clock()
    clock.set("a", 10)
    assert 10 == clock.alarms.next_at()
    assert [] == clock.alarms.due(9)
    assert ["a"] == clock.alarms.due(10)
    assert [] == clock.alarms.due(11)
    assert clock.alarms.next_at() is None
    clock.alarms.arm("a")
    assert ["a"] == clock.alarms.due(11)
    clock.alarms.arm("a")
    clock.set("a", None)
    assert [] == clock.alarms.due(12)


def test_the_earliest_comes_first() -> None:
    clock = Clock()
    for key, at in (("a", 30), ("b", 10), ("c", 20)):
        clock.set(key, at)
    assert 10 == clock.alarms.next_at()
    assert ["b", "c", "a"] == clock.alarms.due(30)


def test_a_deadline_that_moves_later_leaves_its_alarm_until_then() -> None:
    clock = Clock()
    clock.set("a", 10)
    clock.set("a", 50)
    assert 10 == clock.alarms.next_at()
    assert [] == clock.alarms.due(10)
    assert 50 == clock.alarms.next_at()


def test_a_deadline_that_moves_earlier_is_not_missed() -> None:
    clock = Clock()
    clock.set("a", 50)
    clock.set("a", 10)
    assert 10 == clock.alarms.next_at()
    assert ["a"] == clock.alarms.due(10)


def test_arm_at_never_hides_an_earlier_alarm() -> None:
    clock = Clock()
    clock.set("a", 10)
    clock.alarms.arm_at("a", 90)
    assert 10 == clock.alarms.next_at()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 30)), max_size=30),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_what_is_due_is_what_has_a_deadline_by_then(moves: list[tuple[str, int | None]], looks: list[int]) -> None:
    clock = Clock()
    for key, at in moves:
        clock.set(key, at)
    for now in sorted(looks):
        expected = {key for key, at in clock.deadlines.items() if at is not None and at <= now}
        assert expected == set(clock.alarms.due(now))
        assert [] == clock.alarms.due(now)
        for key in expected:
            clock.alarms.arm(key)
    later = [at for at in clock.deadlines.values() if at is not None]
    next_at = clock.alarms.next_at()
    if later:
        assert next_at is not None
        assert next_at <= min(later)


def test_asking_costs_what_has_changed_and_not_what_is_due() -> None:
    asked = 0

    def deadline(key: str) -> int:
        nonlocal asked
        asked += 1
        return 10

    alarms = Alarms(deadline)
    for number in range(1000):
        alarms.arm(str(number))
    assert 1000 == len(alarms.due(10))
    for number in range(1000):
        alarms.arm(str(number))
        assert [str(number)] == alarms.due(10)
    assert asked <= 4000
