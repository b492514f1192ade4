"""Plans: rules as text. An error names its line and column, or its JSON path, and the permitted values.

A plan is refused as a whole. `read_plan` takes YAML or JSON text, `plan_of` the value of a JSON body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from odradek.faults.checks import one_of, words_of
from odradek.faults.model import Rule, RuleError

__all__ = ["ClusterPlan", "Plan", "PlanError", "Steps", "converted", "load_plan", "plan_of", "read_plan", "rule_of"]

T = TypeVar("T")
Steps = tuple[str | int, ...]
"""A path to a part: names of fields and numbers of elements."""
Positions = Mapping[Steps, tuple[int, int]]
"""Lines and columns, from 1."""

_AT = re.compile(r"(?P<said>.*?)(?: - at `(?P<path>.*?)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_EXPONENT = re.compile(r"[-+]?[\d.]+[eE][-+]?\d+")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")


class PlanError(ValueError):
    """A plan is refused: `str` is one sentence with its place.

    `path` is a JSON path (`$.rules[0].match.api`); `line` and `column` count from 1 if the plan was a text.
    """

    def __init__(self, sentence: str, *, path: str, source: str, line: int | None, column: int | None) -> None:
        place = source if line is None else f"{source}:{line}:{column}"
        where = place if path == "$" else f"{place}: {path}"
        super().__init__(f"{where}: {sentence}")
        self.sentence = sentence
        self.path = path
        self.line = line
        self.column = column


class ClusterPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cluster of a plan; fields that are left out have the defaults of a cluster without a plan."""

    brokers: int | None = None
    topics: list[str] = []
    """`NAME`, `NAME:PARTITIONS`, or `NAME:PARTITIONS:REPLICAS`."""
    config: dict[str, str | int | float | bool] = {}
    """Broker configuration by Kafka's names."""
    as_kafka: str | None = None
    transaction_version: int | None = None

    @property
    def overrides(self) -> dict[str, str]:
        """The configuration as texts, as on a command line."""
        return {
            key: str(value).lower() if value is True or value is False else str(value)
            for key, value in self.config.items()
        }


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of a plan."""

    rules: list[Rule]
    name: str | None = None
    about: str | None = None
    cluster: ClusterPlan = ClusterPlan()


class _Text:
    """Parsed text: its data, and the place of each part."""

    def __init__(self, data: object, positions: Positions, source: str) -> None:
        self.data = data
        self.positions = positions
        self.source = source

    def error(self, steps: Steps, sentence: str) -> PlanError:
        """An error at the place of this part, or of the nearest part that has a place."""
        place = steps
        while place and place not in self.positions:
            place = place[:-1]
        line, column = self.positions.get(place, (None, None))
        return PlanError(sentence, path=_json_path(steps), source=self.source, line=line, column=column)


def load_plan(path: str | PathLike[str]) -> Plan:
    """Read the plan in a file. Raises `PlanError`, also if the file cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PlanError(f"It cannot be read: {reason}.", path="$", source=str(path), line=None, column=None) from None
    return read_plan(text, source=str(path))


def read_plan(text: str, *, source: str = "plan", known: Iterable[str] = ()) -> Plan:
    """Parse a plan from YAML or JSON text; `known` are the names of existing rules, for `when.after`."""
    from odradek.control.yaml_text import read_yaml  # PyYAML is imported only to read a plan

    def refuse(steps: Steps, sentence: str, position: tuple[int, int]) -> PlanError:
        return _Text(None, {steps: position}, source).error(steps, sentence)

    data, positions = read_yaml(text, refuse)
    return _plan(_Text(data, positions, source), known)


def plan_of(data: object, *, source: str = "body", known: Iterable[str] = ()) -> Plan:
    """The plan in a JSON body."""
    return _plan(_Text(data, {}, source), known)


def converted(data: object, kind: type[T], *, source: str = "body") -> T:
    """A JSON body as this type; raises `PlanError` with the place of the first mistake."""
    value: T = _convert(_Text(data, {}, source), data, kind)
    return value


def rule_of(data: object, *, source: str = "body", known: Iterable[str] = ()) -> Rule:
    """The single rule in a JSON body."""
    text = _Text(data, {}, source)
    rule: Rule = _convert(text, data, Rule)
    _check_after(text, (), rule, set(known))
    _check_then(text, (), rule, {*known, *filter(None, [rule.name])})
    return rule


def _plan(text: _Text, known: Iterable[str]) -> Plan:
    data = text.data
    listed = isinstance(data, list)
    if not listed and not isinstance(data, dict):
        raise text.error((), "A plan is a list of rules, or an object with rules.")
    if listed:
        plan = Plan(rules=_convert(text, data, list[Rule]))
    else:
        plan = _convert(text, data, Plan)
    names = set(known)
    every = names.union(rule.name for rule in plan.rules if rule.name is not None)
    for index, rule in enumerate(plan.rules):
        steps: Steps = (index,) if listed else ("rules", index)
        if rule.name is not None and rule.name in names:
            raise text.error((*steps, "name"), f"There is a rule {rule.name} already.")
        _check_after(text, steps, rule, names)
        _check_then(text, steps, rule, every)
        if rule.name is not None:
            names.add(rule.name)
    return plan


def _check_after(text: _Text, steps: Steps, rule: Rule, names: set[str]) -> None:
    after = rule.when.after
    if after is not None and after not in names:
        listed = f"there is {', '.join(sorted(names))}" if names else "none with a name stands before it"
        raise text.error((*steps, "when", "after"), f"There is no rule {after} before this one: {listed}.")


def _check_then(text: _Text, steps: Steps, rule: Rule, names: set[str]) -> None:
    for index, step in enumerate(rule.then):
        if step.rule_name is not None and step.rule_name not in names:
            listed = ", ".join(sorted(names)) or "none with a name"
            place = (*steps, "then", index, step.given[0])
            raise text.error(place, f"There is no rule {step.rule_name}: there is {listed}.")


def _convert(text: _Text, data: object, kind: Any) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        steps, sentence = _explained(error, kind)
        written = _value_at(data, steps)
        if isinstance(written, str) and _EXPONENT.fullmatch(written):
            sentence = f"{written} is a text in YAML 1.1: write the number without an exponent."
        raise text.error(steps, sentence) from None


def _value_at(data: object, steps: Steps) -> object:
    """The part at this path; None if there is none."""
    for step in steps:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _explained(error: msgspec.ValidationError, kind: Any) -> tuple[Steps, str]:
    """The place of the error, and the permitted values."""
    found = _AT.fullmatch(str(error))
    assert found is not None
    # The library does not say which key of a mapping is wrong; then the mapping is the place.
    said, path = found["said"], (found["path"] or "$").partition("[...]")[0]
    steps: Steps = tuple(int(index) if index else name for name, index in _STEP.findall(path))
    cause = error.__cause__
    if isinstance(cause, RuleError):
        field = [int(part) if part.isdigit() else part for part in cause.field.split(".") if part]
        return (*steps, *field), cause.sentence
    if unknown := _UNKNOWN.fullmatch(said):
        names = _fields(_kind_at(kind, steps))
        return (*steps, unknown[1]), f"There is no field {unknown[1]} here: {one_of(names, unknown[1])}"
    if missing := _MISSING.fullmatch(said):
        return steps, f"The field {missing[1]} is missing."
    if "matching regex" in said:
        return steps, "A name is of 1 to 64 letters, digits and ._-, and neither . nor .."
    words = words_of(_kind_at(kind, steps))
    if words:
        return steps, f"{said.replace('`', '')}: it is one of {', '.join(words)}."
    return steps, f"{said.replace('`', '')}."


def _kind_at(kind: Any, steps: Steps) -> Any:
    """The type of the part at this path."""
    for step in steps:
        if isinstance(step, int):
            kind = next((get_args(each)[0] for each in _alternatives(kind) if get_origin(each) is list), None)
        else:
            struct = next((each for each in _alternatives(kind) if _fields(each)), None)
            kind = None if struct is None else _by_name(struct).get(step)
    return kind


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _by_name(struct: Any) -> dict[str, Any]:
    hints = get_type_hints(struct)
    names = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {outside: hints[inside] for outside, inside in names}


def _fields(kind: Any) -> list[str]:
    """The names of the fields that this struct may have."""
    for each in _alternatives(kind):
        if isinstance(each, type) and issubclass(each, Struct):
            return list(each.__struct_encode_fields__)
    return []


def _json_path(steps: Steps) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
