"""Runs of real clients, recorded and played again: are all answers the same, and how large are the files?

    python -m bench.recordings --runs 1000              # six families take turns, each run in a cluster of its own
    python -m bench.recordings --transactions 1000      # the size of a recording of so many transactions

What recording costs: `python -m bench --only traffic,transactions --peers odradek,odradek-recorded`.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tests.clients.driver import Failure, play

from odradek.cli.logs import make_logger
from odradek.replay.replay import Replay
from odradek.testing import Cluster

FAMILIES = ("confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama", "java")
SCENARIOS = ("produce-consume", "idempotent", "transactions", "group", "txn-offsets", "zombie", "admin")
BROKERS = (1, 3)


@dataclass(frozen=True)
class Run:
    """One run of one client, and the number of its brokers."""

    number: int
    family: str
    scenario: str
    brokers: int


@dataclass(frozen=True)
class Outcome:
    """What became of a run, and of its recording."""

    run: Run
    answers: int = 0
    inputs: int = 0
    size: int = 0
    without: str | None = None
    """Why there is no recording: the client has no means for the scenario, or did not get through it."""
    difference: str | None = None


def runs(count: int, families: Sequence[str], scenarios: Sequence[str]) -> list[Run]:
    """Families take turns; a scenario changes when each of them has played it with one broker and with three."""
    pairs = ((scenario, brokers, family) for scenario in scenarios for brokers in BROKERS for family in families)
    return [
        Run(number, family, scenario, brokers)
        for number, (scenario, brokers, family) in enumerate(islice(cycle(pairs), count), 1)
    ]


def recorded(run: Run, folder: Path) -> Outcome:
    """Record a run, and play it."""
    path = folder / f"{run.number}-{run.family}-{run.scenario}.rec"
    without = None
    with Cluster(brokers=run.brokers, record=path, seed=run.number) as cluster:
        try:
            play(
                run.family,
                run.scenario,
                cluster.bootstrap.split(",")[0],
                topic=f"t{run.number}",
                group=f"g{run.number}",
                transactional_id=f"x{run.number}",
                records=60,
                partitions=3,
                transactions=4,
            )
        except NotImplementedError as error:
            without = f"not played: {error}"
        except Failure as failure:  # a machine with other work lets some time out: what they did is played all the same
            without = f"failed: {failure.error or failure}"
    played = asyncio.run(Replay(path).play(make_logger(level="error")))
    difference = played.difference or played.why
    size = path.stat().st_size
    if difference is None:
        path.unlink()
    return Outcome(run, played.player.answers, played.player.seq, size, without, difference)


def say(text: str) -> None:
    print(text, flush=True)


def compare(count: int, families: Sequence[str], scenarios: Sequence[str], jobs: int) -> int:
    """Record and play so many runs; 1 if an answer differs."""
    folder = Path(tempfile.mkdtemp(prefix="odradek-recordings-"))
    same, failed, answers, inputs, size = Counter[str](), Counter[str](), 0, 0, 0
    differing: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        for number, done in enumerate(pool.map(lambda run: recorded(run, folder), runs(count, families, scenarios)), 1):
            answers, inputs, size = answers + done.answers, inputs + done.inputs, size + done.size
            if done.without is not None:
                failed[f"{done.run.family} {done.run.scenario} {done.without[:60]}"] += 1
            if done.difference is not None:
                differing.append(done)
                say(f"run {done.run}: {done.difference}")
            else:
                same[done.run.family] += 1
            if not number % 20:
                say(f"{number} of {count}: {same.total()} the same, {len(differing)} not; {answers} answers")
    for family, number in same.items():
        say(f"{family}: {number} recordings, the same byte for byte")
    for what, number in failed.items():
        say(f"{number} × {what}")
    say(f"{same.total()} recordings of {count} the same: {answers:,} answers to {inputs:,} inputs, {size:,} bytes")
    if differing:
        say(f"{len(differing)} differ; they are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def measure(transactions: int) -> int:
    """The size of a recording of so many transactions of one record each, without the start of the client."""
    from confluent_kafka import Producer

    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (10, 10 + transactions):
            path = Path(folder, f"{count}.rec")
            with Cluster(topics=["t"], record=path) as cluster:
                producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "x", "linger.ms": 0})
                producer.init_transactions()
                for number in range(count):
                    producer.begin_transaction()
                    producer.produce("t", b"%0100d" % number)
                    producer.commit_transaction()
            sizes.append(path.stat().st_size)
    say(f"{transactions:,} transactions of one record of 100 bytes: {sizes[1] - sizes[0]:,} bytes")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--transactions", type=int, default=0)
    asked = parser.parse_args()
    if asked.transactions:
        return measure(asked.transactions)
    return compare(asked.runs or 12, asked.families.split(","), asked.scenarios.split(","), asked.jobs)


if __name__ == "__main__":
    sys.exit(main())
