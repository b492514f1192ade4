"""What open waits cost the hub: its processor while nothing happens, and how long others wait for an answer.

    python -m bench.open_waits                       # 1,000 waits for a transaction, 5 seconds
    python -m bench.open_waits --kind partition --waits 100 --seconds 2

The hub is a process of its own. Each wait names a key of its own, and none of them comes true.
Measured without any wait and with all of them: the processor that the hub uses (percent of one), and one GET, the
median and the longest of some. Then the same while a client produces as fast as it is answered: how many requests
a second it gets through.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from bench.starved import framed
from odradek.control.client import HubClient
from odradek.records.record import Record, build_batch
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import ApiKey

__all__ = ["CONDITIONS", "main"]

GETS = 5
SETTLED_S = 1.0
CONDITIONS: dict[str, str] = {
    "transaction": '{"transaction": {"id": "till-%d", "state": "CompleteCommit"}}',
    "partition": '{"partition": {"topic": "t", "partition": %d, "high_watermark": 1}}',
    "group": '{"group": {"id": "g-%d", "state": "Stable"}}',
    "rule": '{"rule": {"name": "never", "hits": %d}}',
    "event": '{"event": {"kind": "telemetry_pushed", "count": %d}}',
}
"""Bodies of `/wait` for a number above 0; none of them is ever so here."""


@contextmanager
def _hub() -> Iterator[tuple[int, str]]:
    """A hub: its process id and its URL."""
    command = [sys.executable, "-m", "odradek", "hub", "--listen", "127.0.0.1:0", "--until-stdin-ends"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.pid, process.stdout.readline().strip().partition("url=")[2]
        process.stdin.close()


def _processor_s(pid: int) -> float:
    """The processor time that a process has used (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _open_wait(url: str, cluster: str, body: bytes) -> socket.socket:
    host = urlsplit(url)
    connection = socket.create_connection((host.hostname or "", host.port or 0), timeout=120)
    head = f"POST /clusters/{cluster}/wait HTTP/1.1\r\nHost: {host.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def _produced(bootstrap: str, seconds: float) -> int:
    """How many requests of one record are answered, one after the other."""
    host, _, port = bootstrap.rpartition(":")
    data = PartitionProduceData(index=0, records=memoryview(build_batch([Record(timestamp=0, value=b"x")])))
    frame = framed(
        ApiKey.PRODUCE,
        9,
        ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="load", partition_data=[data])]),
    )
    answered = 0
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            connection.sendall(frame)
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
            connection.recv(size, socket.MSG_WAITALL)
            answered += 1
    return answered


def _get_ms(hub: HubClient, cluster: str) -> list[float]:
    taken = []
    for _ in range(GETS):
        began = time.perf_counter()
        hub.get("clusters", cluster, "time")
        taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)


def _line(what: str, pid: int, hub: HubClient, cluster: str, bootstrap: str, seconds: float) -> str:
    used = _processor_s(pid)
    time.sleep(seconds)
    used = _processor_s(pid) - used
    gets = _get_ms(hub, cluster)
    answered = _produced(bootstrap, seconds)
    return (
        f"{what:>12}: processor {100 * used / seconds:5.1f} %, GET {statistics.median(gets):.1f} ms "
        f"(longest {gets[-1]:.1f}), {answered / seconds:,.0f} requests/s"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.open_waits")
    parser.add_argument("--kind", choices=CONDITIONS, default="transaction")
    parser.add_argument("--waits", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args(arguments)
    with _hub() as (pid, url), ExitStack() as exits:
        hub = HubClient(url, timeout_s=120)
        made = hub.post("clusters", body={"topics": ["load", f"t:{options.waits + 1}"], "lease_s": 0})
        cluster, bootstrap = made["id"], made["bootstrap"]
        hub.post(
            "clusters",
            cluster,
            "rules",
            body={"name": "never", "match": {"client_id": "nobody"}, "act": {"hold": True}},
        )
        _produced(bootstrap, 0.5)
        print(_line("no waits", pid, hub, cluster, bootstrap, options.seconds), flush=True)
        for number in range(1, options.waits + 1):
            condition = json.loads(CONDITIONS[options.kind] % number) | {"timeout_ms": 600_000}
            exits.callback(_open_wait(url, cluster, json.dumps(condition).encode()).close)
        hub.get("clusters", cluster)  # after them, so that all are open
        time.sleep(SETTLED_S)
        print(_line(f"{options.waits} waits", pid, hub, cluster, bootstrap, options.seconds), flush=True)
        with suppress(Exception):
            hub.delete("clusters", cluster)


if __name__ == "__main__":
    main()
