"""Where the tests of a suite run: one broker for all of them, or a cluster for each."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.toolchain import go_program

from bench.brokers import running
from bench.hub import Caller, running_hub

__all__ = ["OWN", "Ground", "shared"]

HERE = Path(__file__).resolve().parent


@dataclass
class Ground:
    """A peer that is ready."""

    pid: int
    start_seconds: float
    place: Callable[[], AbstractContextManager[str]]
    """The bootstrap of the next test."""


def shared(peer: str) -> Callable[[], AbstractContextManager[Ground]]:
    """One broker for the whole suite."""

    @contextlib.contextmanager
    def ground() -> Iterator[Ground]:
        with running(peer) as broker:
            yield Ground(broker.process.pid, broker.start_seconds, lambda: contextlib.nullcontext(broker.bootstrap))

    return ground


@contextlib.contextmanager
def of_the_hub() -> Iterator[Ground]:
    """`odradek hub` makes a cluster for each test, and removes it."""
    began = time.perf_counter()
    with running_hub() as (pid, url), contextlib.closing(Caller(url)) as caller:

        @contextlib.contextmanager
        def cluster() -> Iterator[str]:
            made = caller.call("POST", "/clusters", {"brokers": 1})
            yield made["bootstrap"]
            caller.remove(made["id"])

        yield Ground(pid, time.perf_counter() - began, cluster)


@contextlib.contextmanager
def of_kfake() -> Iterator[Ground]:
    """A process that makes one cluster of kfake after the other."""
    program = str(go_program(HERE.parent / "peers" / "kfake"))
    began = time.perf_counter()
    with subprocess.Popen([program, "clusters"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asks, answers = process.stdin, process.stdout
        assert asks is not None
        assert answers is not None

        @contextlib.contextmanager
        def cluster() -> Iterator[str]:
            print(file=asks, flush=True)
            yield answers.readline().strip()

        yield Ground(process.pid, time.perf_counter() - began, cluster)
        asks.close()


# A cluster for each test, where the peer can: a real Kafka takes seconds for one.
OWN: dict[str, Callable[[], AbstractContextManager[Ground]]] = {"odradek": of_the_hub, "kfake": of_kfake}
