"""Numbers, times and names as people read them; tables of HTML."""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["counted", "listed", "number", "size", "span", "table_of", "time_of", "words"]

_TIMES = frozenset(
    ("since", "begin", "first record", "prepare", "first marker", "last marker", "complete", "timestamp")
)
_NAMES = frozenset(("partition", "producer id", "producer epoch", "epoch", "leader epoch", "marker epoch", "incident"))
"""Columns of numbers that name something, and are not counted."""
_LONG = frozenset(("path", "detail", "transactional id", "txn", "process", "what"))
"""Columns of text that may be long, and are broken anywhere."""
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_SIZES = ("bytes", "KB", "MB", "GB", "TB", "PB")


def number(value: float) -> str:
    """With separators; no more digits behind the point than say something."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def counted(value: float, one: str, many: str = "") -> str:
    """So many of something: `1 file`, `2 files`."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """As people enumerate: `4, 5 and 6`; of more than so many the first, and how many more there are."""
    texts = [str(item) for item in items]
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{number(len(texts) - most + 1)} more"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def size(value: float) -> str:
    """A number of bytes."""
    place = 0
    while value >= 1000 and place < len(_SIZES) - 1:
        value, place = value / 1000, place + 1
    return f"{value:,.3g} {_SIZES[place]}" if place else f"{int(value)} {_SIZES[0]}"


def span(milliseconds: float) -> str:
    """A length of time in its largest unit, and the one below it."""
    for place, (unit, name) in enumerate(_SPANS):
        if milliseconds >= unit:
            whole = int(milliseconds // unit)
            if name == "s":
                return f"{milliseconds / 1000:.3g} s"
            below, smaller = _SPANS[place + 1]
            rest = int(milliseconds % unit // below)
            return f"{whole} {name} {rest} {smaller}" if rest else f"{whole} {name}"
    return f"{number(milliseconds)} ms"


def time_of(milliseconds: float) -> str:
    """A time of a log, in UTC; nothing where there is none."""
    if milliseconds <= 0:
        return ""
    try:
        when = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # damaged bytes say any number
        return f"{int(milliseconds):,} ms after 1970"
    return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{int(milliseconds) % 1000:03} UTC"


def words(name: str) -> str:
    """A name of a column or of an incident."""
    return name.replace("_", " ").replace("-", " ")


def table_of(frame: pd.DataFrame, *, marked: pd.Series[bool] | None = None) -> str:
    """An HTML table; what is -1 or empty is left blank."""
    headings = [words(str(column)) for column in frame.columns]
    rows = ["<tr>" + "".join(f"<th>{html.escape(one)}</th>" for one in headings) + "</tr>"]
    marks = [False] * len(frame) if marked is None else marked.tolist()
    for mark, row in zip(marks, frame.itertuples(index=False), strict=True):
        cells = "".join(_cell(name, value) for name, value in zip(headings, row, strict=True))
        rows.append(f'<tr class="here">{cells}</tr>' if mark else f"<tr>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _cell(heading: str, value: Any) -> str:
    if value is None or value == -1 or value == "" or (isinstance(value, float) and value != value):
        return "<td></td>"
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        kind = ' class="l"' if heading in _LONG else ""
        return f"<td{kind}>{html.escape(str(value))}</td>"
    name = str(int(value)) if heading in _NAMES else number(float(value))
    text = time_of(float(value)) if heading in _TIMES else name
    return f'<td class="n">{html.escape(text)}</td>'
