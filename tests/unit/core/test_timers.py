"""Timers: one time for each key, the last one set counts."""

import pytest

from odradek.core.flow import Kernel
from odradek.core.timers import NEVER, PUMPED_AT_ONCE, Alarm, Pumps, Timers


def test_a_call_is_made_once_at_its_time() -> None:
    timers, calls = Timers(), list[str]()
    timers.set("a", 10, lambda: calls.append("a"))
    timers.run(9)
    assert [] == calls
    timers.run(10)
    timers.run(11)
    assert ["a"] == calls


def test_a_key_set_again_has_only_its_new_time() -> None:
    timers, calls = Timers(), list[int]()
    timers.set("a", 10, lambda: calls.append(10))
    timers.set("a", 20, lambda: calls.append(20))
    assert 20 == timers.wake_at()
    timers.run(15)
    assert [] == calls
    timers.run(20)
    assert [20] == calls


def test_none_takes_a_key_back() -> None:
    timers, calls = Timers(), list[int]()
    timers.set("a", 10, lambda: calls.append(10))
    timers.set("a", None, lambda: None)
    timers.run(100)
    assert [] == calls
    assert timers.wake_at() is None


def test_calls_are_made_in_order_of_time_then_of_setting() -> None:
    timers, calls = Timers(), list[str]()
    for key, at in (("late", 2), ("first", 1), ("second", 1)):
        timers.set(key, at, lambda key=key: calls.append(key))  # type: ignore[misc]
    timers.run(2)
    assert ["first", "second", "late"] == calls


def test_a_call_may_set_its_own_timer_again() -> None:
    timers, calls = Timers(), list[int]()

    def again() -> None:
        calls.append(len(calls))
        timers.set("a", 10 + len(calls), again)

    timers.set("a", 10, again)
    timers.run(10)
    assert [0] == calls
    assert 11 == timers.wake_at()


def test_what_sets_itself_for_a_time_that_is_past_is_called_in_the_next_run() -> None:
    timers, calls = Timers(), list[int]()

    def again() -> None:
        calls.append(len(calls))
        assert len(calls) < 10, "it never ends"
        timers.set("a", 10, again)
        timers.set("b", 9, lambda: calls.append(-1))

    timers.set("a", 10, again)
    timers.run(20)
    assert [0] == calls
    assert 9 == timers.wake_at()
    timers.run(20)
    assert [0, -1, 2] == calls


def test_a_call_that_fails_takes_no_other_with_it() -> None:
    timers, calls = Timers(), list[str]()

    def fails() -> None:
        timers.set("a", 1, lambda: calls.append("a"))
        raise ValueError

    timers.set("first", 2, fails)
    timers.set("second", 3, lambda: calls.append("second"))
    with pytest.raises(ValueError):
        timers.run(3)
    timers.run(3)
    assert ["a", "second"] == calls


def test_times_that_no_longer_count_take_no_room_for_ever() -> None:
    timers, calls = Timers(), list[int]()
    for at in range(10_000):
        timers.set("a", 1_000_000 + at % 2, lambda: calls.append(1))
    assert len(timers._heap) < 100
    timers.run(1_000_001)
    assert [1] == calls


def test_whoever_is_left_for_the_next_step_is_pumped_in_it() -> None:
    timers = Timers()
    pumps = Pumps(timers)
    pumped: list[int] = []
    machines = [Machine(number, pumped) for number in range(PUMPED_AT_ONCE + 20)]
    for machine in machines[:-10]:
        pumps.soon(machine)
    pumps.run()
    assert list(range(PUMPED_AT_ONCE)) == pumped
    # A flow that goes on in the same step asks for more.
    for machine in machines[-10:]:
        pumps.soon(machine)
    pumps.run()
    assert (PUMPED_AT_ONCE, 0) == (len(pumped), timers.wake_at())
    pumps.left = PUMPED_AT_ONCE
    timers.run(5)
    pumps.run()
    assert list(range(PUMPED_AT_ONCE + 20)) == pumped
    assert timers.wake_at() is None


class Machine:
    """Tells that it was pumped."""

    def __init__(self, number: int, pumped: list[int]) -> None:
        self._number, self._pumped = number, pumped

    def pump(self) -> None:
        self._pumped.append(self._number)


def test_the_alarm_has_the_earliest_time_that_was_set_since_the_last_look() -> None:
    alarm = Alarm()
    timers, kernel = Timers(alarm), Kernel(alarm)
    assert NEVER == alarm.at
    timers.set("a", 20, lambda: None)
    timers.set("b", 30, lambda: None)
    assert 20 == alarm.at
    kernel.wait_until(10, None)
    kernel.wait_until(15, None)
    assert 10 == alarm.at == min(kernel.wake_at() or 0, timers.wake_at() or 0)
    alarm.at = NEVER
    timers.set("a", 20, lambda: None)  # as it was
    timers.set("b", None, lambda: None)
    assert NEVER == alarm.at
    timers.set("a", 12, lambda: None)
    assert 12 == alarm.at
