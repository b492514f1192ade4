"""The inputs of a recording, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.core.wording import counted
from odradek.net.beginning import Complete
from odradek.net.recording_file import Acted, Changed, Entry, Input, Made, Ran, Reader, Received, Sign
from odradek.replay.answers import Conversation
from odradek.replay.ending import check_beginning, check_whole, why_it_ends
from odradek.replay.player import steps_of
from odradek.wire.registry import NAMES

__all__ = ["lines_of"]

CHANGES = {Sign.CLOGGED: "reads too slowly", Sign.DRAINED: "reads again", Sign.LOST: "is gone"}


def lines_of(reader: Reader) -> Iterator[str]:
    """The number of each input, the time since the start (ms), what it is, and how much was sent upon it.

    The last line says why the recording ends before its cluster. Raises `UsageError` for a file that is damaged.
    """
    since_ms, seq, talks, ends = 0, 0, dict[int, Conversation](), list[str]()
    beginning = list[Complete]()
    for step in steps_of(_noting(reader, beginning), ends.append):
        since_ms, seq = since_ms + step.entry.ms, step.seq
        said = [] if step.outcome is None else step.outcome.said
        sent = sum(len(what) for _, what in said if isinstance(what, bytes))
        answer = f"; {counted(sent, 'byte')} sent" if sent else ""
        yield f"{step.seq:>8} {since_ms:>10} ms  {_words(step.entry, talks)}{answer}"
    check_beginning(reader, is_complete=bool(beginning))
    check_whole(reader, seq)
    why = why_it_ends(reader, ends, seq)
    if why is not None:
        yield why


def _noting(entries: Iterable[Entry], beginning: list[Complete]) -> Iterator[Entry]:
    """The entries; the one with which a beginning ends is kept."""
    for entry in entries:
        if isinstance(entry, Complete):
            beginning.append(entry)
        yield entry


def _words(entry: Input, talks: dict[int, Conversation]) -> str:
    if isinstance(entry, Received):
        made = talks.setdefault(entry.conn, Conversation()).asked(entry.data)
        asked = ", ".join(f"{NAMES.get(api, api)} v{version}" for api, version in made) or "part of a request"
        return f"connection {entry.conn}: {asked} ({counted(len(entry.data), 'byte')})"
    if isinstance(entry, Ran):
        return f"call {entry.call} of the brokers"
    if isinstance(entry, Made):
        return f"connection {entry.conn} to broker {entry.broker}, listener {entry.listener}"
    if isinstance(entry, Changed):
        return f"connection {entry.conn} {CHANGES.get(entry.sign, 'has changed')}"
    assert isinstance(entry, Acted), "there is no other input"
    arguments = ", ".join(f"{name}={value!r}" for name, value in entry.arguments.items())
    return f"{entry.deed}({arguments})"
