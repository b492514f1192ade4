"""Each lesson explains a story step by step, and asks the reader which message caused the fault.

Each story has two files in `stories/`: NAME.toml is its lesson, NAME.jsonl has the events of a play (docs/events.md).
A step of a lesson names its event by kind and fields; `lesson_view` finds it in the recording.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from odradek.show.events import Event, event_of
from odradek.show.history import History, history_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = [
    "CLIENTS",
    "MEANINGS",
    "THEMES",
    "ClientOutcome",
    "Lesson",
    "LessonRule",
    "LessonStep",
    "LessonView",
    "Outcome",
    "Real",
    "StepView",
    "StoryOutcomes",
    "lesson_names",
    "lesson_view",
    "outcomes",
    "placed",
    "read_lesson",
    "recorded_events",
]

THEMES = (
    "Records that come late",
    "Answers that get lost",
    "Epochs and producer ids",
    "Errors that mean: abort",
    "Brokers that move",
    "Groups",
)
"""In the order in which a reader meets them."""
CLIENTS = {"java": "kafka-clients 4.4.0", "confluent-kafka": "confluent-kafka 2.16", "franz-go": "franz-go 1.22"}
"""The families of clients, and the releases that have played the stories."""
MEANINGS = {
    "survives": "the application notices nothing",
    "aborts": "it learns that the transaction is lost, aborts, and goes on with the same producer",
    "ends": "it needs another producer",
    "defended": "the broker refuses the wrong request",
    "hangs": "consumers cannot read on",
    "again": "a record is delivered again, with a higher delivery count",
    "twice": "its record is in the dead letter queue twice",
}
"""The meaning of the word for an outcome."""


class LessonRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of a KIP about a step, quoted or in ours; `quote` or `says` is empty."""

    kip: str
    section: str
    quote: str = ""
    """Word for word."""
    says: str = ""
    """In our words."""


class LessonStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a lesson."""

    title: str
    at: dict[str, str | int | bool]
    """The kind and fields of its event: the first such event behind that of the step before. `node` is a broker."""
    text: str
    choice: str = ""
    """Its name in the question, if the title would give the answer away."""
    offered: bool = True
    """Whether it is one of the choices of the question."""
    not_guilty: str = ""
    """Why it is not the right choice. Required for each step that is offered and wrong."""
    guilty: bool = False
    """Whether this is the right choice."""
    guilty_again: bool = False
    """Whether it is the same message when it arrives: that is a right choice, too."""
    rule: LessonRule | None = None


class Guilty(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question of a lesson, asked when all steps have been seen."""

    question: str
    answer: str
    """Why the right choice is the right one."""


class Lesson(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson, as its file has it."""

    title: str
    theme: str
    scene: str
    """The participants, and their plans."""
    symptom: str
    """The symptom that a user sees."""
    play: str
    """The steps of a client on a cluster of the story that lead to it."""
    survive: str
    """The duty of a client."""
    guilty: Guilty
    steps: tuple[LessonStep, ...]

    @property
    def guilty_step(self) -> int:
        """The number of the guilty step, from 1."""
        return 1 + next(index for index, step in enumerate(self.steps) if step.guilty)


class Outcome(Struct, frozen=True, kw_only=True):
    """The steps of one client in a story."""

    outcome: str
    """One of MEANINGS."""
    how: str = ""
    or_else: str | None = None
    """The other outcome, which a race leads to from time to time."""

    @property
    def possible(self) -> set[str | None]:
        """The outcomes that a test may find."""
        return {self.outcome, self.or_else or self.outcome}


class Real(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with Apache Kafka 4.4.0: the steps of each client, or why it cannot be played there."""

    outcomes: dict[str, str] = {}
    why_not: str = ""


class StoryOutcomes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of one story, by client."""

    clients: dict[str, Outcome]
    real: Real


class StepView(Struct, frozen=True, kw_only=True):
    """A step, and its event in the history."""

    seq: int
    """The `seq` of the event."""
    title: str
    text: str
    rule: LessonRule | None
    choice: str
    """Its name in the question; empty if it is not offered as an answer."""
    not_guilty: str
    """Why it is not the right choice; empty for a right one."""


class ClientOutcome(Struct, frozen=True, kw_only=True):
    """The steps of a client, here and with Apache Kafka 4.4.0 (empty if that was not played)."""

    client: str
    outcome: str
    meaning: str
    how: str
    real: str


class LessonView(Struct, frozen=True, kw_only=True):
    """A whole lesson."""

    name: str
    theme: str
    title: str
    scene: str
    symptom: str
    steps: tuple[StepView, ...]
    guilty: int
    """The number of the guilty step, from 1."""
    guilty_again: tuple[int, ...]
    """The steps where the same message arrives: they are right answers, too."""
    question: str
    answer: str
    """Why it is this one."""
    play: str
    survive: str
    clients: tuple[ClientOutcome, ...]
    not_played: str
    """Why the story cannot be played on Apache Kafka 4.4.0; empty where it can."""
    stories: tuple[str, ...]
    """The other stories that the texts name, between backquotes."""
    docs: str
    """The page of the story in the repository."""
    history: History
    """One play of it. It is simulated: the same each time."""


def lesson_names() -> list[str]:
    """The names of all lessons; each is the name of a story."""
    ends = ".toml"
    return sorted(each.name.removesuffix(ends) for each in _folder().iterdir() if each.name.endswith(ends))


@cache
def read_lesson(name: str) -> Lesson:
    """A lesson. Raises LookupError, a sentence, for one that there is not."""
    if name not in lesson_names():
        raise LookupError(f"There is no story {name}.")
    return msgspec.convert(tomllib.loads(_text(f"{name}.toml")), Lesson)


def recorded_events(name: str) -> list[Event]:
    """The events of the play of a story."""
    events = [event_of(line.encode()) for line in _text(f"{name}.jsonl").splitlines()]
    return [event for event in events if event is not None]


def placed(steps: Sequence[LessonStep], events: Sequence[Event]) -> list[Event]:
    """The event of each step, in order. Raises LookupError, a sentence, for a step that has none."""
    found: list[Event] = []
    rest = iter(events)
    for step in steps:
        event = next((each for each in rest if _is(each, step.at)), None)
        if event is None:
            raise LookupError(f"No event is {step.at}, behind the steps before: {step.title!r}.")
        found.append(event)
    return found


def _is(event: Event, at: Mapping[str, str | int | bool]) -> bool:
    told = {"kind": event.kind, "node": event.node, **event.fields}
    return all(told.get(field) == value for field, value in at.items())


def outcomes() -> Mapping[str, StoryOutcomes]:
    """The steps of clients in each story."""
    return MappingProxyType(msgspec.json.decode(_text("outcomes.json"), type=dict[str, StoryOutcomes]))


@cache
def lesson_view(name: str) -> LessonView:
    """A whole lesson, with its history. Raises LookupError, a sentence, for one that there is not."""
    lesson, events, told = read_lesson(name), recorded_events(name), outcomes()[name]
    places = placed(lesson.steps, events)
    steps = tuple(
        StepView(
            seq=event.seq,
            title=step.title,
            text=step.text,
            rule=step.rule,
            choice=(step.choice or step.title) if step.offered else "",
            not_guilty=step.not_guilty,
        )
        for step, event in zip(lesson.steps, places, strict=True)
    )
    return LessonView(
        name=name,
        theme=lesson.theme,
        title=lesson.title,
        scene=lesson.scene,
        symptom=lesson.symptom,
        steps=steps,
        guilty=lesson.guilty_step,
        guilty_again=tuple(number for number, step in enumerate(lesson.steps, 1) if step.guilty_again),
        question=lesson.guilty.question,
        answer=lesson.guilty.answer,
        play=lesson.play,
        survive=lesson.survive,
        clients=_clients(told),
        not_played=told.real.why_not,
        stories=_named(lesson),
        docs=f"docs/stories/{name}.md",
        history=history_of(events, title=name, note="A simulated play of the story; times are milliseconds."),
    )


def _named(lesson: Lesson) -> tuple[str, ...]:
    """The stories that the texts of a lesson name between backquotes."""
    texts = " ".join((lesson.scene, lesson.symptom, lesson.play, lesson.survive, *(each.text for each in lesson.steps)))
    return tuple(name for name in lesson_names() if f"`{name}`" in texts)


def _clients(told: StoryOutcomes) -> tuple[ClientOutcome, ...]:
    return tuple(
        ClientOutcome(
            client=CLIENTS[family],
            outcome=done.outcome,
            meaning=MEANINGS[done.outcome],
            how=done.how,
            real=told.real.outcomes.get(family, ""),
        )
        for family, done in told.clients.items()
    )


def _folder() -> Traversable:
    return files(__package__).joinpath("stories")


def _text(name: str) -> str:
    return _folder().joinpath(name).read_text(encoding="utf-8")
