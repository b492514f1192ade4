"""Parsers for the values of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from odradek.cli.usage import UsageError

__all__ = ["duration_ms", "settings_of", "users_of"]

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """`500ms`, `90s`, `1h30m`, `7d` in milliseconds. Raises UsageError for any other text."""
    found = re.findall(r"(\d+)(ms|s|m|h|d)", text)
    if not found or "".join(number + unit for number, unit in found) != text:
        raise UsageError(f"A time is like 500ms, 90s, 1h30m or 7d, not {text}.")
    return sum(int(number) * UNITS[unit] for number, unit in found)


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """A mapping from texts `KEY=VALUE`. Raises UsageError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"A setting is KEY=VALUE, not {text}.")
        found[key] = value
    return found


def users_of(texts: Sequence[str]) -> dict[str, str]:
    """A mapping from texts `NAME:PASSWORD`. Raises UsageError, which does not repeat them."""
    found = {}
    for text in texts:
        name, colon, password = text.partition(":")
        if not (name and colon and password):
            raise UsageError("A user is NAME:PASSWORD, and what is given is not.")
        found[name] = password
    return found
