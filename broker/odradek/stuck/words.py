"""Names, times and requests in sentences; names of clients cannot break the line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["ago", "clipped", "clock", "in_time", "listed", "plain"]

NAME_MAX = 100
LISTED_MAX = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain(text: object, most: int = NAME_MAX) -> str:
    """A printable name: one line, without control characters, at most `most` characters."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(text)[: most + 1])
    return clipped(shown, most)


def clipped(text: str, most: int) -> str:
    """A text of at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(names: list[str]) -> str:
    """`a, b, c and 2 more`."""
    shown = ", ".join(map(plain, names[:LISTED_MAX]))
    more = len(names) - LISTED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def ago(milliseconds: int) -> str:
    """A duration: `350 ms`, `2.1 s`, `5 min 3 s`, `7 d 2 h`."""
    milliseconds = max(0, milliseconds)
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.1f} s"
    seconds = milliseconds // 1000
    for unit, size, below, smaller in (("d", 86_400, 3600, "h"), ("h", 3600, 60, "min"), ("min", 60, 1, "s")):
        if seconds >= 2 * size or size == 60:
            whole, rest = divmod(seconds, size)
            return f"{whole} {unit} {rest // below} {smaller}"
    raise AssertionError("minutes are small enough")


def in_time(at_ms: int, now: int) -> str:
    """A time in the future: `in 12.0 s`, or `now` if it has come."""
    return f"in {ago(at_ms - now)}" if at_ms > now else "now"


def clock(at_ms: int, *, day: bool = False) -> str:
    """A time of the brokers' clock, in UTC: `18:54:13.120`; with the date if `day`."""
    try:
        at = EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:  # the brokers' clock goes further than the calendar
        return f"{at_ms} ms"
    time = at.strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03}"
    return f"{at:%Y-%m-%d} {time}" if day else time
