"""A rule in one line of Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

from odradek.faults.model import ANY, Act, Expect, Match, Rule, RuleError, Scripted, Step, When
from odradek.host.call import Call
from odradek.wire.registry import ApiKey

__all__ = ["rule"]

_GROUPS = {
    name: group
    for group, kind in (("match", Match), ("when", When), ("act", Act))
    for name in kind.__struct_fields__
    if name not in ("api", "reply")
}

_INSIDE = {"from": "sender"}
"""Fields of a plan that have another name in Python."""


def rule(
    api: str | ApiKey | list[str] | list[ApiKey] = ANY,
    *,
    reply: Mapping[str, object] | Callable[[Call], object] | None = None,
    matches: Callable[[Call], bool] | None = None,
    name: str | None = None,
    then: Sequence[Step | Mapping[str, object]] = (),
    expect: int | str | Mapping[str, int] | Expect | None = None,
    **fields: object,
) -> Rule:
    """A rule in one line: `rule("PRODUCE", topic="orders", hold=True)`.

    `fields` are those of `Match`, `When` and `Act` by their names. `expect` may be a number of hits.
    `matches` and `reply` may be functions that get the call, as in `lambda call: call.version > 3`.
    Raises `RuleError` for what makes no rule.
    """
    groups: dict[str, dict[str, object]] = {"match": {"api": _names(api)}, "when": {}, "act": {}}
    for field, value in fields.items():
        group = _GROUPS.get(field)
        if group is None:
            near = [_INSIDE[field]] if field in _INSIDE else get_close_matches(field, _GROUPS, 1)
            meant = f"; did you mean {near[0]}?" if near else f": a rule has {', '.join(_GROUPS)}."
            raise RuleError(field, f"A rule has no field {field}{meant}")
        groups[group][field] = value
    answer = None
    if callable(reply):
        answer = reply
    elif reply is not None:
        groups["act"]["reply"] = reply
    match = Match(**groups["match"])  # type: ignore[arg-type]
    when = When(**groups["when"])  # type: ignore[arg-type]
    act = Act(**groups["act"])  # type: ignore[arg-type]
    if not isinstance(then, list | tuple):
        raise RuleError("then", f"What follows is a list of steps, not {then!r}.")
    steps = [each if isinstance(each, Step) else _step(each) for each in then]
    expected = _expectation(expect)
    if matches is None and answer is None:
        return Rule(name=name, match=match, when=when, act=act, then=steps, expect=expected)
    return Scripted(
        name=name,
        match=match,
        when=when,
        act=act,
        then=steps,
        expect=expected,
        matches=matches,
        answer=answer,
    )


def _names(api: object) -> object:
    if isinstance(api, ApiKey):
        return api.name
    if isinstance(api, list | tuple | set | frozenset):
        return [_names(each) for each in api]
    return api


def _step(fields: object) -> Step:
    if not isinstance(fields, Mapping):
        raise RuleError("then", f"A step is one thing and what it is done to, as in advance_ms: 1000, not {fields!r}.")
    unknown = fields.keys() - set(Step.__struct_fields__)
    if unknown:
        raise RuleError("then", f"A step has no field {', '.join(unknown)}: {', '.join(Step.__struct_fields__)}.")
    return Step(**fields)


def _expectation(expect: object) -> Expect | Literal["none"] | None:
    if isinstance(expect, int) and not isinstance(expect, bool):
        return Expect(hits=expect)
    if isinstance(expect, Mapping):
        unknown = expect.keys() - {"hits", "at_least"}
        if unknown:
            raise RuleError("expect", "An expectation is one of hits: N and at_least: N, or the word none.")
        return Expect(**expect)
    if expect == "none":
        return "none"
    if expect is None or isinstance(expect, Expect):
        return expect
    raise RuleError("expect", f"What is expected is a number of hits, hits: N, at_least: N or none, not {expect!r}.")
