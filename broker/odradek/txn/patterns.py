"""The patterns that clients send, in RE2: whatever a client writes, a match takes time in proportion to its input.

Kafka uses RE2/J, which is the same language but for what `docs/skipped.md` names.
The library is imported by the first who needs it, because most clusters never see a pattern.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.log.machine import Refused
from odradek.wire.errors import ErrorCode

__all__ = ["PATTERN_BYTES_MAX", "matcher"]

PATTERN_BYTES_MAX = 8 * 1024 * 1024
"""Memory for a compiled pattern and its matches; RE2 refuses what does not fit, and what is nested too deep."""


def matcher(pattern: str) -> Callable[[str], bool] | Refused:
    """Whether the pattern matches the whole of a text; or the refusal of what is no pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # Nobody asks what the groups hold, and with thousands of groups to fill each match would be slow.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error:
        return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
    finally:
        re2.purge()  # the library remembers 128 patterns, however large they are
    return lambda text: compiled.fullmatch(text) is not None
