"""What a dialect costs: the start of a broker with each, and whether a broker without one pays for them.

    python -m bench.dialects                          # starts with each dialect, and without
    python -m bench.dialects --before ../other-tree   # and start and small produces of another tree, side by side

All take turns in one run. What is measured is processor time, of the process until it says that it is ready, and of
3,000 small Produce requests that a node answers without a socket; other processes disturb wall time more than that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from odradek.releases.dialects.load import names

__all__ = ["main"]

HERE = Path(__file__).parents[1]
READY = "ready"
PRODUCES = """
import time
from odradek.records.record import Record, build_batch
from odradek.sim import World
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
world = World(topics=["t"], tells=False)
client = world.client(1)
records = build_batch([Record(timestamp=world.now, value=b"x" * 100)])
data = [PartitionProduceData(index=0, records=memoryview(records))]
request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
for _ in range(500):
    client.ask(request, 9)
began = time.process_time()
for _ in range(3000):
    client.ask(request, 9)
print(time.process_time() - began)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--before", type=Path, help="another tree, with its codecs generated")
    asked = parser.parse_args()
    took: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        for round_number in range(asked.rounds + 1):
            times = _round(cache, asked.before)
            if round_number == 0:
                print("first starts, codecs generated: " + _told({name: times[name] for name in names()}))
                continue
            for what, seconds in times.items():
                took[what].append(seconds)
    medians = {what: statistics.median(samples) for what, samples in took.items()}
    for what, seconds in medians.items():
        base = medians["produces" if what.startswith("produces") else "none"]
        print(f"{what:24} {seconds * 1000:8.0f} ms  {seconds / base:5.2f}")
    return 0


def _told(times: Mapping[str, float]) -> str:
    return ", ".join(f"{what} {seconds * 1000:.0f} ms" for what, seconds in times.items())


def _round(cache: str, before: Path | None) -> dict[str, float]:
    times = {"none": _start(HERE, cache)}
    times |= {name: _start(HERE, cache, "--dialect", name) for name in names()}
    times["produces"] = _produces(HERE)
    if before is not None:
        times["none before"] = _start(before, cache)
        times["produces before"] = _produces(before)
    return times


def _environment(tree: Path, cache: str = "") -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(tree / "broker"), "ODRADEK_CACHE": cache}


def _start(tree: Path, cache: str, *words: str) -> float:
    """Processor time (s) until a broker is ready."""
    command = [sys.executable, "-m", "odradek", "serve", "--port", "0", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=_environment(tree, cache), text=True, **pipes) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            if READY in line:
                break
        else:
            raise RuntimeError(f"{' '.join(command)} has never been ready.")
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        process.terminate()
        process.stdout.read()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _produces(tree: Path) -> float:
    """Processor time (s) of small produces."""
    command = [sys.executable, "-c", PRODUCES]
    done = subprocess.run(command, env=_environment(tree), capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
