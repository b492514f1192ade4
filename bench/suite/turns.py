"""One turn: a family plays the tests on a peer."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO

from bench.quiet import process_seconds
from bench.suite.cases import Case
from bench.suite.families import Family
from bench.suite.grounds import Ground

__all__ = ["Turn", "play"]


@dataclass
class Turn:
    """What one turn took, in seconds; tests that failed have no time."""

    family: str
    peer: str
    start: float = 0.0
    broker_cpu: float = 0.0
    client_cpu: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def client(command: Sequence[str], said: IO[bytes]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # of a program that has ended by itself
                process.stdin.close()


def ask(process: subprocess.Popen[str], line: str) -> str | None:
    """Why the test failed, if it did."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(line, file=process.stdin, flush=True)
    except BrokenPipeError:
        return "the client program has ended"
    answer = process.stdout.readline()
    if not answer:
        return "the client program has ended"
    error: str | None = json.loads(answer)["error"]
    return error


def play(
    turn: Turn,
    family: Family,
    ground: Callable[[], AbstractContextManager[Ground]],
    cases: Sequence[Case],
    said: IO[bytes],
    *,
    quick: bool,
) -> None:
    """All tests, one after the other; what a test takes is from the asking for its cluster to the end of it."""
    command = family.command(quick=quick)  # built before the broker starts
    with ground() as peer, client(command, said) as process:
        turn.start = peer.start_seconds
        before = process_seconds(peer.pid), process_seconds(process.pid)
        for number, case in enumerate(cases):
            if case.play in family.lacks:
                turn.failed[case.name] = family.lacks[case.play]
                continue
            began = time.perf_counter()
            with peer.place() as bootstrap:
                words = {"bootstrap": bootstrap, "topic": f"suite-{number}", "play": case.play, **case.arguments}
                error = ask(process, " ".join(f"{name}={value}" for name, value in words.items()))
            if error is None:
                turn.times[case.name] = time.perf_counter() - began
            else:
                turn.failed[case.name] = error
        turn.broker_cpu = process_seconds(peer.pid) - before[0]
        turn.client_cpu = process_seconds(process.pid) - before[1] if process.poll() is None else 0.0
