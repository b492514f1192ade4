"""Both sides of a connection as requests and responses, and where two responses differ."""

from __future__ import annotations

from struct import Struct as Layout

import msgspec
from msgspec import Struct

from odradek.host.bodies import rendered
from odradek.net.recording_file import Sign
from odradek.wire import registry
from odradek.wire.errors import DecodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.registry import NAMES

__all__ = ["Conversation", "Difference", "difference"]

_REQUEST = Layout(">hhi")
"""The API of a request, its version, and its correlation id."""
_CORRELATION = Layout(">i")
FRAME_BYTES_MAX = (1 << 31) - 1
ASKED_MAX = 10_000
"""So many requests of a connection are known at most: some are never answered."""
SHOWN_BYTES_MAX = 4_000
SIGNS = {Sign.CLOSED: "the connection is closed", Sign.ABORTED: "the connection is cut off", None: "nothing"}


class Difference(Struct, frozen=True):
    """The first thing that brokers did otherwise."""

    seq: int
    """The number of the input."""
    text: str


class Conversation:
    """The requests over one connection, and the number of responses."""

    def __init__(self) -> None:
        self._requests = FrameBuffer(FRAME_BYTES_MAX)
        self._responses = FrameBuffer(FRAME_BYTES_MAX)
        self._asked: dict[int, tuple[int, int]] = {}

    def asked(self, data: bytes) -> list[tuple[int, int]]:
        """Bytes of the client; the API and version of each request that is complete with them."""
        made = []
        try:
            for frame in self._requests.feed(data):
                if len(frame) >= _REQUEST.size:
                    api, version, correlation_id = _REQUEST.unpack_from(frame)
                    if len(self._asked) >= ASKED_MAX:
                        del self._asked[next(iter(self._asked))]
                    self._asked[correlation_id] = api, version
                    made.append((api, version))
        except DecodeError:
            self._requests = FrameBuffer(FRAME_BYTES_MAX)  # the brokers end such a connection
        return made

    def answered(self, data: bytes) -> int:
        """Bytes of the brokers; how many responses are complete with them."""
        count = 0
        for frame in self._responses.feed(data):
            count += 1
            if len(frame) >= _CORRELATION.size:
                self._asked.pop(_correlation_id(frame), None)
        return count

    def frames(self, data: bytes) -> list[memoryview]:
        """The responses in these bytes, which come next; none where they do not begin with one."""
        return [] if self._responses.held else list(FrameBuffer(FRAME_BYTES_MAX).feed(data))

    def question(self, response: memoryview) -> tuple[int, int] | None:
        """The API and version of the request that a response answers."""
        return self._asked.get(_correlation_id(response)) if len(response) >= _CORRELATION.size else None


def _correlation_id(response: memoryview) -> int:
    found: int = _CORRELATION.unpack_from(response)[0]
    return found


def difference(
    seq: int, answers: int, conn: int, talk: Conversation, recorded: bytes | int | None, played: bytes | int | None
) -> Difference:
    """Brokers have said something else over a connection than was recorded, or ended it, or said nothing."""
    number, sides = answers + 1, [_frame_or_all(talk, side) for side in (recorded, played)]
    if isinstance(recorded, bytes) and isinstance(played, bytes):
        for pair in zip(talk.frames(recorded), talk.frames(played), strict=False):
            if pair[0] != pair[1]:
                sides = list(pair)
                break
            number += 1
    lines = [f"Answer {number:,} differs, at input {seq:,}, over connection {conn}:"]
    lines += [f"  recorded: {_shown(talk, sides[0])}", f"  played:   {_shown(talk, sides[1])}"]
    if isinstance(sides[0], memoryview) and isinstance(sides[1], memoryview):
        lines.append(_first_byte(sides[0], sides[1]))
    return Difference(seq, "\n".join(lines))


def _frame_or_all(talk: Conversation, said: bytes | int | None) -> memoryview | int | None:
    """The first response in what was said, or all of it where that is not one response after the other."""
    if not isinstance(said, bytes):
        return said
    frames = talk.frames(said)
    return frames[0] if frames else memoryview(said)


def _first_byte(recorded: memoryview, played: memoryview) -> str:
    both = min(len(recorded), len(played))
    at = next((index for index in range(both) if recorded[index] != played[index]), both)
    ends = [f"0x{side[at]:02x}" if at < len(side) else "the end" for side in (recorded, played)]
    return f"  The first byte that differs is number {at}: {ends[0]} was recorded, {ends[1]} was played."


def _shown(talk: Conversation, said: memoryview | int | None) -> str:
    if not isinstance(said, memoryview):
        return SIGNS.get(said, "the connection has changed")
    asked = talk.question(said)
    shown = None if asked is None else _decoded(said, *asked)
    return shown or f"{len(said)} bytes {said[: SHOWN_BYTES_MAX // 2].hex()}"


def _decoded(frame: memoryview, api: int, version: int) -> str | None:
    """A response in words; None if it cannot be read."""
    try:
        _, start = registry.reader(ResponseHeader, registry.response_header_version(api, version))(frame, 0)
        fields = rendered(bytes(frame), start, registry.response_type(api), version)
    except (DecodeError, LookupError, ValueError):
        return None
    text = msgspec.json.encode(fields.get("body")).decode()
    shown = text if len(text) <= SHOWN_BYTES_MAX else f"{text[:SHOWN_BYTES_MAX]}…"
    return f"{NAMES.get(api, str(api))} v{version} {shown}"
