"""The stories over HTTP: their list, and each step by step."""

from __future__ import annotations

import pytest

from odradek.control.client import HubClient, HubRefused
from odradek.control.stories import names
from odradek.page.lessons import THEMES, lesson_view


def test_stories_are_listed_with_their_themes(hub: HubClient) -> None:
    told = hub.get("stories")
    assert names() == [each["name"] for each in told]
    assert all(each["theme"] == THEMES[each["chapter"] - 1] for each in told)
    assert all(each["title"] and each["symptom"].endswith((".", "?")) for each in told)


def test_a_story_step_by_step(hub: HubClient) -> None:
    view = lesson_view("late-produce-after-abort")
    told = hub.get("stories", view.name)
    assert [step.seq for step in view.steps] == [step["seq"] for step in told["steps"]]
    assert view.guilty == told["guilty"]
    assert {"quote", "says", "kip", "section"} == set(told["steps"][view.guilty - 1]["rule"])
    history = {step["seq"]: step for step in told["history"]["steps"]}
    late = history[told["steps"][told["guilty"] - 1]["seq"]]
    assert ("request", "PRODUCE") == (late["kind"], late["fields"]["api"])


def test_a_story_that_there_is_not(hub: HubClient) -> None:
    with pytest.raises(HubRefused, match="There is no story late-produce") as refused:
        hub.get("stories", "late-produce")
    assert 404 == refused.value.status
