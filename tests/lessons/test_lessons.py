"""Every story has a lesson: its recording is fresh, its steps are in it, its quotations stand in the KIPs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.lessons.plays import PLAYS
from tests.lessons.quotations import FOUND, digest, missing, quotations
from tests.lessons.record import STORIES, recording

from odradek.control.stories import names
from odradek.page.lessons import (
    CLIENTS,
    MEANINGS,
    THEMES,
    LessonRule,
    LessonStep,
    lesson_names,
    lesson_view,
    outcomes,
    placed,
    read_lesson,
    recorded_events,
)
from odradek.show.events import Event

BYTES_MAX = 500_000
STEPS_MIN, STEPS_MAX = 5, 9
SENTENCES_MAX = 4
CHOICES_MIN, CHOICES_MAX = 4, 6
VERDICTS = re.compile(r"\b(too late|lost|held|breaks|refuse[sd]?|unstable|arrives?|right|wrong|ABORTABLE)\b")
"""Words that would say what the reader is asked for."""


def test_every_story_has_a_lesson_and_a_play() -> None:
    assert names() == lesson_names() == sorted(PLAYS) == sorted(outcomes())
    assert set(THEMES) == {read_lesson(name).theme for name in names()}


@pytest.mark.parametrize("name", names())
def test_a_recording_is_fresh(name: str) -> None:
    """`make lessons` records all plays anew."""
    assert (STORIES / f"{name}.jsonl").read_bytes() == recording(name)


def test_the_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in STORIES.glob("*.jsonl")) < BYTES_MAX


@pytest.mark.parametrize("name", names())
def test_a_lesson_is_whole(name: str) -> None:
    lesson, view = read_lesson(name), lesson_view(name)
    seqs = [step.seq for step in view.steps]
    assert seqs == sorted(set(seqs))
    assert set(seqs) <= {step.seq for step in view.history.steps}
    assert STEPS_MIN <= len(lesson.steps) <= STEPS_MAX
    assert 1 == sum(step.guilty for step in lesson.steps)
    assert view.steps[view.guilty - 1].title == next(step.title for step in lesson.steps if step.guilty)
    assert all(number > view.guilty for number in view.guilty_again)
    assert len({step.title for step in lesson.steps}) == len(lesson.steps), "the answers differ"
    assert lesson.guilty.question.endswith("?")
    for text in (lesson.scene, lesson.symptom, lesson.survive, lesson.play, lesson.guilty.answer):
        assert text.endswith((".", "?", ")"))
    for step in lesson.steps:
        assert step.text.endswith(".")
        assert step.text.count(". ") < SENTENCES_MAX


@pytest.mark.parametrize("name", names())
def test_each_wrong_choice_has_its_sentence(name: str) -> None:
    lesson, view = read_lesson(name), lesson_view(name)
    offered = [step for step in lesson.steps if step.offered]
    assert CHOICES_MIN <= len(offered) <= CHOICES_MAX
    assert [step.choice or step.title for step in offered] == [step.choice for step in view.steps if step.choice]
    assert len({step.choice or step.title for step in offered}) == len(offered), "the choices differ"
    for step in lesson.steps:
        right = step.guilty or step.guilty_again
        assert step.offered or not (right or step.choice or step.not_guilty), step.title
        assert bool(step.not_guilty) == (step.offered and not right), step.title
    sentences = [step.not_guilty for step in offered if step.not_guilty]
    assert all(sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(sentences), "each has its own"


@pytest.mark.parametrize("name", names())
def test_a_choice_does_not_give_the_answer_away(name: str) -> None:
    """A choice says who does what, and not whether it is late, lost, refused or right."""
    for step in lesson_view(name).steps:
        assert not VERDICTS.search(step.choice), step.choice


@pytest.mark.parametrize("name", names())
def test_names_of_other_stories_are_marked(name: str) -> None:
    """Between backquotes they are links."""
    lesson = read_lesson(name)
    texts = (lesson.scene, lesson.symptom, lesson.play, lesson.survive, *(step.text for step in lesson.steps))
    for other in names():
        assert not re.search(rf"(?<![`\w-]){other}(?![`\w-])", " ".join(texts)), other
    assert name not in lesson_view(name).stories


@pytest.mark.parametrize("name", names())
def test_a_lesson_says_what_the_kip_says(name: str) -> None:
    rules = [step.rule for step in read_lesson(name).steps if step.rule is not None]
    assert rules
    for rule in rules:
        assert bool(rule.quote) != bool(rule.says)
        assert rule.kip.startswith("KIP-")
        assert rule.section


@pytest.mark.parametrize("name", names())
def test_what_clients_do_is_what_the_data_say(name: str) -> None:
    told = json.loads((STORIES / "outcomes.json").read_text(encoding="utf-8"))[name]
    real = told["real"].get("outcomes", {})
    expected = [
        (CLIENTS[family], done["outcome"], MEANINGS[done["outcome"]], done.get("how", ""), real.get(family, ""))
        for family, done in told["clients"].items()
    ]
    shown = lesson_view(name).clients
    assert expected == [(each.client, each.outcome, each.meaning, each.how, each.real) for each in shown]


def test_the_words_of_outcomes_are_explained_alike() -> None:
    page = (Path(__file__).parents[2] / "docs" / "stories" / "README.md").read_text(encoding="utf-8")
    for word, meaning in MEANINGS.items():
        assert f"*{word}*: {meaning}." in page


# ---------------------------------------------------------------------- steps


def event(seq: int, kind: str, **fields: object) -> Event:
    return Event(seq=seq, at_ns=seq, node=1, kind=kind, fields=fields)


def step(**at: str | int) -> LessonStep:
    return LessonStep(title="a step", at=at, text="It happens.")


def test_a_step_is_the_first_such_event_behind_the_step_before() -> None:
    events = [event(1, "request", api="PRODUCE"), event(2, "parked"), event(3, "request", api="PRODUCE")]
    again = step(kind="request", api="PRODUCE")
    assert [1, 3] == [each.seq for each in placed([again, again], events)]
    assert [2] == [each.seq for each in placed([step(kind="parked", node=1)], events)]


@pytest.mark.parametrize("at", [{"kind": "resumed"}, {"kind": "parked", "node": 2}, {"kind": "parked", "topic": "t"}])
def test_a_step_without_an_event_is_told(at: dict[str, str | int]) -> None:
    with pytest.raises(LookupError, match=r"behind the steps before: 'a step'\.$"):
        placed([step(**at)], [event(1, "parked")])


def test_steps_in_another_order_are_told() -> None:
    events = [event(1, "parked"), event(2, "resumed")]
    with pytest.raises(LookupError, match="'kind': 'parked'"):
        placed([step(kind="resumed"), step(kind="parked")], events)


def test_a_lesson_that_there_is_not() -> None:
    with pytest.raises(LookupError, match=r"^There is no story \.\./views\.$"):
        lesson_view("../views")


@pytest.mark.parametrize("name", names())
def test_events_are_in_order(name: str) -> None:
    events = recorded_events(name)
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    assert sorted(each.at_ns for each in events) == [each.at_ns for each in events]


# ---------------------------------------------------------------------- quotations


def test_every_quotation_was_looked_up() -> None:
    """`python -m tests.lessons.quotations FOLDER` looks them up and writes the list."""
    assert set(FOUND.read_text(encoding="utf-8").split("\n")) - {""} == {digest(rule) for _, rule in quotations()}


TEXT = "Motivation\n\nA message gets\nstuck.\n\n## Changes\n\nThe `epoch` goes up.\n"


@pytest.mark.parametrize(
    ("section", "quote", "problem"),
    [
        ("Motivation", "A message gets stuck.", None),
        ("Changes", "The epoch goes up.", None),
        ("Changes", "The epoch goes down.", "does not say"),
        ("Changes", "A message gets stuck.", "but before 'Changes'"),
        ("Metrics", "The epoch goes up.", "has no section 'Metrics'"),
    ],
)
def test_a_quotation_stands_in_its_section(section: str, quote: str, problem: str | None) -> None:
    found = missing(LessonRule(kip="KIP-890", section=section, quote=quote), TEXT)
    assert (found is None) if problem is None else (problem in str(found))


def test_recordings_and_lessons_are_all_that_is_there() -> None:
    there = {path.name for path in STORIES.iterdir() if not path.name.startswith((".", "_"))}
    assert {"outcomes.json"} | {f"{name}{end}" for name in names() for end in (".toml", ".jsonl")} == there


def test_the_lessons_are_part_of_the_package() -> None:
    import odradek.page

    assert STORIES == Path(odradek.page.__file__).parent / "stories"
