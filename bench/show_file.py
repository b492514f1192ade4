"""How long `odradek show` takes for event files of several sizes: from the command to the page.

    python -m bench.show_file
    python -m bench.show_file --events 1000000 10000000

The events are those of a simulated cluster, over and over, with numbers of their own. In each file one transactional id
is heard of once, in the middle; `--transaction` has to find it.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kips.producer import Producer
from tests.pictures import lines_of
from tests.unit.show.event_files import line, started, transacted

from odradek.show.events import event_of
from odradek.show.history import history_of

__all__ = ["main", "made"]

RARE = "the-rare-one"
SEQ = re.compile(rb'"seq":\d+')
EVENTS_OF_A_RUN = 20_000


def run_lines() -> list[bytes]:
    """The events of a cluster in which several producers take turns."""
    cluster = started(["t:1"])
    producers = [Producer.started(cluster, tid=f"till-{number}") for number in range(4)]
    while len(cluster.world.facts) < EVENTS_OF_A_RUN:
        for producer in producers:
            transacted(cluster, producer)
    return lines_of(cluster)[-EVENTS_OF_A_RUN:]


def made(path: Path, lines: list[bytes], count: int) -> Path:
    """A file of so many events, numbered from 1."""

    def numbered() -> Iterator[bytes]:
        for seq in range(1, count + 1):
            if seq == count // 2:
                yield line(seq, "fenced", transactional_id=RARE, producer_id=987_654) + b"\n"
            else:
                yield SEQ.sub(b'"seq":%d' % seq, lines[seq % len(lines)], count=1) + b"\n"

    with path.open("wb") as file:
        file.writelines(numbered())
    return path


def took(*words: object) -> str:
    """How long the command takes, and how much of a processor."""
    began, before = time.perf_counter(), _processor_s()
    subprocess.run([sys.executable, "-m", "odradek", "show", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return f"{time.perf_counter() - began:.2f} s ({_processor_s() - before:.2f} s of a processor)"


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Make the files, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[20_000, 1_000_000], metavar="N")
    counts = parser.parse_args().events
    lines = run_lines()
    began = time.process_time()
    events = [event for event in map(event_of, lines) if event is not None]
    decoded = time.process_time()
    history_of(events)
    ended = time.process_time()
    print(
        f"Of {len(events):,} events each costs {(decoded - began) / len(events) * 1e6:.1f} µs to decode "
        f"and {(ended - decoded) / len(events) * 1e6:.1f} µs in history_of."
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        for count in counts:
            file = made(Path(folder) / "events.jsonl", lines, count)
            print(
                f"{count:,} events, {file.stat().st_size / 1e6:,.0f} MB: "
                f"the newest {took(file, '-o', page)}, "
                f"from the middle on {took(file, '--first', count // 2, '-o', page)}, "
                f"a transactional id {took(file, '--transaction', RARE, '-o', page)}"
            )


if __name__ == "__main__":
    main()
