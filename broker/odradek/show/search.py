"""Finds the lines about a transactional id in a large event file, by a search for bytes from the end of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from odradek.show.attribution import attributed, named
from odradek.show.events import Event, Value, event_of

__all__ = ["lines_about"]

CHUNK_BYTES = 16 << 20
MARGIN_BYTES = 1 << 16
"""Number of bytes around a line in which near lines are searched."""
AHEAD_BYTES = 1 << 20
"""Number of bytes behind a request in which its response is searched."""
NEAR = 12
"""Number of lines before and behind a line that are kept with it: its request, other events of the broker."""
NAMES = ("producer_id", "producerId")
"""The field names of a producer id: in an event, and in a request or response."""
Span = tuple[int, int]


def lines_about(file: BinaryIO, size: int, transactional_id: str, most: int) -> list[bytes]:
    """The newest lines about a transactional id and near lines, about `most`; none if the id is not in the file."""
    search = _Search(file, transactional_id, most)
    end = size
    while end > 0 and len(search) < most:
        end = search.look_before(end)
    search.look_again()
    search.look_for_answers()
    return search.lines()[-most:]


class _Search:
    """The lines found so far. A producer id from an older line may stand in newer ones, which are searched again."""

    def __init__(self, file: BinaryIO, transactional_id: str, most: int) -> None:
        self._file = file
        self._most = most
        self._id = transactional_id
        self._needles = (msgspec.json.encode(transactional_id),)
        self._producer_ids: set[int] = set()
        self._looked_at: list[tuple[Span, frozenset[int]]] = []
        """Chunks, and the producer ids that were searched in them."""
        self._found: dict[int, bytes] = {}
        """Lines by their offset."""

    def __len__(self) -> int:
        return len(self._found)

    def look_before(self, end: int) -> int:
        """Search the chunk of whole lines that ends here; returns its first offset."""
        begin = max(0, end - CHUNK_BYTES)
        chunk = self._chunk((begin, end))
        if begin > 0:
            cut = chunk.find(b"\n") + 1
            if cut < len(chunk):  # else it is one line: longer than any event
                chunk, begin = chunk[cut:], begin + cut
        spans = _spans(chunk, self._needles)
        mine = [span for span in spans if self._is_about_it(chunk[slice(*span)])]
        self._keep(begin, sorted({*mine, *self._of_producers(chunk, self._producer_ids)}))
        self._looked_at.append(((begin, end), frozenset(self._producer_ids)))
        return begin

    def look_again(self) -> None:
        """Search again for producer ids that were found later."""
        for span, known in self._looked_at:
            missing = self._producer_ids - known
            if missing:
                chunk = self._chunk(span)
                self._keep(span[0], self._of_producers(chunk, missing))

    def look_for_answers(self) -> None:
        """Search for the responses to requests: they may come much later, and without the id."""
        offsets = sorted(self._found)
        read = [(offset, event) for offset in offsets if (event := event_of(self._found[offset])) is not None]
        attribution = attributed([event for _, event in read])
        answered = frozenset(attribution.requests)
        for index, (offset, event) in enumerate(read):
            if (
                event.kind == "request"
                and attribution.transactional_ids[index] == self._id
                and index not in answered
                and "connection" in event.fields
            ):
                self._look_for_answer(offset, event)

    def _look_for_answer(self, offset: int, request: Event) -> None:
        chunk = self._chunk((offset, offset + AHEAD_BYTES))
        needle = f'"correlation":{request.fields.get("correlation")}'.encode()
        for start, end in _spans(chunk, [needle]):
            event = event_of(chunk[start:end])
            if event is not None and event.kind == "response" and _exchange(event) == _exchange(request):
                self._found.setdefault(offset + start, chunk[start:end])
                return

    def lines(self) -> list[bytes]:
        """The lines found, in the order of the file."""
        return [self._found[offset] for offset in sorted(self._found)]

    def _chunk(self, span: Span) -> bytes:
        begin, end = span
        self._file.seek(begin)
        return self._file.read(end - begin)

    def _is_about_it(self, line: bytes) -> bool:
        event = event_of(line)
        if event is None:
            return False
        transactional_id, producer_id = named(event)
        if transactional_id != self._id:
            return False
        if producer_id is not None:
            self._producer_ids.add(producer_id)
        return True

    def _of_producers(self, chunk: bytes, producer_ids: Iterable[int]) -> list[Span]:
        wanted = frozenset(producer_ids)
        needles = {f'"{name}":{number}'.encode() for name in NAMES for number in wanted}
        return [span for span in _spans(chunk, needles) if _producer_id(chunk[slice(*span)]) in wanted]

    def _keep(self, begin: int, spans: list[Span]) -> None:
        """Keep lines of a chunk that begins here, and near lines, which may be in other chunks."""
        if not spans:
            return
        first = max(0, begin + spans[0][0] - MARGIN_BYTES)
        around = self._chunk((first, begin + spans[-1][1] + MARGIN_BYTES))
        whole = 0 if first == 0 else around.find(b"\n") + 1  # the first line may be cut
        for start, end in reversed(spans):
            if len(self._found) >= self._most:
                break
            for near_start, near_end in _near(around, whole, begin + start - first, begin + end - first):
                self._found.setdefault(first + near_start, around[near_start:near_end])


def _exchange(event: Event) -> tuple[Value, ...]:
    """The values that a request and its response have in common."""
    return event.node, event.fields.get("connection"), event.fields.get("correlation")


def _producer_id(line: bytes) -> int | None:
    event = event_of(line)
    return None if event is None else named(event)[1]


def _spans(chunk: bytes, needles: Iterable[bytes]) -> list[Span]:
    """The places of lines with one of these byte strings, the newest last."""
    found: set[Span] = set()
    for needle in needles:
        at = chunk.find(needle)
        while at >= 0:
            start = chunk.rfind(b"\n", 0, at) + 1
            end = chunk.find(b"\n", at)
            end = len(chunk) if end < 0 else end
            found.add((start, end))
            at = chunk.find(needle, end)
    return sorted(found)


def _near(chunk: bytes, whole: int, start: int, end: int) -> Iterator[Span]:
    """A line and near lines; before `whole` and at the end of the chunk a line may be cut."""
    yield start, end
    at = start
    for _ in range(NEAR):
        if at <= whole:
            break
        before = chunk.rfind(b"\n", whole, at - 1) + 1 or whole
        yield before, at - 1
        at = before
    at = end
    for _ in range(NEAR):
        if at + 1 >= len(chunk):
            break
        behind = chunk.find(b"\n", at + 1)
        if behind < 0:
            break
        yield at + 1, behind
        at = behind
