"""Runs of real clients, recorded and played again: are all answers the same, and how large are the files?

    python -m bench.recordings --runs 1000              # eight families, on twelve kinds of clusters (grounds.py)
    python -m bench.recordings --runs 60 --grounds killed,forked --families java,sarama
    python -m bench.recordings --runs 1000 --from 501   # the second half of the same runs
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.driver import Failure, play

from bench.recordings.grounds import GROUNDS, Ground, Recordings
from bench.recordings.plan import FAMILIES, OWN, SCENARIOS, Run, runs
from odradek.cli.logs import make_logger
from odradek.replay.replay import Replay
from odradek.testing import Cluster

AMOUNTS = {"records": 60, "partitions": 3, "transactions": 4}
AMOUNTS_OF_OWN = {"records": 300, "transactions": 12}
TIMEOUT_S = 60
"""How long a client may take; one whose cluster misbehaves may wait for something that never comes."""


@dataclass
class Outcome:
    """What became of a run, and of its recordings."""

    run: Run
    recordings: int = 0
    answers: int = 0
    inputs: int = 0
    size: int = 0
    without: str | None = None
    """The client has no means for the scenario, or did not get through it: what it did is played all the same."""
    differences: list[str] = field(default_factory=list)


def recorded(run: Run, folder: Path) -> Outcome:
    """Record a run, and play its recordings; they stay if one of them differs."""
    outcome, recordings = Outcome(run), Recordings(folder / str(run.number))
    recordings.folder.mkdir()
    try:
        with GROUNDS[run.ground](run, recordings) as ground:
            outcome.without = _play(run, ground)
    except Exception as error:  # a machine with other work may be too slow for what is done to the cluster
        outcome.without = f"the ground: {error!r}"
    for path in filter(Path.exists, (*recordings.whole, *recordings.cut)):
        _replay(path, outcome, is_cut=path in recordings.cut)
    if not outcome.differences:
        shutil.rmtree(recordings.folder)
    return outcome


def _play(run: Run, ground: Ground) -> str | None:
    named = {"topic": run.topic(), "group": run.topic("-group"), "transactional_id": run.topic("-id")}
    options: dict[str, Any] = {**named, **(AMOUNTS_OF_OWN if run.family in OWN else AMOUNTS)}
    try:
        play(run.family, run.scenario, ground.bootstrap, timeout=TIMEOUT_S, secured=ground.secured, **options)
    except NotImplementedError as error:
        return f"not played: {error}"
    except Failure as failure:
        return f"failed: {failure.error or failure}"
    return None


def _replay(path: Path, outcome: Outcome, *, is_cut: bool) -> None:
    """Play one recording; whatever is not the same, or does not end as it should, is noted."""
    try:
        played = asyncio.run(Replay(path).play(make_logger(level="error")))
    except Exception as error:
        outcome.differences.append(f"{path.name}: {error!r}")
        return
    outcome.recordings += 1
    outcome.answers += played.player.answers
    outcome.inputs += played.player.seq
    outcome.size += path.stat().st_size
    if played.difference is not None:
        outcome.differences.append(f"{path.name}: {played.text}")
    elif (played.why is None) == is_cut or (played.why is not None and not _is_cut(played.why)):
        outcome.differences.append(f"{path.name}: {played.why or 'it has an end, and its process was killed'}")


def _is_cut(why: str) -> bool:
    return "The recording is cut off" in why


def say(text: str) -> None:
    print(text, flush=True)


def compare(chosen: Sequence[Run], jobs: int) -> int:
    """Record and play these runs; 1 if an answer differs."""
    folder = Path(tempfile.mkdtemp(prefix="odradek-recordings-"))
    total, same, without = Outcome(chosen[0]), Counter[str](), Counter[str]()
    with ThreadPoolExecutor(jobs) as pool:
        for number, done in enumerate(pool.map(lambda run: recorded(run, folder), chosen), 1):
            for name in ("recordings", "answers", "inputs", "size"):
                setattr(total, name, getattr(total, name) + getattr(done, name))
            total.differences += [f"{done.run}: {difference}" for difference in done.differences]
            for difference in done.differences:
                say(f"{done.run}: {difference}")
            if not done.differences:
                same.update((done.run.family, done.run.ground, done.run.scenario))
            if done.without is not None:
                without[f"{done.run.family} {done.run.scenario} {done.run.ground}: {done.without[:100]}"] += 1
            if not number % 20:
                say(f"{number} of {len(chosen)}: {total.answers:,} answers, {len(total.differences)} differ")
    for names in (GROUNDS, (*FAMILIES, *OWN), (*SCENARIOS, *(each for own in OWN.values() for each in own))):
        say("; ".join(f"{name} {same[name]}" for name in names if same[name]))
    for what, count in sorted(without.items()):
        say(f"{count} × {what}")
    say(
        f"{len(chosen)} runs, {total.recordings:,} recordings: {total.answers:,} answers to {total.inputs:,} inputs, "
        f"{total.size:,} bytes; {len(total.differences)} differ"
    )
    if total.differences:
        say(f"Those that differ are in {folder}")
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
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument(
        "--from", type=int, default=1, dest="first", help="the number of the first of them that is played"
    )
    parser.add_argument("--families", default=",".join((*FAMILIES, *OWN)))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--grounds", default=",".join(GROUNDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--transactions", type=int, default=0)
    asked = parser.parse_args()
    if asked.transactions:
        return measure(asked.transactions)
    chosen = runs(asked.runs, asked.families.split(","), asked.scenarios.split(","), asked.grounds.split(","))
    return compare([run for run in chosen if run.number >= asked.first], asked.jobs)


if __name__ == "__main__":
    sys.exit(main())
