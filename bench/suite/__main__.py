"""How long a suite of a hundred tests takes with real clients: on Odradek, kfake and a real Kafka 4.4 in turns.

    python -m bench.suite
    python -m bench.suite --families java --peers odradek,kfake --rounds 3 --tests
    python -m bench.suite --own-cluster                         # a cluster for each test, where the peer can
    python -m bench.suite --quick                               # with the client settings of docs/testing.md
    python -m bench.suite --list                                # the tests, and what each checks

Each turn is a new broker and a new client program. A test that fails on one peer is named, and counts for none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.quiet import Stopwatch
from bench.suite.cases import CASES, PLAYS, Case
from bench.suite.families import FAMILIES
from bench.suite.grounds import OWN, shared
from bench.suite.turns import Turn, play
from bench.table import print_table

__all__ = ["figures", "main", "suite"]

SHARED = ["odradek", "kfake", "kafka"]
EVERYTHING = "all families"


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default=",".join(FAMILIES), help=f"of {','.join(FAMILIES)}")
    parser.add_argument("--peers", default=",".join(SHARED), help=f"of {','.join(SHARED)}")
    parser.add_argument("--match", default="", help="only tests whose name contains this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--own-cluster", action="store_true", help="a cluster for each test")
    parser.add_argument("--quick", action="store_true", help="client settings that wait less (docs/testing.md)")
    parser.add_argument("--tests", action="store_true", help="print the time of each test, too")
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(words)


def chosen(text: str, known: Sequence[str]) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"bench.suite: no {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def suite(given: argparse.Namespace, cases: Sequence[Case], say: Callable[[str], None]) -> list[Turn]:
    """All turns: the peers of a family one after the other, in the other order in every second round."""
    families, peers = chosen(given.families, list(FAMILIES)), chosen(given.peers, SHARED)
    if given.own_cluster:
        for peer in peers:
            if peer not in OWN:
                say(f"{peer}: left out, it takes seconds to make a cluster")
        peers = [peer for peer in peers if peer in OWN]
    turns: list[Turn] = []
    for number in range(given.rounds):
        for family in families:
            for peer in peers if number % 2 == 0 else reversed(peers):
                turn = Turn(family, peer)
                ground = OWN[peer] if given.own_cluster else shared(peer)
                with tempfile.TemporaryFile() as said:
                    play(turn, FAMILIES[family], ground, cases, said, quick=given.quick)
                    if turn.failed:
                        said.seek(0)
                        say(said.read().decode(errors="replace")[-4000:])
                turns.append(turn)
                say(f"{family}, {peer}: {len(turn.times)} tests in {sum(turn.times.values()):.1f} s")
    return turns


def counted(turns: Sequence[Turn], family: str, cases: Sequence[Case]) -> list[str]:
    """The tests of a family that passed in each of its turns."""
    of = [turn for turn in turns if turn.family == family]
    return [case.name for case in cases if all(case.name in turn.times for turn in of)]


Table = dict[str, dict[str, float]]


def figures(turns: Sequence[Turn], cases: Sequence[Case]) -> Table:
    """Medians over the rounds by title and peer, each family by itself and all together."""
    whole: Table = {}

    def median(family: str, peer: str, of: Callable[[Turn], float]) -> float:
        return statistics.median(of(turn) for turn in turns if (turn.family, turn.peer) == (family, peer))

    families = list(dict.fromkeys(turn.family for turn in turns))
    peers = list(dict.fromkeys(turn.peer for turn in turns))
    for family in families:
        names = counted(turns, family, cases)
        kinds: dict[str, Callable[[Turn], float]] = {
            f"{len(names)} tests, s": lambda turn, names=names: sum(turn.times[name] for name in names),  # type: ignore[misc]
            "start of the broker, s": lambda turn: turn.start,
            "processor time of the broker, s": lambda turn: turn.broker_cpu,
            "processor time of the client, s": lambda turn: turn.client_cpu,
        }
        for title, of in kinds.items():
            for peer in peers:
                value = median(family, peer, of)
                whole.setdefault(f"{family}: {title}", {})[peer] = value
                everything = title.partition(" ")[2] if title.startswith(f"{len(names)} ") else title
                together = whole.setdefault(f"{EVERYTHING}: {everything}", {})
                together[peer] = together.get(peer, 0.0) + value
    return whole


def times(turns: Sequence[Turn], cases: Sequence[Case]) -> Table:
    """The median time of each test (ms), by family and test."""
    table: Table = {}
    for turn in turns:
        for name in counted(turns, turn.family, cases):
            of = [other.times[name] for other in turns if (other.family, other.peer) == (turn.family, turn.peer)]
            table.setdefault(f"{turn.family}: {name}, ms", {})[turn.peer] = statistics.median(of) * 1000
    return table


def report_failures(turns: Sequence[Turn]) -> None:
    for turn in turns:
        for name, error in turn.failed.items():
            print(f"{turn.family}, {turn.peer}: {name} counts for no peer: {error[:300]}")


def print_list(cases: Sequence[Case]) -> None:
    for case in cases:
        print(f"{case.name}: {PLAYS[case.play]}")


def main(words: Sequence[str] | None = None) -> int:
    """The exit code is 1 if Odradek failed a test."""
    given = parse(words)
    cases = [case for case in CASES if given.match in case.name]
    if given.list:
        print_list(cases)
        return 0
    watch = Stopwatch()
    turns = suite(given, cases, lambda text: print(text, file=sys.stderr, flush=True))
    others = watch.others()
    print_table(figures(turns, cases))
    if given.tests:
        print_table(times(turns, cases))
    report_failures(turns)
    print(f"Other processes took {others:.0%} of the processors.")
    if given.json:
        told = {"others": others, "quick": given.quick, "turns": [dataclasses.asdict(turn) for turn in turns]}
        given.json.write_text(json.dumps(told, indent=1) + "\n")
    return int(any(turn.peer == "odradek" and turn.failed for turn in turns))


if __name__ == "__main__":
    raise SystemExit(main())
