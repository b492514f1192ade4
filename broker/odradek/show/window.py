"""A window of an event file: its newest events, those from a number on, or those about a transactional id.

It is found by seeking and by a search for bytes; only the lines of the window are decoded. So a large file opens as
fast as a small one, except that a search for a transactional id may have to read the whole file.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.core.wording import counted
from odradek.show.events import Event, Fields, Value, event_of, is_like_an_event
from odradek.show.history import window_note
from odradek.show.search import lines_about

__all__ = ["EVENTS_MAX", "WHY", "Window", "read_window"]

EVENTS_MAX = 20_000
BLOCK_BYTES = 1 << 20
WINDOW_BYTES_MAX = 256 << 20
"""Maximum of bytes in a window, even with very long lines."""
WHY = "why"
"""The kind of the line that says what was stuck when the file was written, as a WhyView (docs/hub.md): its `why`."""
MANY_RUNS = "The file has the events of several runs; these are of the last one."
CUT = "The file ends in the middle of an event."


class Window(Struct, frozen=True, kw_only=True):
    """The part of a file that was read."""

    events: tuple[Event, ...]
    left_out: int
    """Number of events in the file that are not in the window, by their numbers."""
    note: str
    """Sentences for the reader, or empty."""
    why: Fields | None = None
    """The stuck partitions and transactions when the file was written, if it has them."""


class _Lines(Struct):
    """The lines of a window."""

    lines: Sequence[bytes]
    is_cut: bool = False
    """Whether the last line has no end."""


def read_window(
    path: Path, *, first: int | None = None, most: int = EVENTS_MAX, transactional_id: str | None = None
) -> Window:
    """The newest events of a file, at most `most`.

    With `first` the oldest ones from this number on; with a transactional id those about it, and near events.
    Raises UsageError, one sentence, for a file that cannot be read or has no such events.
    """
    try:
        with path.open("rb") as opened:
            if stat.S_ISREG(path.stat().st_mode):
                return _read(opened, path, first, most, transactional_id)
            with tempfile.TemporaryFile() as copy:  # such as a pipe, which cannot seek
                shutil.copyfileobj(opened, copy)
                return _read(copy, path, first, most, transactional_id)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def _read(file: BinaryIO, path: Path, first: int | None, most: int, transactional_id: str | None) -> Window:
    size = file.seek(0, 2)
    if size == 0:
        raise UsageError(f"{path}: the file is empty")
    newest = _newest(file, size, most)
    last = _decoded(path, newest)
    if transactional_id is not None:
        found = lines_about(file, size, transactional_id, most)
        if not found:
            raise UsageError(f"{path} says nothing about the transactional id {transactional_id!r}.")
        chosen = _decoded(path, _Lines(found))
    elif first is not None:
        chosen = _decoded(path, _from(file, size, first, most))
        events = tuple(event for event in chosen.events if event.seq >= first)[:most]
        if not events:
            raise UsageError(f"{path} has no event from number {first} on: its last is {last.events[-1].seq}.")
        chosen = _Decoded(events, chosen.notes, chosen.why)
    else:
        chosen = last
    events = chosen.events[-most:]
    left_out = _left_out(file, last.events[-1].seq, events, has_gaps=transactional_id is not None)
    of_the_end = [note for note in last.notes if note in (CUT, MANY_RUNS)]
    which = window_note(len(events), left_out, first=first, transactional_id=transactional_id)
    sentences = [which, *chosen.notes, *of_the_end]
    return Window(events=events, left_out=left_out, note=" ".join(filter(None, dict.fromkeys(sentences))), why=last.why)


def _left_out(file: BinaryIO, last: int, events: Sequence[Event], *, has_gaps: bool) -> int:
    """Number of events before and behind the window, and between its events if some were selected."""
    file.seek(0)
    beginning = map(event_of, file.read(BLOCK_BYTES).split(b"\n"))
    first = next((event.seq for event in beginning if event is not None and event.kind != WHY), 1)
    first = min(first, events[0].seq)  # the file may begin with another run
    here = len(events) if has_gaps else events[-1].seq - events[0].seq + 1
    return max(0, last - first + 1 - here)


def _newest(file: BinaryIO, size: int, most: int) -> _Lines:
    """The last lines, and one more that may be the `why` line."""
    wanted = most + 1
    blocks: list[bytes] = []
    start, count = size, 0
    while start > 0 and count <= wanted and size - start < WINDOW_BYTES_MAX:
        begin = max(0, start - BLOCK_BYTES)
        file.seek(begin)
        blocks.append(file.read(start - begin))
        count += blocks[-1].count(b"\n")
        start = begin
    lines = b"".join(reversed(blocks)).split(b"\n")
    whole = lines[1:] if start > 0 else lines
    return _Lines(whole[-wanted - 1 :], is_cut=bool(whole and whole[-1].strip()))


def _from(file: BinaryIO, size: int, first: int, most: int) -> _Lines:
    """The lines from about this number on, found by bisection."""
    low, high = 0, size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        number = _number_behind(file, middle)
        if number is None or number >= first:
            high = middle
        else:
            low = middle
    file.seek(low)
    if low > 0:
        file.readline()
    lines: list[bytes] = []
    count = length = 0
    while count < most and length < WINDOW_BYTES_MAX and (line := file.readline()):
        lines.append(line)
        length += len(line)
        event = event_of(line)
        count += event is not None and event.seq >= first
    return _Lines(lines, is_cut=not lines[-1].endswith(b"\n") if lines else False)


def _number_behind(file: BinaryIO, offset: int) -> int | None:
    """The number of the first event behind an offset, if there is a near one."""
    file.seek(offset)
    lines = file.read(BLOCK_BYTES).split(b"\n")[1:]
    return next((event.seq for event in map(event_of, lines) if event is not None), None)


class _Decoded(Struct):
    events: tuple[Event, ...]
    notes: list[str]
    why: Fields | None


def _decoded(path: Path, read: _Lines) -> _Decoded:
    """The events of lines, of the last run only; other lines are left out, and a note says so.

    Raises UsageError if there is no event.
    """
    events: list[Event] = []
    notes: list[str] = []
    why, bad = None, 0
    lines = [line for line in read.lines if line.strip()]
    for number, line in enumerate(lines, 1):
        event = event_of(line)
        if event is None:
            if read.is_cut and number == len(lines):
                notes.append(CUT)
            else:
                bad += 1
        elif event.kind == WHY:
            why = _why(event)
        else:
            if events and event.seq <= events[-1].seq:
                events.clear()
                notes.append(MANY_RUNS)
            events.append(event)
    if not events:
        raise UsageError(f"{path}: {_what_it_is(lines)}")
    if bad:
        notes.append(f"{counted(bad, 'line')} {'is' if bad == 1 else 'are'} no {'event' if bad == 1 else 'events'}.")
    return _Decoded(tuple(events), notes, why)


def _why(event: Event) -> Fields | None:
    why: Value = event.fields.get("why")
    return why if isinstance(why, dict) else None


def _what_it_is(lines: Sequence[bytes]) -> str:
    """A sentence that explains why a file has no event."""
    if any(map(is_like_an_event, lines)):
        return "this version of Odradek does not know the format of its events (docs/events.md)"
    return "this is no event file (docs/events.md)"
