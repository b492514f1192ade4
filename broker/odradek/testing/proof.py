"""What rules say at the end of a test: that they did not see what they expect, or what a function of theirs raised."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import Future
from os import PathLike
from typing import TYPE_CHECKING
from weakref import WeakSet

from odradek.net.cluster import RunningCluster
from odradek.node.rules.model import Rule

if TYPE_CHECKING:
    from odradek.control.plan import Plan
    from odradek.node.rules.armed import Armed

__all__ = ["RUNNING", "add_rules", "end", "raise_what_rules_say", "rules_of", "story", "verify_running"]

RUNNING: WeakSet[RunningCluster] = WeakSet()
"""The clusters of tests that run now, for the pytest plugin."""
if hasattr(os, "register_at_fork"):  # Windows forks nothing
    # The clusters of a parent do not answer in a forked process.
    os.register_at_fork(after_in_child=RUNNING.clear)
_heard: WeakSet[RunningCluster] = WeakSet()
"""Those that were asked at the end of a test: their own end, in a fixture, has nothing to add."""


def rules_of(rules: Iterable[Rule] | str | PathLike[str]) -> list[Rule]:
    if isinstance(rules, str | PathLike):
        from odradek.control.plan import load_plan

        return load_plan(rules).rules
    listed = list(rules)
    for each in listed:
        if not isinstance(each, Rule):
            raise TypeError(f"A rule is a Rule, as `rule(…)` makes it, not {each!r}.")
    return listed


def story(name: str) -> Plan:
    """The plan of a story. Raises LookupError for one that there is not."""
    from odradek.control.stories import read_story

    return read_story(name)


def add_rules(cluster: RunningCluster, rules: list[Rule]) -> list[Armed]:
    """Apply rules, and what is to follow from them."""
    from odradek.control import steps  # most tests have no rules

    return steps.add_rules(cluster, rules)


def raise_what_rules_say(cluster: RunningCluster, error: BaseException | None) -> None:
    """Raise what a function of a rule has raised; else, if the test has not failed, what a rule expects in vain."""
    if not cluster.has_rules:
        return
    rules = cluster.rules
    if rules.failures:
        raise rules.failures.pop(0) from error
    if error is None and (unmet := rules.verify()):
        raise AssertionError(" ".join(unmet))


def end(cluster: RunningCluster, error: BaseException | None) -> None:
    """A cluster has ended, with this error of the test: its rules say what they have to say."""
    RUNNING.discard(cluster)
    if cluster not in _heard:
        raise_what_rules_say(cluster, error)


def verify_running(error: BaseException | None) -> None:
    """Have the rules of every cluster that runs say what they have to say; `error` is how the test has failed."""
    for cluster in list(RUNNING):
        _heard.add(cluster)
        if cluster.has_rules:
            _in_loop(cluster, error)


def _in_loop(cluster: RunningCluster, error: BaseException | None) -> None:
    """Look at the counts while nothing changes them."""
    told: Future[None] = Future()

    def look() -> None:
        try:
            raise_what_rules_say(cluster, error)
            told.set_result(None)
        except BaseException as complaint:
            told.set_exception(complaint)

    if _runs_here(cluster.loop) or not cluster.loop.is_running():
        look()
    else:
        cluster.loop.call_soon_threadsafe(look)
    told.result()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
