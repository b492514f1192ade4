"""Every story can be read, and has its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.stories.outcomes import CLIENTS, load, page, readme

from odradek.control.stories import names, read_story, text_of

PAGES = Path(__file__).parents[3] / "docs" / "stories"
DESIGNED = 18


def test_there_are_as_many_as_were_promised() -> None:
    assert len(names()) >= DESIGNED


@pytest.mark.parametrize("name", names())
def test_a_story_has_a_page_and_proves_that_it_came_about(name: str) -> None:
    plan = read_story(name)
    page = (PAGES / f"{name}.md").read_text()
    assert plan.about
    assert plan.about in page
    assert all(rule.name for rule in plan.rules)
    assert any(rule.expect for rule in plan.rules)
    assert "```mermaid\nsequenceDiagram\n" in page
    for section in ("## To play it", "## To survive", "## What clients do"):
        assert section in page


def test_the_table_lists_every_story_and_no_other() -> None:
    assert names() == sorted(re.findall(r"^\| \[(.+?)\]\(", (PAGES / "README.md").read_text(), re.MULTILINE))
    assert {*names(), "README"} == {page.stem for page in PAGES.glob("*.md")}


def test_what_the_pages_tell_of_clients_is_what_the_data_say() -> None:
    """`python -m tests.stories.outcomes` writes it anew."""
    stories = load()
    assert names() == sorted(stories)
    overview = (PAGES / "README.md").read_text()
    assert overview == readme(overview, stories)
    for name, story in stories.items():
        # Only Kafka's own client has streams groups.
        assert set(story.clients) == ({"java"} if name.startswith("streams-") else set(CLIENTS))
        assert bool(story.real.outcomes) != bool(story.real.why_not), name
        text = (PAGES / f"{name}.md").read_text()
        assert text == page(name, text, story), name


def test_the_counts_in_the_pages_are_true() -> None:
    root = PAGES.parents[1]
    stories = load()
    played = sum(bool(story.real.outcomes) for story in stories.values())
    assert f"[{len(stories)} stories](docs/stories/README.md)" in (root / "README.md").read_text()
    assert f"Of the {len(stories)} stories {played} have been played" in (root / "docs" / "skipped.md").read_text()


def test_one_that_there_is_not() -> None:
    with pytest.raises(LookupError, match="There is no story coordinator-load: there is coordinator-load"):
        text_of("coordinator-load")
