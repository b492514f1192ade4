"""What a cluster of the hub costs: time to make one, memory that stays, many at once.

    python -m bench.hub
    python -m bench.hub --clusters 50

The hub is a process of its own, and has made a few clusters before anything is measured. Time is from the first byte of
`POST /clusters` to the last of its answer, over a connection that stands; then clients can connect.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.quiet import Stopwatch
from odradek.core.wording import counted
from odradek.net.client import BlockingClient
from odradek.wire.messages.metadata_request import MetadataRequest

__all__ = ["Caller", "main", "resident_mib", "running_hub"]

READY = "odradek hub ready url="
WARM_UP = 20


class Caller:
    """One connection to the hub."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer as data."""
        self._connection.request(method, path, None if body is None else json.dumps(body))
        answer = self._connection.getresponse()
        raw = answer.read()
        assert answer.status < 300, raw
        return json.loads(raw) if raw else None

    def timed_ms(self, brokers: int) -> tuple[float, str, str]:
        """How long a cluster takes to be made (ms), its id and its bootstrap."""
        began = time.perf_counter()
        made = self.call("POST", "/clusters", {"brokers": brokers, "topics": ["t"]})
        return (time.perf_counter() - began) * 1000, made["id"], made["bootstrap"]

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def remove(self, cluster: str) -> None:
        """End a cluster."""
        self.call("DELETE", f"/clusters/{cluster}")


@contextmanager
def running_hub(package: Path | None = None) -> Iterator[tuple[int, str]]:
    """A hub as a process, of the package in this folder: its id and its URL."""
    environment = os.environ if package is None else {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "odradek", "hub", "--listen", "127.0.0.1:0", "--until-stdin-ends"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.pid, process.stdout.readline().strip().removeprefix(READY)
        process.stdin.close()
        process.wait()


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _ask(bootstrap: str) -> float:
    began = time.perf_counter()
    with BlockingClient(bootstrap.split(",")[0], client_id="bench") as client:
        client.ask(MetadataRequest(topics=None), 9)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    count = parser.parse_args().clusters
    with running_hub() as (pid, url):
        caller = Caller(url)
        watch = Stopwatch(pid)
        for brokers in (1, 3):
            samples = []
            for number in range(WARM_UP + count // 2):
                took, cluster, _ = caller.timed_ms(brokers)
                caller.remove(cluster)
                if number >= WARM_UP:
                    samples.append(took)
            p99 = statistics.quantiles(samples, n=100)[98]
            print(
                f"POST /clusters, {counted(brokers, 'broker')}: "
                f"p50 {statistics.median(samples):.1f} ms, p99 {p99:.1f} ms"
            )
        before = resident_mib(pid)
        for _ in range(count):
            _, cluster, bootstrap = caller.timed_ms(3)
            _ask(bootstrap)
            caller.remove(cluster)
        print(f"resident memory: {before:.1f} MiB before, {resident_mib(pid):.1f} after {count} clusters of 3 brokers")
        made = [caller.timed_ms(1) for _ in range(50)]
        with_all = resident_mib(pid)
        with ThreadPoolExecutor(8) as several:
            asked = sorted(several.map(_ask, (bootstrap for _, _, bootstrap in made)))
        for _, cluster, _ in made:
            caller.remove(cluster)
        print(
            f"50 clusters at once: connect and Metadata p50 {statistics.median(asked):.1f} ms, "
            f"resident memory {with_all:.1f} MiB, {resident_mib(pid):.1f} when they are gone"
        )
        print(f"share of the processors that others took: {watch.others():.0%}")


if __name__ == "__main__":
    main()
