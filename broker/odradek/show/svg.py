"""A transaction as an SVG without scripts, fonts and network. It follows the dark mode of its viewer."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from odradek.show.history import ANSWERS, History, Step
from odradek.stuck.words import plain

__all__ = ["drawn"]

LANE_WIDTH, ROW_HEIGHT, TOP, MARGIN, NOTE_WIDTH = 264, 34, 64, 16, 256
TITLE_MAX, NAME_MAX, ABOUT_MAX = 200, 28, 36
STYLE = """
.page{fill:#ffffff}.lane{stroke:#b8c0cc;stroke-width:1}.head{fill:#eef2f7;stroke:#b8c0cc}
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2933}
.name{font-weight:600}.small{font-size:11px;fill:#52606d}
.arrow{stroke:#0b63b5;stroke-width:1.6;fill:none}.tip{fill:#0b63b5}.answer{stroke-dasharray:5 4}
.refused{stroke:#b3261e}.tip-refused{fill:#b3261e}.note{fill:#fff7d6;stroke:#e2c55a}
@media (prefers-color-scheme:dark){.page{fill:#11161d}.lane{stroke:#45505f}.head{fill:#1c2430;stroke:#45505f}
text{fill:#e4e9f0}.small{fill:#9aa7b8}.arrow{stroke:#6db3f2}.tip{fill:#6db3f2}
.refused{stroke:#ff8a80}.tip-refused{fill:#ff8a80}.note{fill:#2b2a1c;stroke:#7d6f33}}
"""


def drawn(history: History) -> str:
    """The picture of a history. Texts of clients are escaped."""
    width = 2 * MARGIN + LANE_WIDTH * len(history.lanes)
    height = TOP + ROW_HEIGHT * (len(history.steps) + 1) + MARGIN
    title = _text(f"The transaction of {history.transactions[0]}", TITLE_MAX)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">',
        f"<title>{title}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        *_heads(history, height),
    ]
    for row, step in enumerate(history.steps):
        y = TOP + ROW_HEIGHT * (row + 1)
        lines += _note(step, y) if step.source == step.target else _arrow(step, y)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(lane: int) -> int:
    return MARGIN + LANE_WIDTH * lane + LANE_WIDTH // 2


def _heads(history: History, height: int) -> Iterator[str]:
    for index, lane in enumerate(history.lanes):
        x = _x(index)
        yield f'<line class="lane" x1="{x}" y1="{TOP}" x2="{x}" y2="{height - MARGIN}"/>'
        yield f'<rect class="head" x="{x - 105}" y="14" width="210" height="{TOP - 18}" rx="6"/>'
        yield f'<text class="name" x="{x}" y="34" text-anchor="middle">{_text(lane.name, NAME_MAX)}</text>'
        yield f'<text class="small" x="{x}" y="51" text-anchor="middle">{_text(lane.about, ABOUT_MAX)}</text>'


def _text(text: str, most: int) -> str:
    """A text without characters that XML cannot hold, such as a zero byte."""
    return escape(plain(text, most))


def _arrow(step: Step, y: int) -> Iterator[str]:
    start, end = _x(step.source), _x(step.target)
    back = 1 if end > start else -1
    look = " answer" * (step.kind in ANSWERS) + " refused" * bool(step.error)
    tip = "tip-refused" if step.error else "tip"
    yield f'<line class="arrow{look}" x1="{start}" y1="{y}" x2="{end - 7 * back}" y2="{y}"/>'
    yield f'<path class="{tip}" d="M{end} {y}l{-9 * back} -4.5v9z"/>'
    yield f'<text x="{(start + end) // 2}" y="{y - 6}" text-anchor="middle">{_text(step.text, 60)}</text>'


def _note(step: Step, y: int) -> Iterator[str]:
    x = _x(step.source)
    yield f'<rect class="note" x="{x - NOTE_WIDTH // 2}" y="{y - 16}" width="{NOTE_WIDTH}" height="24" rx="4"/>'
    yield f'<text class="small" x="{x}" y="{y}" text-anchor="middle">{_text(step.text, 44)}</text>'
