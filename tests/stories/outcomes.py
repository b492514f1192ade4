"""What each client does in each story: as data, as tables in the docs, and as what the tests expect.

`python -m tests.stories.outcomes` writes the tables of `docs/stories` anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

__all__ = ["CLIENTS", "OUTCOMES", "Outcome", "Real", "load", "page", "readme"]

DOCS = Path(__file__).parents[2] / "docs" / "stories"
OUTCOMES = DOCS / "outcomes.json"
CLIENTS = {"java": "kafka-clients 4.4.0", "confluent-kafka": "confluent-kafka 2.16", "franz-go": "franz-go 1.22"}
"""The families, and what the docs call them."""
HAS_NONE = "-"
"""In the place of an outcome, where a client has no groups of the kind that a story is about."""
ON_THE_WIRE = "what the plan does, on the wire"
PROVOKED = {
    "broker-restarts-with-pending-markers": "what the plan does, on the wire; SIGKILL to the broker, and a new start",
    "downgrade-under-way": "UpdateFeatures, when the request comes by",
    "epoch-overflow": "32,766 times InitProducerId",
    "producer-id-expires": "`transactional.id.expiration.ms` of 1000, instead of a week",
}
"""How a story came about on a real broker, where it is not as usual."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What one client does."""

    outcome: str
    """`survives`, `aborts`, `ends`, `defended` or `hangs`."""
    how: str = ""
    or_else: str | None = None
    """What comes out from time to time instead: it is a race."""

    @property
    def possible(self) -> set[str | None]:
        """What a test may find."""
        return {self.outcome, self.or_else or self.outcome}


class Real(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same on a real broker, Apache Kafka 4.4.0: what each client did, or why the story cannot be played there."""

    outcomes: dict[str, str] = {}
    why_not: str = ""


class Played(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One story."""

    clients: dict[str, Outcome]
    real: Real


def load() -> dict[str, Played]:
    """By the names of the stories."""
    return convert(json.loads(OUTCOMES.read_text()), dict[str, Played])


def readme(text: str, stories: dict[str, Played]) -> str:
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


def page(name: str, text: str, story: Played) -> str:
    """A story's page, with what clients do as the data have it."""
    rows = [
        [CLIENTS[each], _told(done.outcome, done.how), story.real.outcomes.get(each, "not played")]
        for each, done in story.clients.items()
    ]
    real = f"Not played there: {story.real.why_not}"
    if story.real.outcomes:
        real = f"Provoked there by {PROVOKED.get(name, ON_THE_WIRE)}: `python -m tests.stories.real {name}`"
    table = _table(["client", "here", "on Apache Kafka 4.4.0"], rows)
    body = f"{table}\n\n{real}."
    head, _, _ = text.partition("## What clients do\n")
    return f"{head}## What clients do\n\n{body}\n"


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
    stories: dict[str, Any] = load()
    overview = DOCS / "README.md"
    overview.write_text(readme(overview.read_text(), stories))
    for name, story in stories.items():
        path = DOCS / f"{name}.md"
        path.write_text(page(name, path.read_text(), story))


if __name__ == "__main__":
    write()
