"""The format of a recording: one line that says what it is, one of JSON about the cluster, then entries.

An entry is its length (four bytes, big-endian) and an array of msgpack. What came in has an entry of its own, which is
written before the brokers hear of it, so that one that ends the process is in the file; what came of it follows in the
next. So the brokers' answers to the newest input are the only thing that SIGKILL can take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct as Layout
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from odradek import __version__
from odradek.cli.usage import UsageError
from odradek.metadata.controller_role import StartTopic
from odradek.net.beginning import Began, Complete, Piece
from odradek.wire.messages.digest import SCHEMAS

__all__ = [
    "FORMAT",
    "Acted",
    "Change",
    "Changed",
    "Closed",
    "DiskAnswer",
    "Entry",
    "Head",
    "Input",
    "Made",
    "Outcome",
    "Ran",
    "Reader",
    "Received",
    "Said",
    "Sign",
    "frame",
    "frame_around",
    "head_lines",
]

FORMAT = 2
FORMATS = (1, FORMAT)
"""Those that are read: 2 may have a beginning."""
MAGIC = "odradek recording "
LENGTH_BYTES = 4
HEAD_BYTES_MAX = 1 << 24
ENTRY_BYTES_MAX = 1 << 30
_BIN32, _BIN32_TAG = Layout(">BI"), 0xC6
"""The beginning of bytes in msgpack, of any length; that of no bytes takes two bytes."""


class Head(Struct, frozen=True, kw_only=True):
    """The cluster that was recorded, as it was asked for, and what recorded it."""

    config: dict[str, str]
    """Its static configuration."""
    dialect: str | None
    node_ids: tuple[int, ...]
    host: str
    port: int
    advertised_host: str | None
    advertised_port: int | None
    topics: tuple[StartTopic, ...]
    seed: int
    cluster_id: str | None
    ports: dict[int, dict[str, tuple[str, int]]]
    """The addresses of each broker's listeners, by their names."""
    listeners: dict[str, str]
    """The security protocol of each listener."""
    release: str
    began_ms: int
    """The machine's time (ms) before the first input."""
    began: Began | None = None
    """What the cluster began with; None: it was empty. Its pieces follow the head."""
    odradek: str = __version__
    schemas: str = SCHEMAS
    with_secrets: bool = False


class Ran(Struct, array_like=True, tag=0):
    """A call that the brokers had planned was made."""

    ms: int
    """How long after the input before."""
    call: int
    """Its number, from 1, in the order in which calls were planned."""


class Made(Struct, array_like=True, tag=1):
    """A client has connected."""

    ms: int
    conn: int
    """Connections are numbered from 1."""
    broker: int
    listener: str
    host: str
    port: int
    subject: list[list[tuple[str, str]]] | None
    """The names in the certificate of the client, where it has shown one; None for a connection without TLS."""


class Received(Struct, array_like=True, tag=2):
    """Bytes of a client arrived."""

    ms: int
    conn: int
    data: bytes


Change: TypeAlias = int
"""The change of a connection: `CLOGGED`, `DRAINED` or `LOST`."""


class Sign:
    """Values in place of bytes in an outcome, and for changes of a connection."""

    CLOSED = 1
    """The brokers have closed it, behind what was sent."""
    ABORTED = 2
    CLOGGED = 3
    """The client reads too slowly."""
    DRAINED = 4
    LOST = 5


class Changed(Struct, array_like=True, tag=3):
    """A connection has changed."""

    ms: int
    conn: int
    sign: Change


class Acted(Struct, array_like=True, tag=4):
    """Somebody has acted on the cluster: `start`, or one of `odradek.net.outside.DEEDS`."""

    ms: int
    deed: str
    arguments: dict[str, object]


Said: TypeAlias = tuple[int, bytes | int]
"""A connection, and the bytes that were sent over it, or a `Sign`."""
DiskAnswer: TypeAlias = tuple[int, str | tuple[int, int]]
"""Which call of the disk in this input, from 1; the sentence of its failure, or the space that it told."""


class Outcome(Struct, array_like=True, tag=5):
    """The outcome of the input before: output of the brokers, and the values that they drew meanwhile."""

    said: list[Said]
    turns: list[int]
    """Which looks of the brokers, from 1, found a turn over."""
    worked: list[int]
    """Readings of the time that the thread has worked (ns)."""
    drawn: list[int | bytes]
    """Random numbers that nobody could foresee."""
    disk: list[DiskAnswer] = []
    """Answers of the disk that do not follow from what was written to it."""


class Closed(Struct, array_like=True, tag=6):
    """The recording ends here; the sentence says why, where the cluster did not end with it."""

    why: str


Input: TypeAlias = Ran | Made | Received | Changed | Acted
Entry: TypeAlias = Input | Outcome | Closed | Piece | Complete

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Entry)


def head_lines(head: Head) -> bytes:
    """The first two lines of a file; its beginning comes next, if it has one."""
    return f"{MAGIC}{FORMAT}\n".encode() + msgspec.json.encode(head) + b"\n"


def frame(entry: Entry, out: bytearray) -> None:
    """Append an entry."""
    data = _encode(entry)
    out += len(data).to_bytes(LENGTH_BYTES, "big")
    out += data


def frame_around(entry: Received, out: bytearray) -> None:
    """Append an entry without its data, with which it ends, so that they need no copy."""
    head = _encode(Received(entry.ms, entry.conn, b""))[:-2]
    out += (len(head) + _BIN32.size + len(entry.data)).to_bytes(LENGTH_BYTES, "big")
    out += head
    out += _BIN32.pack(_BIN32_TAG, len(entry.data))


class Reader:
    """The entries of a recording, one after the other. Raises `UsageError` for a file that is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False
        """Whether the file ends within an entry."""
        self.damaged = False
        """Whether something that is no entry stands where one should be."""
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
        try:
            self.head = self._read_head()
        except BaseException:
            self._file.close()
            raise

    def _read_head(self) -> Head:
        first = self._line(len(MAGIC) + 20)
        known, number = first[: len(MAGIC)], first[len(MAGIC) :].strip()
        if known != MAGIC.encode() or not number.isdigit():
            raise UsageError(f"{self.path} is not a recording of odradek serve --record.")
        if int(number) not in FORMATS:
            raise UsageError(
                f"{self.path} is a recording of format {int(number)}, and Odradek {__version__} reads "
                f"formats {' and '.join(map(str, FORMATS))}."
            )
        try:
            return msgspec.json.decode(self._line(HEAD_BYTES_MAX), type=Head)
        except msgspec.DecodeError as error:
            raise UsageError(f"{self.path} is a recording whose head cannot be read: {error}.") from None

    def _line(self, most: int) -> bytes:
        try:
            return self._file.readline(most)
        except OSError as error:
            raise UsageError(f"Cannot read {self.path}: {error.strerror}.") from error

    def __iter__(self) -> Iterator[Entry]:
        with self._file as file:
            while length := file.read(LENGTH_BYTES):
                size = int.from_bytes(length, "big")
                self.damaged = len(length) == LENGTH_BYTES and not 0 < size <= ENTRY_BYTES_MAX
                data = b"" if self.damaged else file.read(size)
                self.torn = len(length) < LENGTH_BYTES or len(data) < size
                if self.damaged or self.torn:
                    return
                try:
                    entry = _decoder.decode(data)
                except msgspec.DecodeError:
                    self.damaged = True
                    return
                yield entry

    def close(self) -> None:
        self._file.close()


def difference_of_heads(head: Head) -> Mapping[str, tuple[str, str]]:
    """In what the recorded Odradek differs from this one: by its name, there and here."""
    here = {"Odradek": __version__, "the schemas": SCHEMAS}
    there = {"Odradek": head.odradek, "the schemas": head.schemas}
    return {name: (there[name], here[name]) for name in here if here[name] != there[name]}
