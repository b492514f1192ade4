"""Rules: the requests that they hold, have changed, or wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.control.messages.why import Reason
from odradek.control.why.remedies import of_kept
from odradek.control.why.scene import Kept, Scene, shown
from odradek.core.wording import counted
from odradek.stuck.words import ago, in_time, plain

if TYPE_CHECKING:
    from odradek.faults.armed import Armed
    from odradek.faults.model import Act

__all__ = ["keeping_rules", "other_rules"]

SENTENCE_MAX = 600
VERBS = {
    "held": "holds {request} for {took}",
    "dropped": "has dropped {request} {took} ago",
    "delayed": "delays {request} for {took}",
}


def keeping_rules(scene: Scene) -> Iterator[Reason]:
    """Rules that hold requests, those that hold for ever first."""
    for how in ("held", "dropped", "delayed"):
        of_rule: dict[str, list[Kept]] = {}
        for each in scene.kept:
            if each.how == how:
                of_rule.setdefault(each.armed.name, []).append(each)
        for name, kept in of_rule.items():
            yield _keeping(name, kept, scene.now)


def _keeping(name: str, kept: list[Kept], now: int) -> Reason:
    first, each = kept[0], "it" if len(kept) == 1 else "them"
    until = max((item.until_ms or 0 for item in kept), default=0)
    said, ends = {
        "held": ("nobody serves {each} until the rule is released or removed", "the rule is released or removed"),
        "dropped": ("nobody ever answers {each}", None),
        "delayed": (f"the rule lets {{each}} go on {in_time(until, now)}", f"its time comes, {in_time(until, now)}"),
    }[first.how]
    more = f", and {len(kept) - 1} more" if len(kept) > 1 else ""
    deed = VERBS[first.how].format(request=shown(first.request), took=ago(now - first.since_ms))
    return Reason(
        about="rule",
        name=name,
        sentence=f"Rule {plain(first.armed.title)} {deed}{more}: {said.format(each=each)}.",
        stuck=True,
        since_ms=first.since_ms,
        held_by=[],
        ends=ends,
        remedies=of_kept(kept[-1:] if first.how == "delayed" else kept[:1], now),
    )


def other_rules(scene: Scene) -> Iterator[Reason]:
    """The hits of all other rules: first those with an unmet expectation, then those that had an effect."""
    keeping = {each.armed.name for each in scene.kept}
    unmet = {armed.name: text for armed in scene.rules if (text := armed.unmet) is not None}
    for armed in scene.rules:
        if armed.name in unmet:
            yield _note(armed.name, plain(unmet[armed.name], SENTENCE_MAX))
    rest = [armed for armed in scene.rules if armed.name not in unmet and armed.name not in keeping]
    for armed in sorted(rest, key=lambda each: each.hits == 0):
        yield _note(armed.name, _hit(armed, scene.now) if armed.hits else _not_hit(armed))


def _note(name: str, sentence: str) -> Reason:
    return Reason(about="rule", name=name, sentence=sentence, stuck=False, since_ms=None, held_by=[], ends=None)


def _hit(armed: Armed, now: int) -> str:
    times = "one request" if armed.hits == 1 else counted(armed.hits, "request")
    last = next((each for each in reversed(armed.requests) if each.passed is None), None)
    request = "" if last is None else f", the last {ago(now - last.at_ms)} ago: {shown(last)}"
    return f"Rule {plain(armed.title)} {_did(armed.rule.act)} {times}{request}."


def _did(act: Act) -> str:
    """The action of a rule as a verb."""
    if act.error is not None:
        return f"answered {act.error} to"
    verbs = {
        "drop": "dropped",
        "disconnect": "closed the connection of",
        "reply": "answered in place of the broker",
        "duplicate": "repeated",
        "hold": "held",
        "delay_ms": "delayed",
        "answer_delay_ms": "delayed the answer to",
        "throttle_ms": "throttled",
    }
    return next((verb for name, verb in verbs.items() if name in act.given), "has seen")


def _not_hit(armed: Armed) -> str:
    seen = f"{armed.matched} matched" if armed.matched else "none matched"
    last = armed.requests[-1].passed if armed.requests else None
    why = "" if last is None else f", the last one passed because of {last}"
    near = armed.near_misses[-1] if armed.near_misses else None
    nearest = "" if near is None else f" Nearest: {near}."
    return plain(f"Rule {armed.title} has hit no request: {seen}{why}.{nearest}", SENTENCE_MAX)
