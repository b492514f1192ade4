"""`python -m bench`: Odradek beside its peers, in interleaved rounds; medians of the quieter half, and ratios."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.brokers import PEERS, Running, odradek_before, odradek_on, running
from bench.interpreter import built
from bench.measures import MEMORY_MIB, TRAFFIC, TRANSACTIONS, Measure, memory_after_traffic, warm
from bench.quiet import Sample, Stopwatch, awake, median, others_share
from bench.table import print_codec, print_table

SECTIONS = ["start", "memory", "traffic", "tls", "codec", "transactions"]
TRAFFIC_PEERS = ["odradek", "odradek-recorded", "kafka", "kfake", "echo", "before", "other-python"]
TLS_PEERS = ["odradek", "odradek-tls", "kafka", "kafka-tls"]
TLS_MEASURES = 4
"""The first measures of traffic: small and large requests."""
TRANSACTION_PEERS = [
    "odradek",
    "odradek-recorded",
    "odradek-tv1",
    "kafka",
    "kafka-tv1",
    "kfake",
    "before",
    "other-python",
]
ON_REQUEST = frozenset({"odradek-recorded"})
"""Measured where they are named alone."""
WITHOUT_ECHO = ["odradek", "kafka", "kfake", "before", "other-python"]

Samples = dict[str, dict[str, list[Sample]]]
"""By measure and unit, then by peer: one figure of each round."""


def add(samples: Samples, title: str, peer: str, value: float, others: float) -> None:
    samples.setdefault(title, {}).setdefault(peer, []).append(Sample(value, others))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def starts(peers: Sequence[str], rounds: int, samples: Samples) -> None:
    for n in range(rounds):
        for peer in peers:
            watch = Stopwatch()
            with running(peer) as broker:
                others = watch.others()
                add(samples, "start to the first answer, ms", peer, broker.start_seconds * 1000, others)
                time.sleep(1)
                add(samples, "resident memory idle, MiB", peer, broker.resident_mib(), others)
        say(f"start: round {n + 1} of {rounds}")


def memory(peers: Sequence[str], samples: Samples) -> None:
    title = f"resident memory after {MEMORY_MIB} MiB produced, 64 MiB kept, MiB"
    for peer in peers:
        with running(peer) as broker:
            watch = Stopwatch(broker.process.pid)
            add(samples, title, peer, memory_after_traffic(broker), watch.others())
        say(f"memory: {peer}")


def play(measures: Sequence[Measure], brokers: Sequence[Running], given: argparse.Namespace, out: Samples) -> None:
    with contextlib.ExitStack() as stack:
        spinning = [] if given.let_sleep else stack.enter_context(awake())
        for measure in measures:
            for _ in range(given.rounds):
                for broker in brokers:
                    watch = Stopwatch(broker.process.pid, *spinning)
                    try:
                        figures = measure.play(broker, given.seconds)
                    except RuntimeError as error:
                        say(f"{broker.name}, {measure.name}: {error}")
                        continue
                    others = watch.others()
                    for key, unit in measure.figures.items():
                        add(out, f"{measure.name}, {unit}", broker.name, figures[key], others)
            say(measure.name)


def side_by_side(measures: Sequence[Measure], peers: Sequence[str], given: argparse.Namespace, out: Samples) -> None:
    wanted = [measure for measure in measures if given.match in measure.name]
    with contextlib.ExitStack() as all_running:
        brokers = [all_running.enter_context(running(peer)) for peer in peers]
        for broker in brokers:
            warm(broker, given.warm_up)
        play(wanted, brokers, given, out)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {','.join(SECTIONS)}")
    usual = [peer for peer in PEERS if peer not in ON_REQUEST]
    parser.add_argument("--peers", default=",".join(usual), help=f"of {','.join(PEERS)}")
    parser.add_argument("--before", type=Path, help="a working copy that is measured as well, as `before`")
    parser.add_argument("--python", type=Path, help="an interpreter on which it is measured as well, as `other-python`")
    parser.add_argument("--match", default="", help="only measures whose name contains this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each single run")
    parser.add_argument("--warm-up", type=float, default=20, help="seconds of traffic on each broker beforehand")
    parser.add_argument("--let-sleep", action="store_true", help="do not keep idle processors awake")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


def main() -> None:
    given = parse()
    sections, wanted = given.only.split(","), given.peers.split(",")
    if given.before is not None:
        PEERS["before"] = odradek_before(given.before)
        wanted.append("before")
    interpreters = {"odradek": built(sys.executable)}
    if given.python is not None:
        PEERS["other-python"] = odradek_on(given.python)
        wanted.append("other-python")
        interpreters["other-python"] = built(str(given.python))
    samples: Samples = {}
    codec: dict[str, dict[str, float]] = {}

    def among(peers: Sequence[str]) -> list[str]:
        return [peer for peer in peers if peer in wanted]

    try:
        if "start" in sections:
            starts(among(WITHOUT_ECHO), given.rounds, samples)
        if "memory" in sections:
            memory(among(WITHOUT_ECHO), samples)
        if "traffic" in sections:
            side_by_side(TRAFFIC, among(TRAFFIC_PEERS), given, samples)
        if "tls" in sections:
            side_by_side(TRAFFIC[:TLS_MEASURES], among(TLS_PEERS), given, samples)
        if "transactions" in sections:
            side_by_side(TRANSACTIONS, among(TRANSACTION_PEERS), given, samples)
        if "codec" in sections:
            from bench.codec import codec_rounds

            codec = codec_rounds(given.rounds)
    finally:
        for peer, interpreter in interpreters.items():
            print(f"{peer}: {interpreter}")
        report(samples, codec, given.json)


def report(samples: Samples, codec: dict[str, dict[str, float]], file: Path | None) -> None:
    medians = {title: {peer: median(all_) for peer, all_ in of.items()} for title, of in samples.items()}
    print_table(medians)
    print_codec(codec)
    if samples:
        worst = max(others_share(all_) for of in samples.values() for all_ in of.values())
        print(f"Other processes took at most {worst:.0%} of the processors during the runs that count.")
    if file:
        plain = {
            title: {peer: [dataclasses.astuple(sample) for sample in all_] for peer, all_ in of.items()}
            for title, of in samples.items()
        }
        whole: dict[str, Any] = {"machine": machine(), "samples": plain, "medians": medians, "codec_us": codec}
        file.write_text(json.dumps(whole, indent=1) + "\n")


def machine() -> dict[str, object]:
    return {"cores": os.cpu_count(), "python": built(sys.executable), "load": os.getloadavg()}


if __name__ == "__main__":
    main()
