"""Scenario files: what they contain, read into values.

    # Comments, here and anywhere.
    with transaction.max.timeout.ms=1000          the file's brokers have this property
    fresh                                         each scenario of the file meets a broker that nobody has used yet
    two brokers                                   the last partition of the coordinators' topics is at another broker
    three brokers                                 of them the second and the third can be ended, and come back

    == A title, from which the scenario's own prefix of names is made
    levels 1 2                                    only at these transaction.versions
    differs why Odradek's answers are not Kafka's
    topic t 2                                     a step: a verb of the runner, or a request
    InitProducerId v5 tid -> x e
    [2] @b EndTxn v5 tid x e commit -> x e        at one level only, on another connection

A line that begins with a blank continues the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.language import LanguageError, is_option, split_option, split_words

__all__ = ["LEVELS", "SCENARIOS", "Condition", "Scenario", "Step", "load_all", "parse_file", "parse_text"]

LEVELS: tuple[int, ...] = (0, 1, 2)
SCENARIOS = Path(__file__).parent / "scenarios"

CONDITION = re.compile(r"(?P<field>\w+)(?P<operator>!?=)(?P<text>.+)")
VERSION = re.compile(r"v(\d+)")
BROKERS: Mapping[str, int] = {"two": 2, "three": 3}


@dataclass(frozen=True)
class Condition:
    """What an answer must show: every field of that name has (or, negated, lacks) that text."""

    field: str
    text: str
    negated: bool = False


@dataclass(frozen=True)
class Step:
    """One line of a scenario."""

    line: int
    text: str
    verb: str
    version: int = -1
    connection: str = "a"
    levels: tuple[int, ...] = LEVELS
    send_only: bool = False
    words: tuple[str, ...] = ()
    until: tuple[Condition, ...] = ()
    captures: tuple[str, ...] = ()

    @property
    def is_request(self) -> bool:
        return self.version >= 0


@dataclass(frozen=True)
class Scenario:
    """A story: its steps, and where it may be played."""

    topic: str
    title: str
    steps: tuple[Step, ...]
    levels: tuple[int, ...] = LEVELS
    properties: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    brokers: int = 1
    differs: str | None = None

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def prefix(self) -> str:
        return f"{self.topic.replace('_', '-')}-{self.slug}-"

    @property
    def path(self) -> str:
        return f"{self.topic}/{self.slug}"

    @property
    def waits(self) -> bool:
        """Whether it takes its time: for something to expire, or not to happen."""
        timed = any(
            word.startswith(("within=", "transaction_timeout_ms=")) for step in self.steps for word in step.words
        )
        return timed or bool(self.properties) or self.has("pause", "restart", "crash", "freeze", "start")

    def at(self, level: int) -> Iterator[Step]:
        """The steps to take at this transaction.version."""
        return (step for step in self.steps if level in step.levels)

    def has(self, *verbs: str) -> bool:
        return any(step.verb in verbs for step in self.steps)


@dataclass
class Draft:
    """A scenario being read."""

    title: str
    levels: tuple[int, ...]
    steps: list[Step] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


def load_all(directory: Path = SCENARIOS) -> list[Scenario]:
    """Every scenario of the directory; no two with the same prefix of names."""
    found = [scenario for path in sorted(directory.glob("*.txt")) for scenario in parse_file(path)]
    paths = [scenario.path for scenario in found]
    if twice := {path for path in paths if paths.count(path) > 1}:
        raise LanguageError(f"scenarios with the same title: {', '.join(sorted(twice))}")
    return found


def parse_file(path: Path) -> list[Scenario]:
    """The scenarios of one file."""
    return parse_text(path.stem, path.read_text(encoding="utf-8"))


def parse_text(topic: str, text: str) -> list[Scenario]:
    """The scenarios of a text, as those of a file of this topic."""
    properties: dict[str, str] = {}
    drafts: list[Draft] = []
    levels, fresh, brokers = LEVELS, False, 1
    for number, line in logical_lines(text):
        try:
            verb, _, rest = line.partition(" ")
            match verb:
                case "==":
                    drafts.append(Draft(rest.strip(), levels))
                case "with":
                    properties.update(split_option(word) for word in split_words(rest))
                case "fresh":
                    fresh = True
                case "two" | "three":
                    brokers = BROKERS[verb]
                case "levels" if drafts:
                    drafts[-1].levels = parse_levels(rest)
                case "levels":
                    levels = parse_levels(rest)
                case "differs":
                    drafts[-1].differs.append(rest.strip())
                case _:
                    drafts[-1].steps.append(parse_step(number, line))
        except (LanguageError, IndexError) as error:
            raise LanguageError(f"{topic}.txt:{number}: {error}") from None
    return [finished(draft, topic, properties, fresh=fresh, brokers=brokers) for draft in drafts]


def finished(draft: Draft, topic: str, properties: Mapping[str, str], *, fresh: bool, brokers: int) -> Scenario:
    return Scenario(
        topic=topic,
        title=draft.title,
        steps=tuple(draft.steps),
        levels=draft.levels,
        properties=properties,
        fresh=fresh,
        brokers=brokers,
        differs=" ".join(draft.differs) or None,
    )


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers, without comments, each with its continuations."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0].isspace():
            first, before = lines.pop()
            lines.append((first, f"{before} {line.strip()}"))
        else:
            lines.append((number, line.rstrip()))
    return lines


def parse_levels(text: str) -> tuple[int, ...]:
    levels = tuple(int(word) for word in text.split())
    if not levels or not set(levels) <= set(LEVELS):
        raise LanguageError(f"levels are 0, 1 and 2: {text}")
    return levels


def parse_step(number: int, line: str) -> Step:
    """A step of the form `[levels] @connection send Verb vN words until conditions -> captures`."""
    words = split_words(line)
    levels = LEVELS
    connection, send_only = "a", False
    if words[0].startswith("["):
        levels = parse_levels(words.pop(0).strip("[]"))
    if words[0].startswith("@"):
        connection = words.pop(0)[1:]
    if words[0] == "send":
        send_only = bool(words.pop(0))
    words, captures = cut(words, "->")
    words, until = cut(words, "until")
    verb, version = words.pop(0), -1
    if words and (found := VERSION.fullmatch(words[0])):
        version = int(found[1])
        words.pop(0)
    if version < 0 and verb[0].isupper():
        raise LanguageError(f"a request without its version: {line}")
    return Step(
        line=number,
        text=" ".join(line.split()),
        verb=verb,
        version=version,
        connection=connection,
        levels=levels,
        send_only=send_only,
        words=tuple(words),
        until=tuple(parse_condition(word) for word in until),
        captures=tuple(captures),
    )


def cut(words: list[str], at: str) -> tuple[list[str], list[str]]:
    """The words before and after this one."""
    if at not in words:
        return words, []
    place = words.index(at)
    return words[:place], words[place + 1 :]


def parse_condition(word: str) -> Condition:
    if word == "settled":
        return Condition("settled", "")
    found = CONDITION.fullmatch(word)
    if found is None:
        raise LanguageError(f"not a condition: {word}")
    return Condition(found["field"], found["text"], negated=found["operator"] == "!=")


def options(words: tuple[str, ...]) -> dict[str, str]:
    """The `key=value` words."""
    return dict(split_option(word) for word in words if is_option(word))
