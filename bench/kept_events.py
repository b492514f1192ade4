"""What a `Cluster` pays for the events that it keeps for a failing test: transactions with and without.

    python -m bench.kept_events
    python -m bench.kept_events --rounds 100

Two clusters run in one process, and a producer of confluent-kafka commits transactions of one record at each in turns,
a few at a time; a ratio is the median of those of the rounds. Processor time is that of clients and brokers together.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from bench.transactions.confluent import Load
from odradek.cli.logs import make_logger
from odradek.config.table import Config
from odradek.metadata.controller_role import StartTopic
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.net.recent import Recent

__all__ = ["main"]

AT_A_TIME = 25


@contextmanager
def producer(recent: Recent | None) -> Iterator[Load]:
    """A producer of a cluster of its own, whose events go there."""

    async def start() -> RunningCluster:
        log = make_logger(level="error")
        return await start_cluster(config=Config.parse({}), log=log, topics=[StartTopic("t")], events=recent)

    with start_blocking_portal(backend_options={"use_uvloop": True}) as portal:
        cluster = portal.call(start)
        yield Load(cluster.bootstrap, "t", 1, 1)
        portal.call(cluster.stop)


def spent_s(load: Load) -> tuple[float, float]:
    """Processor time and time of a transaction, of a few."""
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(AT_A_TIME):
        load.transaction()
    return (time.process_time() - cpu) / AT_A_TIME, (time.perf_counter() - began) / AT_A_TIME


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help=f"of {AT_A_TIME} transactions at each cluster")
    given = parser.parse_args()
    recent = Recent()
    with producer(recent) as keeping, producer(None) as other:
        for load in (keeping, other):
            spent_s(load)
        before = recent.last
        pairs = [(spent_s(keeping), spent_s(other)) for _ in range(given.rounds)]
        count = (recent.last - before) / (given.rounds * AT_A_TIME)
    print(f"{count:.1f} events a transaction, of which the newest {recent.last - recent.first + 1} are kept")
    cpu = statistics.median(kept[0] / none[0] for kept, none in pairs)
    rate = statistics.median(none[1] / kept[1] for kept, none in pairs)
    print(f"ratio with and without: {cpu:.3f} in processor time, {rate:.3f} in transactions a second")


if __name__ == "__main__":
    main()
