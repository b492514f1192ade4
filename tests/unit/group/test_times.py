"""Times of members: the soonest that was set, and what is over."""

from __future__ import annotations

from odradek.group.times import Times


def test_the_soonest_is_of_those_set_since_it_was_asked_for() -> None:
    times: Times[str] = Times()
    assert times.soonest_set() is None
    times.set("a", 30)
    times.set("b", 20)
    times.set("c", 40)
    assert 20 == times.soonest_set()
    assert times.soonest_set() is None
    times.set("c", 50)
    assert 50 == times.soonest_set()
    assert 20 == times.earliest(), "it is still the earliest of all"


def test_what_is_over_is_dropped() -> None:
    times: Times[str] = Times()
    for key, at in {"b": 20, "a": 10, "c": 30}.items():
        times.set(key, at)
    assert ["b", "a"] == times.over(20)
    assert [] == times.over(20)
    assert "a" not in times
    assert times.get("a") is None
    assert 30 == times.get("c") == times.earliest()


def test_one_that_is_set_stays_unless_it_is_set_anew() -> None:
    times: Times[str] = Times()
    times.set_if_none("a", 10)
    times.set_if_none("a", 5)
    assert 10 == times.get("a")
    times.set("a", 40)
    assert [] == times.over(10)
    times.drop("a")
    times.drop("a")
    assert times.earliest() is None
