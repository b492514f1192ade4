"""Checks of rules at the end of a test: expectations that are not met, and exceptions of their functions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING
from weakref import WeakSet

from odradek.faults.model import Rule
from odradek.net.cluster import RunningCluster
from odradek.testing.loops import in_loop
from odradek.testing.witness import RUNNING

if TYPE_CHECKING:
    from odradek.control.plan import Plan
    from odradek.faults.armed import Armed

__all__ = ["add_rules", "end", "raise_what_rules_say", "rules_of", "story", "unmet", "verify_running"]

__tracebackhide__ = True
__unittest = True
"""The error of a rule is one sentence: pytest and unittest leave these frames out of tracebacks."""
_heard: WeakSet[RunningCluster] = WeakSet()
"""Clusters that were checked at the end of a test: they are not checked again when a fixture ends them."""


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
    """The plan of a story. Raises LookupError for an unknown story."""
    from odradek.control.stories import read_story

    return read_story(name)


def add_rules(cluster: RunningCluster, rules: list[Rule]) -> list[Armed]:
    """Apply rules, with their follow-ups."""
    from odradek.control import steps  # most tests have no rules

    return steps.add_rules(cluster, rules)


def unmet(cluster: RunningCluster, error: BaseException | None) -> str | None:
    """A sentence about unmet expectations, unless the test has failed; raises the exception of a rule's function."""
    if not cluster.has_rules:
        return None
    rules = cluster.rules
    if rules.failures:
        raise rules.failures.pop(0) from error
    return " ".join(rules.verify()) or None if error is None else None


def raise_what_rules_say(cluster: RunningCluster, error: BaseException | None) -> None:
    """Raise the exception of a rule's function; else, if the test has not failed, an unmet expectation."""
    sentence = unmet(cluster, error)
    if sentence is not None:
        raise AssertionError(sentence)


def end(cluster: RunningCluster, error: BaseException | None, note: str | None) -> None:
    """Check the rules of a cluster that has ended, with this error of the test.

    The note is added to that error, or to the one that is raised here.
    """
    RUNNING.pop(cluster, None)
    try:
        if cluster not in _heard:
            raise_what_rules_say(cluster, error)
    except BaseException as said:
        error = said
        raise
    finally:
        if error is not None and note is not None:
            error.add_note(note)


def verify_running(error: BaseException | None) -> str | None:
    """A sentence about unmet expectations in running clusters; `error` is the failure of the test.

    Raises the exception of a rule's function.
    """
    sentences = []
    for cluster in list(RUNNING):
        _heard.add(cluster)
        if cluster.has_rules:
            sentences.append(in_loop(cluster.loop, partial(unmet, cluster, error)))
    return " ".join(filter(None, sentences)) or None
