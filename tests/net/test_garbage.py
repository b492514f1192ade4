"""Collections are short in a process that is ours, and nothing is lost for good; in a user's nothing changes."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.config.table import Config
from odradek.net import garbage
from odradek.net.cluster import RunningCluster
from odradek.net.garbage import Garbage
from odradek.net.serve import ServeOptions, serve
from odradek.sim.world.world import Lines
from odradek.testing import Cluster

pytestmark = pytest.mark.anyio
MANY = 500_000
THRESHOLDS = (700, 10, 10)


class Time:
    """A clock, and what the process has used of a processor."""

    def __init__(self) -> None:
        self.used = self.now = 0.0

    def passes(self, seconds: float, *, busy: float) -> None:
        self.now += seconds
        self.used += seconds * busy


class Circle:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def as_python_has_it() -> Iterator[None]:
    """Whatever simulations were played in this process: they collect less."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def kept_short(time: Time) -> Iterator[Garbage]:
    with Garbage(used_s=lambda: time.used, now_s=lambda: time.now) as kept_short:
        time.passes(5, busy=0)
        assert kept_short.look_if_idle()
        yield kept_short


def test_a_start_collects_nothing_until_the_process_is_idle(time: Time) -> None:
    circle = Circle()
    gone, _ = weakref.ref(circle), gc.collect()
    del circle
    looked: list[str] = []

    def look(phase: str, info: dict[str, Any]) -> None:
        looked.append(phase)

    gc.callbacks.append(look)
    try:
        with Garbage(used_s=lambda: time.used, now_s=lambda: time.now) as kept_short:
            assert (looked, gone() is None) == ([], False)
            time.passes(5, busy=0)
            assert kept_short.look_if_idle()
            assert gone() is None
    finally:
        gc.callbacks.remove(look)


def test_a_full_collection_looks_only_at_what_is_new(kept_short: Garbage) -> None:
    looked: list[int] = []

    def look(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked.append(len(gc.get_objects()))

    gc.collect()  # a full one comes when there is a quarter as much again as after the one before
    gc.callbacks.append(look)
    try:
        made = [[index] for index in range(MANY)]
    finally:
        gc.callbacks.remove(look)
    assert len(made) == MANY
    assert looked
    # Each is looked at once, and what was there before not at all.
    assert sum(looked) <= 1.1 * MANY


def test_what_is_young_is_collected_as_ever(kept_short: Garbage) -> None:
    gone = weakref.ref(Circle())
    made = [[index] for index in range(10_000)]
    assert gone() is None
    assert made


def in_a_circle_put_aside() -> weakref.ref[Circle]:
    circle = Circle()
    gc.collect()
    return weakref.ref(circle)


def test_what_was_put_aside_is_looked_at_in_an_idle_moment(
    kept_short: Garbage, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "GROWN", 0.5)
    gone = in_a_circle_put_aside()
    gc.collect()
    assert gone() is not None
    time.passes(5, busy=0.5)
    assert not kept_short.look_if_idle()
    time.passes(5, busy=0.001)
    assert kept_short.look_if_idle()
    assert gone() is None
    # There is nothing new since.
    time.passes(5, busy=0)
    assert not kept_short.look_if_idle()


def test_nobody_looks_while_there_is_little_more(kept_short: Garbage, time: Time) -> None:
    gone = in_a_circle_put_aside()
    time.passes(5, busy=0)
    assert not kept_short.look_if_idle()
    assert gone() is not None


async def test_a_cluster_in_a_process_that_is_not_ours_leaves_the_collector_alone() -> None:
    def settings() -> tuple[object, ...]:
        return list(gc.callbacks), gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()

    before = settings()
    async with Cluster():
        assert before == settings()
    assert before == settings()


def test_serve_keeps_collections_short_as_long_as_it_lasts() -> None:
    kept: list[bool] = []

    def is_kept() -> bool:
        return any(isinstance(getattr(each, "__self__", None), Garbage) for each in gc.callbacks)

    def ready(cluster: RunningCluster, metrics_url: str | None) -> None:
        kept.append(is_kept())
        os.kill(os.getpid(), signal.SIGTERM)

    serve(ServeOptions(config=Config.parse({}), port=0), log=Lines(), ready=ready)
    assert kept == [True]
    assert not is_kept()
