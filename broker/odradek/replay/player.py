"""Gives a cluster what a recording has, and compares what its brokers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Struct

import odradek.control.steps  # noqa: F401 - one of the deeds is there
from odradek.control.controls import Controls
from odradek.faults.armed import Armed
from odradek.faults.model import Rule
from odradek.log.disk import DiskError
from odradek.net.beginning import Complete, Piece
from odradek.net.clock import Clock, machine_ms
from odradek.net.cluster import RunningCluster
from odradek.net.counted_disk import CountedDisk
from odradek.net.outside import DEEDS, GO_ON, START, Outside, Watch
from odradek.net.protocol import ClientProtocol
from odradek.net.recording_file import Acted, Changed, Closed, Entry, Input, Made, Outcome, Ran, Received, Said, Sign
from odradek.replay.answers import Conversation, Difference, difference

if TYPE_CHECKING:
    from odradek.core.clock import Rng
    from odradek.log.disk import Disk
    from odradek.net.disk import LocalDisk
    from odradek.net.driver import Driver
    from odradek.net.outside import Calls, Handle, HasOutside, Planned

__all__ = ["Differs", "Player", "Step", "steps_of"]

N = TypeVar("N", int, bytes)
T = TypeVar("T")
NOTHING = Outcome([], [], [], [])
REFUSED = (LookupError, RuntimeError, ValueError)
"""Exceptions of refused actions; these were refused in the recorded run, too."""


class Step(Struct, frozen=True):
    """An input, with what came of it."""

    seq: int
    """Its number, from 1."""
    entry: Input
    outcome: Outcome | None
    """None where the recording ends before it says so."""


def steps_of(entries: Iterable[Entry], ended: Callable[[str], object]) -> Iterator[Step]:
    """The inputs in their order; `ended` hears why the recording ends where that is in it, an empty text for nothing.

    An entry without an input before it is left out.
    """
    seq, waiting = 0, None
    for entry in entries:
        if isinstance(entry, Piece | Complete):
            continue
        if isinstance(entry, Outcome):
            if waiting is not None:
                yield Step(seq, waiting, entry)
                waiting = None
            continue
        why = entry.why if isinstance(entry, Closed) else ""
        if waiting is not None:
            # What is cut short may lack what came of its last input.
            yield Step(seq, waiting, None if why else NOTHING)
            waiting = None
        if isinstance(entry, Closed):
            ended(why)
            return
        seq, waiting = seq + 1, entry
    if waiting is not None:
        yield Step(seq, waiting, None)


class Differs(Exception):
    """The brokers have done something else than in the recording."""

    def __init__(self, found: Difference) -> None:
        super().__init__(found.text)
        self.found = found


class Player(Outside):
    """Everything that came to a cluster while it was recorded, in place of a machine."""

    has_sockets = False

    def __init__(self, steps: Iterator[Step], *, began_ms: int) -> None:
        self._steps = steps
        self._ms = began_ms
        self._live_since: int | None = None
        self._step = Step(0, Ran(0, 0), None)
        self._outcome = NOTHING
        self._at = 0
        """How much of what was said in this step has been said again."""
        self._clients: dict[int, ClientProtocol] = {}
        self._talks: dict[int, Conversation] = {}
        self._planned = _Planned()
        self.calls = self._planned
        self.machine = self._now
        self.clock = Clock(self._now)
        self.secrets = _Drawn(self)
        self._lacks = False
        """Whether the brokers have drawn something in this step that is not in the recording."""
        self.looks = 0
        """How often they have looked in it whether their turns are over."""
        self._asked = 0
        """How often they have called the disk in it."""
        self._cluster: RunningCluster | None = None
        self.answers = 0
        """How many responses were the same."""
        self.connections = 0

    @property
    def seq(self) -> int:
        """The number of the last input that was played; 0 before the first."""
        return self._step.seq

    def _now(self) -> int:
        return self._ms if self._live_since is None else self._ms + machine_ms() - self._live_since

    def watch(self) -> Watch:
        return _Watch(self)

    def does(self, name: str, act: Callable[[], T], arguments: Callable[[], Mapping[str, object]]) -> T:
        if name not in (START, GO_ON):
            return act()
        while True:
            step = next(self._steps, None)
            if step is not None and isinstance(step.entry, Acted) and step.entry.deed == name:
                self._enter(step)
                result = act()
                self._leave()
                return result
            if name == START or step is None or self._cluster is None:
                self._fail("The recording does not begin with the start of its cluster.")
            # Rules of a fork, which hold before its brokers start.
            self._enter(step)
            self._give(self._cluster, step.entry)
            self._leave()

    def attend(self, cluster: HasOutside) -> None:
        assert isinstance(cluster, RunningCluster), "there is no other cluster"
        self._cluster = cluster

    def disk(self, disk: LocalDisk) -> Disk:
        return _Disk(disk, self)

    def play(self, cluster: RunningCluster, until: int | None) -> None:
        """Give the cluster all inputs up to this number, or all there are. Raises `Differs`."""
        while until is None or self.seq < until:
            step = next(self._steps, None)
            if step is None:
                return
            self._enter(step)
            self._give(cluster, step.entry)
            self._leave()

    def _enter(self, step: Step) -> None:
        self._step = step
        self._ms += step.entry.ms
        outcome = step.outcome or NOTHING
        # What is taken from it is taken out of it.
        self._outcome = Outcome(
            outcome.said, outcome.turns[::-1], outcome.worked[::-1], outcome.drawn[::-1], outcome.disk[::-1]
        )
        self._at = self.looks = self._asked = 0

    def _leave(self) -> None:
        if self._lacks:
            self._fail("The brokers draw something that they did not draw when it was recorded.")
        if self._outcome.disk:
            self._fail("The brokers do not use their disk as they did when it was recorded.")
        if self._step.outcome is not None and self._at < len(self._outcome.said):
            conn, wanted = self._outcome.said[self._at]
            self._differ(conn, wanted, None)

    def _give(self, cluster: RunningCluster, entry: Input) -> None:
        if isinstance(entry, Received):
            self._talks[entry.conn].asked(entry.data)
            self._client(entry.conn).data_received(entry.data)
        elif isinstance(entry, Ran):
            self._planned.run(entry.call, self._fail)
        elif isinstance(entry, Changed):
            self._change(entry.conn, entry.sign)
        elif isinstance(entry, Made):
            self._connect(cluster.drivers[entry.broker], entry)
        else:
            self._act(cluster, entry)

    def _client(self, conn: int) -> ClientProtocol:
        client = self._clients.get(conn)
        if client is None:
            self._fail(f"There is no connection {conn}.")
        return client

    def _connect(self, driver: Driver, made: Made) -> None:
        client = self._clients[made.conn] = ClientProtocol(driver, made.listener)
        self._talks[made.conn] = Conversation()
        self.connections += 1
        client.connection_made(_Transport(self, made))

    def _change(self, conn: int, sign: int) -> None:
        client = self._client(conn)
        if sign == Sign.CLOGGED:
            client.pause_writing()
        elif sign == Sign.DRAINED:
            client.resume_writing()
        else:
            del self._clients[conn], self._talks[conn]
            client.connection_lost(None)

    def _act(self, cluster: RunningCluster, acted: Acted) -> None:
        method = DEEDS.get(acted.deed)
        if method is None:
            self._fail(f"Nobody here can do {acted.deed}.")
        controls = Controls(cluster)
        owner = controls if acted.deed.startswith(Controls.__name__) else cluster
        hints = get_type_hints(method, localns={each.__name__: each for each in (Armed, Rule, RunningCluster)})
        try:
            arguments = {name: _argument(value, hints[name], cluster) for name, value in acted.arguments.items()}
            method(owner, **arguments)
        except REFUSED:
            return

    def said(self, conn: int, what: bytes | int) -> None:
        """Brokers say something over a connection, or end it. Raises `Differs`."""
        if self._live_since is not None or self._step.outcome is None:
            return
        said = self._outcome.said
        if self._at >= len(said) or said[self._at] != (conn, what):
            self._differ(conn, said[self._at][1] if self._at < len(said) and said[self._at][0] == conn else None, what)
        self._at += 1
        if isinstance(what, bytes) and conn in self._talks:
            self.answers += self._talks[conn].answered(what)
        while self._at < len(said) and _is_change(said[self._at]):
            changed, sign = said[self._at]
            self._at += 1
            assert isinstance(sign, int), "a change is a sign"
            self._change(changed, sign)

    def turn_is_over(self) -> bool | None:
        """Whether this look found the turn over; None: the machine says so."""
        if self._live_since is not None:
            return None
        self.looks += 1
        turns = self._outcome.turns
        if turns and turns[-1] == self.looks:
            turns.pop()
            return True
        return False

    def worked_ns(self) -> int | None:
        """The recorded reading; None: use the machine's."""
        if self._live_since is not None:
            return None
        return self._outcome.worked.pop() if self._outcome.worked else self._lacking(0)

    def drawn(self, draw: Callable[[Rng], N]) -> N:
        """The recorded random number."""
        if self._live_since is not None:
            return draw(SystemRandom())
        if self._outcome.drawn:
            return cast("N", self._outcome.drawn.pop())
        return self._lacking(draw(SystemRandom()))

    def ask(self, act: Callable[[], T]) -> T:
        """Call the disk; it fails where it did."""
        self._asked += 1
        answers = self._outcome.disk
        if self._live_since is None and answers and answers[-1][0] == self._asked:
            failure = answers[-1][1]
            if isinstance(failure, str):
                answers.pop()
                raise DiskError(failure)
        return act()

    def ask_space(self, act: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """The recorded space of the disk; the machine's where there is none."""
        space = self.ask(act)
        answers = self._outcome.disk
        if self._live_since is None and answers and answers[-1][0] == self._asked:
            _, recorded = answers.pop()
            assert not isinstance(recorded, str), "the call would have failed"
            return recorded
        return space

    def _lacking(self, instead: N) -> N:
        """A value for a draw that the recording lacks: a difference, unless the recording has ended."""
        self._lacks = self._step.outcome is not None
        return instead

    def _fail(self, sentence: str) -> NoReturn:
        raise Differs(Difference(self.seq, sentence))

    def _differ(self, conn: int, recorded: bytes | int | None, played: bytes | int | None) -> NoReturn:
        talk = self._talks.get(conn) or Conversation()
        raise Differs(difference(self.seq, self.answers, conn, talk, recorded, played))

    def go_live(self, loop: Calls) -> None:
        """The machine takes over, its loop, its time from here on and its random numbers; recorded clients are gone."""
        self._live_since = machine_ms()
        self.has_sockets = True
        self._planned.go_live(loop)
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.connection_lost(None)


def _is_change(said: Said) -> bool:
    return said[1] in (Sign.CLOGGED, Sign.DRAINED, Sign.LOST)


def _argument(value: object, hint: object, cluster: RunningCluster) -> object:
    if hint is Armed:
        return cluster.rules.get(str(value))
    return msgspec.convert(value, hint)


class _Planned:
    """The calls that brokers have planned, by their numbers, until they are made."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Callable[..., object], tuple[object, ...]]] = {}
        self._count = 0
        self._loop: Calls | None = None

    def call_soon(self, call: Callable[..., object], /, *args: object) -> Handle:
        return self._keep(self._number(), call, args) if self._loop is None else self._loop.call_soon(call, *args)

    def call_later(self, delay: float, call: Callable[..., object], /, *args: object) -> Handle:
        if self._loop is not None:
            return self._loop.call_later(delay, call, *args)
        return self._keep(self._number(), call, args)

    def run_in_executor(self, worker: Executor, call: Callable[[], object], /) -> Planned:
        if self._loop is not None:
            return self._loop.run_in_executor(worker, call)
        call()
        return _Done(self, self._number())

    def run(self, number: int, fail: Callable[[str], NoReturn]) -> None:
        """Make one of them."""
        planned = self._calls.pop(number, None)
        if planned is None:
            fail("The brokers have not planned what they did next when it was recorded.")
        planned[0](*planned[1])

    def go_live(self, loop: Calls) -> None:
        """The loop makes all of them soon: a timer that comes in vain is set anew."""
        self._loop = loop
        calls, self._calls = self._calls, {}
        for call, args in calls.values():
            loop.call_soon(call, *args)

    def keep(self, number: int, call: Callable[..., object], args: tuple[object, ...]) -> None:
        """Make this call when its number comes."""
        self._keep(number, call, args)

    def _keep(self, number: int, call: Callable[..., object], args: tuple[object, ...]) -> Handle:
        self._calls[number] = (call, args)
        return _Handle(partial(self._calls.pop, number, None))

    def _number(self) -> int:
        self._count += 1
        return self._count


class _Handle:
    def __init__(self, take_out: Callable[[], object]) -> None:
        self._take_out = take_out

    def cancel(self) -> None:
        self._take_out()


class _Done:
    """Work that was done at once, and whose end brokers hear of when they did then."""

    def __init__(self, planned: _Planned, number: int) -> None:
        self._planned = planned
        self._number = number

    def add_done_callback(self, call: Callable[[Planned], object], /) -> None:
        self._planned.keep(self._number, call, (self,))


class _Watch(Watch):
    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player

    def turn_is_over(self) -> bool:
        is_over = self._player.turn_is_over()
        return super().turn_is_over() if is_over is None else is_over

    def worked_ns(self) -> int:
        worked = self._player.worked_ns()
        return super().worked_ns() if worked is None else worked


class _Disk(CountedDisk):
    """A disk that fails where the recorded one did."""

    def __init__(self, disk: LocalDisk, player: Player) -> None:
        super().__init__(disk)
        self._player = player

    def ask(self, act: Callable[[], T]) -> T:
        return self._player.ask(act)

    def ask_space(self, act: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        return self._player.ask_space(act)


class _Drawn:
    """The random numbers that nobody could foresee."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def randrange(self, stop: int, /) -> int:
        return self._player.drawn(lambda rng: rng.randrange(stop))

    def randint(self, low: int, high: int, /) -> int:
        return self._player.drawn(lambda rng: rng.randint(low, high))

    def getrandbits(self, k: int, /) -> int:
        return int.from_bytes(self._player.drawn(lambda rng: rng.getrandbits(k).to_bytes((k + 7) // 8, "big")), "big")

    def randbytes(self, n: int, /) -> bytes:
        return self._player.drawn(lambda rng: rng.randbytes(n))


class _Secured(Struct, frozen=True):
    """The client's identity on a recorded TLS connection."""

    subject: list[list[tuple[str, str]]]

    def getpeercert(self) -> dict[str, object]:
        """The names in its certificate; empty without one."""
        return {"subject": self.subject} if self.subject else {}


class _Transport(asyncio.Transport):
    """A connection without a socket."""

    def __init__(self, player: Player, made: Made) -> None:
        secured = None if made.subject is None else _Secured(made.subject)
        super().__init__({"peername": (made.host, made.port), "ssl_object": secured})
        self._player = player
        self._conn = made.conn
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._player.said(self._conn, bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._player.said(self._conn, b"".join(list_of_data))

    def close(self) -> None:
        self._closing = True
        self._player.said(self._conn, Sign.CLOSED)

    def abort(self) -> None:
        self._closing = True
        self._player.said(self._conn, Sign.ABORTED)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass
