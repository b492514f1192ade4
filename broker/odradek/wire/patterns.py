"""The patterns that clients send, in RE2: whatever a client writes, a match takes time in proportion to its input.

Kafka uses RE2/J, which is the same language but for what `docs/skipped.md` names.
The library is imported by the first who needs it, because most clusters never see a pattern.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

__all__ = ["PATTERN_BYTES_MAX", "InvalidPattern", "matcher"]

PATTERN_BYTES_MAX = 8 * 1024 * 1024
"""Memory for a compiled pattern and its matches; RE2 refuses what does not fit, and what is nested too deep."""

_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
"""What RE2 says, and what RE2/J says of the same mistake, where they differ."""
_NAMED_GROUPS = ("(?P", "(?<")


class InvalidPattern(Struct, frozen=True):
    """The text is no pattern: why, in the words of RE2/J."""

    reason: str


def matcher(pattern: str) -> Callable[[str], bool] | InvalidPattern:
    """Whether the pattern matches the whole of a text; or why it is no pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # Nobody asks what the groups hold, and with thousands of groups to fill each match would be slow.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        return InvalidPattern(_reason(error.args[0]))
    finally:
        re2.purge()  # the library remembers 128 patterns, however large they are
    return lambda text: compiled.fullmatch(text) is not None


def _reason(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    mistake, _, where = text.partition(": ")
    if mistake == "invalid perl operator":
        return "invalid named capture" if where.startswith(_NAMED_GROUPS) else "invalid or unsupported Perl syntax"
    return _REASONS.get(mistake, mistake)
