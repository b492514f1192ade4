"""Everything that comes to a cluster from outside of it: calls of the event loop, time, random numbers, clients, deeds.

A cluster is a function of these. So whoever stands here can keep them, and give them again (`net/recording.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import cached_property, wraps
from random import SystemRandom
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from odradek.net.bulk_pages import BulkPages
from odradek.net.clock import Clock, machine_ms
from odradek.net.protocol import ClientProtocol, Hearer

if TYPE_CHECKING:
    from pathlib import Path

    from odradek.core.clock import Rng
    from odradek.log.disk import Disk
    from odradek.net.disk import LocalDisk

__all__ = ["GO_ON", "START", "Calls", "Handle", "Outside", "Planned", "Watch", "deed"]

P = ParamSpec("P")
T = TypeVar("T")

START, GO_ON = "start", "go_on"
"""The deeds with which a cluster begins: its nodes are made, and start; those of a fork start with the second one."""
TURN_S = 0.002
"""How long the node serves one client, or those that wait for their turn, before it looks at the others.

Long enough for the small requests that a client has in flight, so that they are answered together: one that is answered
in parts sends in parts, and each part costs what all of them would.
"""


class Handle(Protocol):
    """A call that is planned.

    A Protocol: an event loop, the recorder and the player each have their own.
    """

    def cancel(self) -> None: ...


class Planned(Protocol):
    """Work on another thread.

    A Protocol: an event loop, the recorder and the player each have their own.
    """

    def add_done_callback(self, call: Callable[[Planned], object], /) -> None: ...


class Calls(Protocol):
    """The event loop, as the drivers of brokers need it.

    A Protocol: an event loop, the recorder and the player are one.
    """

    def call_soon(self, call: Callable[..., object], /, *args: object) -> Handle: ...
    def call_later(self, delay: float, call: Callable[..., object], /, *args: object) -> Handle: ...
    def run_in_executor(self, worker: Executor, call: Callable[[], object], /) -> Planned: ...


class Watch:
    """How long the turn of a broker lasts, and how long its thread has worked."""

    def __init__(self) -> None:
        self.turn_ends = 0.0
        """Each step begins a turn, and sets its end."""

    def turn_is_over(self) -> bool:
        """Whether it has lasted for two milliseconds."""
        return time.perf_counter() >= self.turn_ends

    def worked_ns(self) -> int:
        """The time that this thread has worked (ns)."""
        return time.thread_time_ns()


class Outside:
    """The machine itself: a loop, its clock, its random numbers, and clients on sockets."""

    has_sockets = True
    """Whether listeners are opened, with the certificates that they show."""
    kept_in: Path | None = None
    """The file that everything is kept in."""
    not_kept: str | None = None
    """A sentence, if it was to be kept where that is allowed, and is not."""
    is_over = False
    """Whether every broker has ended."""
    shown_directory: str | None = None
    """The data directory as clients are told it, if that is another one than the cluster has."""

    def __init__(self, loop: Calls) -> None:
        self.calls = loop
        self.machine: Callable[[], int] = machine_ms
        """The machine's time (ms)."""
        self.clock = Clock()
        self.secrets: Rng = SystemRandom()
        """Random numbers that must be unpredictable."""

    @cached_property
    def pages(self) -> BulkPages:
        """The buffers of long requests."""
        return BulkPages()

    def watch(self) -> Watch:
        """A watch for a broker."""
        return Watch()

    def client(self, driver: Hearer, broker: int, listener: str) -> ClientProtocol:
        """Takes the bytes of a connection over a listener of this broker, for its driver."""
        return ClientProtocol(driver, listener, self.pages)

    def disk(self, disk: LocalDisk) -> Disk:
        """A directory of the machine, for the logs of a broker."""
        return disk

    def attend(self, cluster: HasOutside) -> None:
        """This is the cluster, which is about to start."""

    def does(self, name: str, act: Callable[[], T], arguments: Callable[[], Mapping[str, object]]) -> T:
        """Somebody acts on the cluster; the result of `act`."""
        return act()

    def end(self) -> None:
        """Every broker has ended."""
        self.is_over = True

    def abandon(self) -> None:
        """The cluster could not start."""


class HasOutside(Protocol):
    """A cluster, or a part through which somebody acts on it.

    A Protocol: clusters and their controls have no base in common.
    """

    @property
    def outside(self) -> Outside: ...


S = TypeVar("S", bound=HasOutside)
DEEDS: dict[str, Callable[..., object]] = {}
"""The actions on a cluster, by name; each takes the cluster or its part, then its own arguments."""


def deed(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method, or a function, through which somebody acts on a cluster; all that it does follows from its arguments.

    They are data, but for the first, which has an `outside`.
    """
    name = method.__qualname__
    DEEDS[name] = method

    @wraps(method)
    def does(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.outside.does(
            name, lambda: method(self, *args, **kwargs), lambda: _arguments(method, self, args, kwargs)
        )

    return does


def _arguments(
    method: Callable[..., object], owner: object, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, object]:
    from inspect import signature  # only whoever keeps them asks

    bound = dict(signature(method).bind(owner, *args, **kwargs).arguments)
    del bound[next(iter(bound))]
    return bound
