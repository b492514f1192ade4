"""Keeps everything that comes to a cluster from outside in a file, and what its brokers answer.

    odradek serve --record FILE

The brokers are a function of it, so `odradek replay FILE` gives every answer again (docs/replay.md).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.faults.armed import Armed
from odradek.host import events
from odradek.log.disk import DiskError
from odradek.metadata.secrets import may_be_shown, secret_in
from odradek.net.beginning import Complete
from odradek.net.clock import Clock, machine_ms
from odradek.net.counted_disk import CountedDisk
from odradek.net.masks import InParts, Mask
from odradek.net.outside import Outside, Watch
from odradek.net.protocol import ClientProtocol
from odradek.net.recording_file import (
    Acted,
    Changed,
    Closed,
    DiskAnswer,
    Head,
    Input,
    Made,
    Outcome,
    Ran,
    Received,
    Said,
    Sign,
    frame,
    frame_around,
    head_lines,
)

if TYPE_CHECKING:
    from ssl import SSLObject

    from odradek.access.listeners import Listener
    from odradek.broker import Logger
    from odradek.config.table import Config
    from odradek.core.clock import Rng
    from odradek.log.disk import Disk
    from odradek.metadata.controller_role import StartTopic
    from odradek.metadata.image import MetadataImage
    from odradek.net.beginning import Began, Piece
    from odradek.net.disk import LocalDisk
    from odradek.net.outside import Calls, Handle, Planned
    from odradek.net.ports import Port
    from odradek.net.protocol import Hearer

__all__ = ["Record", "Recording", "head_of", "new_record", "new_seed"]

N = TypeVar("N", int, bytes)
T = TypeVar("T")
STEM_MAX = 100
PRIVATE = 0o600
"""The file's mode, for its owner only: it has everything that clients have sent."""
SEED_BITS = 63
LARGE_BYTES = 64 * 1024
"""Bytes of a client from this size on are written as they are, and not copied into their entry first."""


def new_seed() -> int:
    """A seed for a cluster whose user gave none."""
    return SystemRandom().getrandbits(SEED_BITS)


class Record(Struct, frozen=True, kw_only=True):
    """The file of a recording, and the choices about its content."""

    path: Path
    with_secrets: bool = False
    """Also what lets somebody in: passwords, keys, and what was said over TLS."""
    bytes_max: int | None = None
    """The recording ends before its file is longer."""
    where_allowed: bool = False
    """A cluster that must not be recorded runs all the same, without a recording."""

    def nth(self, number: int) -> Record:
        """The same for a later cluster in the place of the first: another file."""
        path = self.path if number == 1 else self.path.with_stem(f"{self.path.stem}-{number}")
        return msgspec.structs.replace(self, path=path)


def new_record(folder: Path, name: str, *, with_secrets: bool) -> Record:
    """A file for a cluster of this name in a folder of recordings: `NAME-1.rec`, `NAME-2.rec`, …

    Clusters that must not be recorded run without. Raises `UsageError` where there can be no such folder.
    """
    stem, number = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("_")[-STEM_MAX:] or "cluster", 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot record to {folder}: {error.strerror}.") from error
    while (path := folder / f"{stem}-{number}.rec").exists():
        number += 1
    return Record(path=path, with_secrets=with_secrets, where_allowed=True)


class Recording(Outside):
    """The machine, and a file of what comes from it. Raises `UsageError` where the file cannot be made."""

    def __init__(self, loop: Calls, record: Record, log: Logger) -> None:
        super().__init__(loop)
        self.tape = Tape(record, log)
        self.calls = _Calls(loop, self.tape)
        self.machine = self.tape.now
        self.clock = Clock(self.machine)
        self._pieces: list[Piece] | None = None
        self._refused: str | None = None
        self.secrets = _Drawn(self.secrets, self.tape)

    def keep_beginning(self, pieces: Callable[[], list[Piece]]) -> None:
        """The cluster begins with these, before anything of it changes. Raises `UsageError` if it cannot be kept."""
        try:
            self._pieces = pieces()
        except UsageError as error:
            if not self.tape.where_allowed:
                self.abandon()
                raise
            self._refused = str(error)

    def begin(self, head: Head, image: MetadataImage | None) -> None:
        """The cluster is about to start; the image is the metadata that it begins with.

        Raises `UsageError` for one with secrets, unless they are to be kept.
        """
        if self._refused is not None:
            self.abandon()
            self.not_kept = f"Not recorded: {self._refused}"
            return
        self.not_kept = self.tape.begin(head, image, self._pieces)
        self.kept_in = None if self.not_kept else self.tape.path
        self._pieces = None

    def disk(self, disk: LocalDisk) -> Disk:
        return _Disk(disk, self.tape)

    def watch(self) -> Watch:
        return _Watch(self.tape)

    def client(self, driver: Hearer, broker: int, listener: str) -> ClientProtocol:
        return _Client(driver, broker, listener, self.tape)

    def does(self, name: str, act: Callable[[], T], arguments: Callable[[], Mapping[str, object]]) -> T:
        tape = self.tape
        if tape.over or tape.inside:
            return act()
        try:
            as_data = {key: _as_data(value) for key, value in arguments().items()}
        except TypeError as error:
            tape.close(f"{name} is not recorded: {error}.")
            return act()
        return tape.take(Acted(0, name, as_data), act)

    def end(self) -> None:
        super().end()
        self.tape.close("")

    def abandon(self) -> None:
        self.tape.remove()


def _as_data(argument: object) -> object:
    """An argument of a deed. Raises TypeError for a function."""
    if isinstance(argument, Armed):
        return argument.name
    if isinstance(argument, list):
        return [_as_data(each) for each in argument]
    return msgspec.to_builtins(argument)


class Tape:
    """The file, and the input that the brokers have at the moment."""

    def __init__(self, record: Record, log: Logger) -> None:
        self.path = record.path
        self.over = False
        """Whether nothing more is kept."""
        self.inside = False
        """Whether the brokers have an input now."""
        self.conns = 0
        self.planned = 0
        self.where_allowed = record.where_allowed
        self.said: list[Said] = []
        self.looks = 0
        """How often brokers have looked whether their turns are over, during this input."""
        self.turns: list[int] = []
        self.worked: list[int] = []
        self.drawn: list[int | bytes] = []
        self.disk: list[DiskAnswer] = []
        self._asked = 0
        """How often brokers have called the disk during this input."""
        self._started = False
        self._record = record
        self._log = log
        self._size = 0
        self._ms = self._entered_ms = machine_ms()
        self._masks: dict[int, Mask] | None = None if record.with_secrets else {}
        try:
            self._file = os.open(record.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        except FileExistsError:
            raise UsageError(f"Cannot record to {record.path}: there is such a file already.") from None
        except OSError as error:
            raise UsageError(f"Cannot record to {record.path}: {error.strerror}.") from error

    def begin(self, head: Head, image: MetadataImage | None, pieces: Sequence[Piece] | None) -> str | None:
        """Write the head and the beginning; a sentence for a cluster that must not be recorded, and need not be.

        Raises `UsageError` for one that must be.
        """
        secret = None if self._record.with_secrets else _secret_of(head) or secret_in(image)
        if secret is not None and self._record.where_allowed:
            self.remove()
            return f"Not recorded, because the recording would hold secrets: {secret}."
        if secret is not None:
            raise UsageError(
                f"{secret}, so that the recording would hold secrets: say --with-secrets if it may, "
                "or record a cluster without them."
            )
        began_ms = self._entered_ms = self.now()
        self._write(
            head_lines(msgspec.structs.replace(head, began_ms=began_ms, with_secrets=self._record.with_secrets))
        )
        for piece in pieces or ():
            out = bytearray()
            frame(piece, out)
            self._write(out)
        if pieces is not None:
            out = bytearray()
            frame(Complete(len(pieces)), out)
            self._write(out)
        return None

    def ask(self, act: Callable[[], T]) -> T:
        """Call the disk; keep its failure."""
        if not self.inside:
            return act()
        self._asked += 1
        number = self._asked
        try:
            return act()
        except DiskError as error:
            self.disk.append((number, str(error)))
            raise

    def ask_space(self, act: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """The space of the disk, which is kept."""
        told = self.ask(act)
        if self.inside:
            self.disk.append((self._asked, told))
        return told

    def now(self) -> int:
        """The machine's time (ms), which never goes back; while the brokers have an input, the time of that.

        It stands still until the cluster starts, so that logs that are read meanwhile have the time of the head.
        """
        if self._started and not self.inside:
            self._ms = max(machine_ms(), self._ms)
        return self._ms

    def take(self, entry: Input, act: Callable[[], T]) -> T:
        """Keep an input, let the brokers have it, and keep what comes of it."""
        self.enter(entry)
        try:
            return act()
        finally:
            self.leave()

    def enter(self, entry: Input) -> None:
        """An input comes; what came of the one before is written with it."""
        self._started = True
        now = self.now()
        entry.ms, self._entered_ms = now - self._entered_ms, now
        out = bytearray()
        self._take_outcome(out)
        if isinstance(entry, Received) and len(entry.data) >= LARGE_BYTES:
            frame_around(entry, out)
            self._write(out, entry.data)
        else:
            frame(entry, out)
            self._write(out)
        self.looks, self._asked, self.inside = 0, 0, not self.over

    def leave(self) -> None:
        """The brokers have done with it what there was to do."""
        self.inside = False

    def received(self, conn: int, data: bytes) -> Received | None:
        """A client's bytes without credentials; None if these cannot be masked."""
        if self._masks is not None:
            mask = self._masks.get(conn)
            if mask is None:
                mask = self._masks[conn] = Mask()
            try:
                data = mask.hide(data)
            except InParts:
                self.close("A request with credentials came in parts, and is not kept without --with-secrets.")
                return None
        return Received(0, conn, data)

    def lost(self, conn: int) -> None:
        """The connection is gone."""
        if self._masks is not None:
            self._masks.pop(conn, None)

    def _take_outcome(self, out: bytearray) -> None:
        if self.said or self.turns or self.worked or self.drawn or self.disk:
            frame(Outcome(self.said, self.turns, self.worked, self.drawn, self.disk), out)
            self.said, self.turns, self.worked, self.drawn, self.disk = [], [], [], [], []

    def _write(self, out: bytes | bytearray, more: bytes = b"") -> None:
        """Hand all of it to the system, or nothing more from now on."""
        if self.over:
            return
        most = self._record.bytes_max
        if most is not None and self._size + len(out) + len(more) > most:
            self._end(f"It would be longer than {most:,} bytes, which was the most.")
            return
        try:
            for view in (memoryview(out), memoryview(more)):
                while view:
                    view = view[os.write(self._file, view) :]
        except OSError as error:
            self._log.error("recording_ended", path=str(self.path), reason=error.strerror or str(error))
            self._shut()
            return
        self._size += len(out) + len(more)

    def close(self, why: str) -> None:
        """Keep nothing more: the cluster has ended, or the sentence says why."""
        if self.over:
            return
        self.inside = False
        out = bytearray()
        self._take_outcome(out)
        if out:
            self._write(out)
        if not self.over:
            self._end(why)

    def _end(self, why: str) -> None:
        out = bytearray()
        frame(Closed(why), out)
        try:
            os.write(self._file, out)
        except OSError as error:
            why = why or error.strerror or str(error)
        if why:
            self._log.warning("recording_ended", path=str(self.path), reason=why)
        self._shut()

    def _shut(self) -> None:
        self.over, self.inside = True, False
        self.said, self.turns, self.worked, self.drawn, self.disk = [], [], [], [], []
        os.close(self._file)

    def remove(self) -> None:
        """The cluster could not start: there is nothing to keep."""
        if not self.over:
            self._shut()
            self.path.unlink(missing_ok=True)


def head_of(
    config: Config,
    listeners: Iterable[Listener],
    ports: Mapping[int, Mapping[str, Port]],
    *,
    host: str,
    port: int,
    advertised_host: str | None,
    advertised_port: int | None,
    topics: Iterable[StartTopic],
    seed: int,
    cluster_id: str | None,
    began: Began | None,
) -> Head:
    """A cluster, as `start_cluster` was asked for it."""
    texts: dict[str, str] = {}
    for _, layer in reversed(config.layers):
        texts |= layer
    return Head(
        config=texts,
        dialect=None if config.release.base is None else config.release.name,
        node_ids=tuple(ports),
        host=host,
        port=port,
        advertised_host=advertised_host,
        advertised_port=advertised_port,
        topics=tuple(topics),
        seed=seed,
        cluster_id=cluster_id,
        ports={node: {name: each.address for name, each in opened.items()} for node, opened in ports.items()},
        listeners={each.name: each.protocol.name for each in listeners},
        release=config.release.name,
        began_ms=0,
        began=began,
    )


def _secret_of(head: Head) -> str | None:
    """The part of a cluster that is secret, or that makes clients send secrets; None if there is none."""
    for name, protocol in head.listeners.items():
        if protocol != "PLAINTEXT":
            return f"Listener {name} speaks {protocol}"
    secret = sorted(name for name in head.config if not may_be_shown(name))
    return f"The configuration has {secret[0]}" if secret else None


class _Calls:
    """The event loop; every call that the brokers plan has a number."""

    def __init__(self, loop: Calls, tape: Tape) -> None:
        self._loop = loop
        self._tape = tape

    def call_soon(self, call: Callable[..., object], /, *args: object) -> Handle:
        return self._loop.call_soon(self._run, self._number(), call, args)

    def call_later(self, delay: float, call: Callable[..., object], /, *args: object) -> Handle:
        return self._loop.call_later(delay, self._run, self._number(), call, args)

    def run_in_executor(self, worker: Executor, call: Callable[[], object], /) -> Planned:
        return _Elsewhere(self._loop.run_in_executor(worker, call), self._number(), self._run)

    def _number(self) -> int:
        self._tape.planned += 1
        return self._tape.planned

    def _run(self, number: int, call: Callable[..., object], args: Iterable[object]) -> None:
        tape = self._tape
        if tape.over or tape.inside:
            call(*args)
            return
        tape.enter(Ran(0, number))
        try:
            call(*args)
        finally:
            tape.leave()


class _Elsewhere:
    """Work on another thread, whose end is a call like any other."""

    def __init__(
        self, planned: Planned, number: int, run: Callable[[int, Callable[..., object], Iterable[object]], None]
    ) -> None:
        self._planned = planned
        self._number = number
        self._run = run

    def add_done_callback(self, call: Callable[[Planned], object], /) -> None:
        self._planned.add_done_callback(lambda done: self._run(self._number, call, (done,)))


class _Watch(Watch):
    """Keeps at which look a turn was over, and what the thread has worked."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def turn_is_over(self) -> bool:
        tape, is_over = self._tape, super().turn_is_over()
        tape.looks += 1
        if is_over and tape.inside:
            tape.turns.append(tape.looks)
        return is_over

    def worked_ns(self) -> int:
        worked = super().worked_ns()
        if self._tape.inside:
            self._tape.worked.append(worked)
        return worked


class _Disk(CountedDisk):
    """Keeps the answers of a disk that do not follow from what was written to it."""

    def __init__(self, disk: LocalDisk, tape: Tape) -> None:
        super().__init__(disk)
        self._tape = tape

    def ask(self, act: Callable[[], T]) -> T:
        return self._tape.ask(act)

    def ask_space(self, act: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        return self._tape.ask_space(act)


class _Drawn:
    """Keeps the random numbers that nobody could foresee."""

    def __init__(self, rng: Rng, tape: Tape) -> None:
        self._rng = rng
        self._tape = tape

    def randrange(self, stop: int, /) -> int:
        return self._kept(self._rng.randrange(stop))

    def randint(self, low: int, high: int, /) -> int:
        return self._kept(self._rng.randint(low, high))

    def getrandbits(self, k: int, /) -> int:
        # More than the 64 bits of a number in msgpack.
        return int.from_bytes(self._kept(self._rng.getrandbits(k).to_bytes((k + 7) // 8, "big")), "big")

    def randbytes(self, n: int, /) -> bytes:
        return self._kept(self._rng.randbytes(n))

    def _kept(self, number: N) -> N:
        if self._tape.inside:
            self._tape.drawn.append(number)
        return number


class _Client(ClientProtocol):
    """A connection whose bytes are kept, those of both sides."""

    def __init__(self, driver: Hearer, broker: int, listener: str, tape: Tape) -> None:
        super().__init__(driver, listener)
        self._tape = tape
        self._broker = broker
        self._number = 0
        """That of the connection in the file."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tape = self._tape
        if tape.over:
            super().connection_made(transport)
            return
        tape.conns += 1
        self._number = tape.conns
        peer = transport.get_extra_info("peername") or ("", 0)
        made = Made(0, self._number, self._broker, self._listener, str(peer[0]), int(peer[1]), _subject_of(transport))
        wrapped = _Transport(cast("asyncio.Transport", transport), self._number, tape)
        tape.take(made, lambda: super(_Client, self).connection_made(wrapped))

    def data_received(self, data: bytes) -> None:
        tape = self._tape
        if tape.over or (entry := tape.received(self._number, data)) is None:
            self.hear(events.Received(self.conn, data))
            return
        tape.enter(entry)
        try:
            self.hear(events.Received(self.conn, data))
        finally:
            tape.leave()

    def pause_writing(self) -> None:
        self._change(Sign.CLOGGED, super().pause_writing)

    def resume_writing(self) -> None:
        self._change(Sign.DRAINED, super().resume_writing)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._change(Sign.LOST, lambda: super(_Client, self).connection_lost(exc))
        self._tape.lost(self._number)

    def _change(self, sign: int, act: Callable[[], None]) -> None:
        tape = self._tape
        if tape.inside:
            # A transport may say so while brokers write to it.
            tape.said.append((self._number, sign))
            act()
        elif tape.over:
            act()
        else:
            tape.take(Changed(0, self._number, sign), act)


def _subject_of(transport: asyncio.BaseTransport) -> list[list[tuple[str, str]]] | None:
    """The names in a client's certificate; None without TLS, and empty without a certificate."""
    secured: SSLObject | None = transport.get_extra_info("ssl_object")
    if secured is None:
        return None
    certificate = secured.getpeercert() or {}
    names = cast("Iterable[Iterable[tuple[str, str]]]", certificate.get("subject", ()))
    return [list(each) for each in names]


class _Transport(asyncio.Transport):
    """Keeps what is sent to a client."""

    def __init__(self, transport: asyncio.Transport, number: int, tape: Tape) -> None:
        super().__init__()
        self._transport = transport
        self._number = number
        self._tape = tape

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._tape.inside:
            self._tape.said.append((self._number, bytes(data)))
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        chunks = list(list_of_data)
        if self._tape.inside:
            self._tape.said.append((self._number, b"".join(chunks)))
        self._transport.writelines(chunks)

    def close(self) -> None:
        self._end(Sign.CLOSED)
        self._transport.close()

    def abort(self) -> None:
        self._end(Sign.ABORTED)
        self._transport.abort()

    def _end(self, sign: int) -> None:
        if self._tape.inside:
            self._tape.said.append((self._number, sign))

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)
