"""A transaction as a sequence diagram in Mermaid, which code hosts draw in Markdown."""

from __future__ import annotations

import re

from odradek.show.history import ANSWERS, History, Step

__all__ = ["mermaid"]

UNSAFE = str.maketrans({";": ",", "#": " ", "<": "‹", ">": "›", '"': "'"})
"""A semicolon ends a statement, a number sign begins an entity, and some viewers read tags."""
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
"""They include all characters that end a line."""
WORDS = re.compile(r"(?<=%)(?=%)|(?<=wrap)(?=:)", re.IGNORECASE)
"""`%%{` would configure the viewer, and `wrap:` before a text is a setting: a space breaks them up."""


def mermaid(history: History) -> str:
    """The source of the diagram."""
    heads = [
        f"    participant L{index} as {_safe(lane.name)}, {_safe(lane.about)}"
        for index, lane in enumerate(history.lanes)
    ]
    return "\n".join(["sequenceDiagram", *heads, *map(_line, history.steps)]) + "\n"


def _safe(text: str) -> str:
    return WORDS.sub(" ", UNPRINTABLE.sub(" ", text.translate(UNSAFE)))


def _line(step: Step) -> str:
    if step.source == step.target:
        return f"    Note over L{step.source}: {_safe(step.text)}"
    arrow = "--x" if step.error else "-->>" if step.kind in ANSWERS else "->>"
    return f"    L{step.source}{arrow}L{step.target}: {_safe(step.text)}"
