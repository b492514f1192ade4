"""The claims of a JSON Web Token, read as Kafka's libraries read them: Jackson for unsigned tokens, jose4j for signed
ones.

Times in a token are seconds since 1970 (RFC 7519, section 2), as any JSON number.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

__all__ = ["json_object", "rounded_ms", "whole_ms"]

DIGITS_MAX = 1_000
"""Jackson reads numbers with at most this many characters."""
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def json_object(text: str | bytes, *, once: bool = False) -> dict[str, object] | None:
    """A JSON object, or None if the text is not one; with `once`, also None if a name occurs twice.

    Two readers may choose different ones of two equal names.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_once if once else None,
            parse_constant=_no_number,
            parse_int=_integer,
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def rounded_ms(value: object) -> int | None:
    """A time of an unsigned token in ms: a double, rounded to the nearest ms, within the range of a Java long."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        ms = float(value) * 1000 + 0.5
    except OverflowError:
        return LONG_MAX if value > 0 else LONG_MIN
    return math.floor(min(max(ms, LONG_MIN), LONG_MAX))


def whole_ms(value: object) -> int | None:
    """A time of a signed token in ms: rounded down to seconds; integers are limited to the range of a Java long."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return int(min(max(value, LONG_MIN), LONG_MAX)) * 1000
    return value * 1000 if LONG_MIN <= value <= LONG_MAX else None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a claim stands twice in a token")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _integer(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise ValueError("a number of too many digits")
    return int(text)
