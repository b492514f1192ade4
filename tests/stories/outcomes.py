"""What each client does in each story: as data, as tables in the docs, and as what the tests expect.

`python -m tests.stories.outcomes` writes the tables of `docs/stories` anew, and what its pages have of the lessons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from odradek.page.lessons import CLIENTS, StoryOutcomes, lesson_names, outcomes, read_lesson

__all__ = ["CLIENTS", "OUTCOMES", "load", "page", "readme", "write"]

DOCS = Path(__file__).parents[2] / "docs" / "stories"
OUTCOMES = DOCS.parents[1] / "broker" / "odradek" / "page" / "stories" / "outcomes.json"
HAS_NONE = "-"
"""In the place of an outcome, where a client has no groups of the kind that a story is about."""
STEP_BY_STEP = (
    "Step by step: `odradek show --story {0} --open`, or `#story={0}` on the [page](README.md#step-by-step) of a hub."
)
"""Below the source of each page."""
ON_THE_WIRE = "what the plan does, on the wire"
PROVOKED = {
    "broker-restarts-with-pending-markers": "what the plan does, on the wire; SIGKILL to the broker, and a new start",
    "downgrade-under-way": "UpdateFeatures, when the request comes by",
    "epoch-overflow": "32,766 times InitProducerId",
    "producer-id-expires": "`transactional.id.expiration.ms` of 1000, instead of a week",
}
"""How a story came about on a real broker, where it is not as usual."""


def load() -> Mapping[str, StoryOutcomes]:
    """By the names of the stories."""
    return outcomes()


def readme(text: str, stories: Mapping[str, StoryOutcomes]) -> str:
    """The overview, with its two tables as the data have them."""
    odradek = _table(
        ["story", *CLIENTS.values()],
        [
            [
                f"[{name}]({name}.md)",
                *(story.clients[each].outcome if each in story.clients else HAS_NONE for each in CLIENTS),
            ]
            for name, story in stories.items()
        ],
    )
    real = _table(
        ["story", "provoked by", *CLIENTS.values()],
        [
            [
                name,
                PROVOKED.get(name, ON_THE_WIRE),
                *(
                    story.real.outcomes.get(each, "not played" if each in story.clients else HAS_NONE)
                    for each in CLIENTS
                ),
            ]
            for name, story in stories.items()
            if story.real.outcomes
        ],
    )
    not_there = "\n".join(f"- {name}: {story.real.why_not}" for name, story in stories.items() if story.real.why_not)
    text = _between(text, "clients", odradek)
    text = _between(text, "real", real)
    return _between(text, "not real", not_there)


def page(name: str, text: str, story: StoryOutcomes) -> str:
    """A story's page, with what clients do as the data have it, and what its lesson says."""
    rows = [
        [CLIENTS[each], _told(done.outcome, done.how), story.real.outcomes.get(each, "not played")]
        for each, done in story.clients.items()
    ]
    real = f"Not played there: {story.real.why_not}"
    if story.real.outcomes:
        real = f"Provoked there by {PROVOKED.get(name, ON_THE_WIRE)}: `python -m tests.stories.real {name}`"
    table = _table(["client", "here", "on Apache Kafka 4.4.0"], rows)
    lesson = read_lesson(name)
    opens = STEP_BY_STEP.format(name)
    text = re.sub(r"\n(Source: .*\n)(?:Step by step: .*\n)?", lambda found: f"\n{found[1]}{opens}\n", text)
    played = f'`odradek serve --story {name}`, or `Cluster(story="{name}")` in a test; then: {_linked(lesson.play)}'
    head, _, _ = text.partition("## To play it\n")
    return f"""{head}## To play it

{played}

## To survive

{lesson.survive}

## What clients do

{table}

{real}.
"""


def _linked(play: str) -> str:
    """The names of other stories, between backquotes, as links to their pages, and the beginning as after a colon."""
    play = play[0].lower() + play[1:]
    return re.sub(f"`({'|'.join(lesson_names())})`", lambda found: f"[{found[1]}]({found[1]}.md)", play)


def _told(outcome: str, how: str) -> str:
    return f"{outcome}: {how}" if how else outcome


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else "|" + "---|" * len(head) for line in lines)


def _between(text: str, name: str, body: str) -> str:
    """What stands between two comments, replaced."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    assert begin in text, name
    assert end in text, name
    return re.sub(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}{body}{end}", text, count=1, flags=re.DOTALL
    )


def write() -> None:
    """All pages anew."""
    stories = load()
    overview = DOCS / "README.md"
    overview.write_text(readme(overview.read_text(), stories))
    for name, story in stories.items():
        path = DOCS / f"{name}.md"
        path.write_text(page(name, path.read_text(), story))


if __name__ == "__main__":
    write()
