"""What brokers without rules pay for those that could be there: `python -m bench.rules`.

The one place where rules are consulted is taken out of the broker under load, and put back, over and over: everything
else stays the same process, the same connection, the same log. Two measures: the bytecodes of a Produce, which are the
same on every machine, and small produces pipelined over a socket, in pairs of rounds, one with and one without.
"""

from __future__ import annotations

import inspect
import random
import socket
import sys
import time
from collections.abc import Callable
from statistics import median
from types import CodeType, FrameType
from typing import Any

from bench.profile_produce import frame, node
from odradek.host import exchange
from odradek.host.events import Received
from odradek.testing import Cluster

PAIRS = 200
ROUND = 500
"""Requests of a round, all of them in flight."""
WARM = 20
NOW = 1_700_000_000_000
DRAWS = 10_000


def without_rules() -> CodeType:
    """`exchange.begin` with the question for rules cut out."""
    source = inspect.getsource(exchange.begin)
    start = source.index("    if node.faults is not None")
    end = source.index("    return handler.serve(call), False")
    scope: dict[str, Any] = dict(vars(exchange))
    exec(f"from __future__ import annotations\n{source[:start]}{source[end:]}", scope)
    code: CodeType = scope["begin"].__code__
    return code


WITH, WITHOUT = exchange.begin.__code__, without_rules()


def bytecodes() -> dict[str, int]:
    """How many a broker executes for a Produce of one record, with and without."""
    broker, received = node(), Received(1, frame())
    for _ in range(10):
        broker.step(received, NOW)
    counted = {}
    for name, code in (("with", WITH), ("without", WITHOUT)):
        exchange.begin.__code__ = code
        counted[name] = _bytecodes_of(lambda: broker.step(received, NOW))
    exchange.begin.__code__ = WITH
    return counted


def _bytecodes_of(call: Callable[[], object]) -> int:
    count = 0

    def trace(seen: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        seen.f_trace_opcodes, seen.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def seconds(connection: socket.socket, sent: bytes, answer_bytes: int) -> float:
    """How long a round takes."""
    began = time.perf_counter()
    connection.sendall(sent)
    left = ROUND * answer_bytes
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))
    return time.perf_counter() - began


def pairs() -> list[float]:
    """For each pair of rounds, how much faster it went with the question than without: 1 is the same."""
    ratios = []
    with Cluster(topics=["t"]) as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(frame())
            answer_bytes = 4 + int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
            connection.recv(answer_bytes - 4, socket.MSG_WAITALL)
            sent = frame() * ROUND
            dice = random.Random(1)
            for number in range(WARM + PAIRS):
                took = {}
                for code in dice.sample((WITH, WITHOUT), 2):  # who goes first is drawn
                    exchange.begin.__code__ = code
                    took[code] = seconds(connection, sent, answer_bytes)
                if number >= WARM:
                    ratios.append(took[WITHOUT] / took[WITH])
    exchange.begin.__code__ = WITH
    return ratios


def interval(values: list[float]) -> tuple[float, float]:
    """Where the median lies, at 95 percent: by drawing from the values again and again."""
    dice = random.Random(1)
    drawn = sorted(median(dice.choices(values, k=len(values))) for _ in range(DRAWS))
    return drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS)]


def main() -> None:
    """Print both measures."""
    counted = bytecodes()
    print(
        f"bytecodes of a Produce: {counted['with']:,} with the question for rules, {counted['without']:,} without it;"
    )
    print(f"ratio {counted['without'] / counted['with']:.4f}")
    ratios = pairs()
    low, high = interval(ratios)
    print(f"{PAIRS} pairs of rounds of {ROUND} produces in flight: median ratio {median(ratios):.4f},")
    print(f"95 % between {low:.4f} and {high:.4f}")


if __name__ == "__main__":
    main()
