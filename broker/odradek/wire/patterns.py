"""Regular expressions of clients, in RE2: for any pattern a match takes time in proportion to its input.

Kafka uses RE2/J, the same language with the exceptions in `docs/skipped.md`.
The library is imported at the first pattern, because most clusters never see one.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

__all__ = ["PATTERN_BYTES_MAX", "InvalidPattern", "matcher"]

PATTERN_BYTES_MAX = 8 * 1024 * 1024
"""Memory for a compiled pattern and its matches; RE2 refuses larger patterns, and those that are nested too deep."""

_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
"""Error texts of RE2, and of RE2/J for the same mistake, if they differ."""
_NAMED_GROUPS = ("(?P", "(?<")


class InvalidPattern(Struct, frozen=True):
    """The text is no valid pattern; the reason is in the words of RE2/J."""

    reason: str


def matcher(pattern: str) -> Callable[[str], bool] | InvalidPattern:
    """A function that tells whether the pattern matches a whole text; or the error of the pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # The contents of groups are not needed, and with thousands of groups each match would be slow.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        return InvalidPattern(_reason(error.args[0]))
    finally:
        re2.purge()  # the library caches 128 patterns of any size
    return lambda text: compiled.fullmatch(text) is not None


def _reason(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    mistake, _, where = text.partition(": ")
    if mistake == "invalid perl operator":
        return "invalid named capture" if where.startswith(_NAMED_GROUPS) else "invalid or unsupported Perl syntax"
    return _REASONS.get(mistake, mistake)
