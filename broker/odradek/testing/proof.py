"""What rules say at the end of a test: that they did not see what they expect, or what a function of theirs raised."""

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
"""A rule says what it has to say in a sentence: pytest and unittest leave these frames out of tracebacks."""
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


def unmet(cluster: RunningCluster, error: BaseException | None) -> str | None:
    """What rules expect in vain, unless the test has failed; raises what a function of a rule has raised."""
    if not cluster.has_rules:
        return None
    rules = cluster.rules
    if rules.failures:
        raise rules.failures.pop(0) from error
    return " ".join(rules.verify()) or None if error is None else None


def raise_what_rules_say(cluster: RunningCluster, error: BaseException | None) -> None:
    """Raise what a function of a rule has raised; else, if the test has not failed, what a rule expects in vain."""
    sentence = unmet(cluster, error)
    if sentence is not None:
        raise AssertionError(sentence)


def end(cluster: RunningCluster, error: BaseException | None, note: str | None) -> None:
    """A cluster has ended, with this error of the test: its rules say what they have to say.

    The note goes with the error, or with what is raised here in its place.
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
    """What the rules of every cluster that runs expect in vain; `error` is how the test has failed.

    Raises what a function of a rule has raised.
    """
    sentences = []
    for cluster in list(RUNNING):
        _heard.add(cluster)
        if cluster.has_rules:
            sentences.append(in_loop(cluster.loop, partial(unmet, cluster, error)))
    return " ".join(filter(None, sentences)) or None
