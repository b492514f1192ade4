"""Where a recording ends, in words; a replay and a list of its inputs say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek.net.recording_file import Reader

__all__ = ["check_beginning", "check_whole", "why_it_ends"]


def check_beginning(reader: Reader, *, is_complete: bool) -> None:
    """Raises `UsageError` where a recording has a beginning, and ends within it."""
    if reader.head.began is not None and not is_complete:
        raise UsageError(
            f"{reader.path} is cut off within its beginning, the state before its first input: nothing is played."
        )


def check_whole(reader: Reader, seq: int) -> None:
    """Raises `UsageError` where something that is no entry stands behind this input."""
    if reader.damaged:
        raise UsageError(f"{reader.path} is damaged behind input {seq:,}: what follows cannot be read.")


def why_it_ends(reader: Reader, ends: Sequence[str], seq: int) -> str | None:
    """Why there is nothing behind this input; None where the cluster ended there. `ends` is what the recording says."""
    if ends:
        return f"The recording ends before its cluster did: {ends[0]}" if ends[0] else None
    where = "within an entry" if reader.torn else "without the end of its cluster"
    return f"The recording is cut off {where}, behind input {seq:,}: what came later is not in it."
