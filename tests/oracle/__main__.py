"""The differential runner.

    python -m tests.oracle compare [WHAT...]    play against Odradek and the real broker, and compare
    python -m tests.oracle record [WHAT...]     play against the real broker and write its answers into the repository
    python -m tests.oracle check [WHAT...]      play against Odradek and compare with the recorded answers
    python -m tests.oracle accept [WHAT...]     write Odradek's answers where a scenario expects a difference
    python -m tests.oracle show WHAT            play one against one broker and print it: --on real or --on odradek
    python -m tests.oracle explore [KIND...]    play --runs stories of each kind, drawn from --seed, against both
    python -m tests.oracle list                 name the scenarios, and why some differ

WHAT is a file of scenarios, or file/scenario; everything if left out.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Iterable

from tests.oracle import brokers
from tests.oracle.explore import explore
from tests.oracle.recorded import KAFKA, ODRADEK, answers_path, recorded, write
from tests.oracle.scenario import LEVELS, Scenario, load_all
from tests.oracle.session import Stage, Start, groups
from tests.oracle.stories import KINDS
from tests.oracle.transcript import Entry, difference, merge

STARTS: dict[str, Start] = {"real": brokers.real, "odradek": brokers.odradek}
log = logging.getLogger(__name__)
ByLevel = dict[int, list[Entry]]
Played = dict[str, ByLevel]


def chosen(scenarios: Iterable[Scenario], what: list[str]) -> list[Scenario]:
    """Those that are named, or all."""
    found = [each for each in scenarios if not what or {each.topic, each.path} & set(what)]
    if not found:
        sys.exit(f"no scenario of this name: {', '.join(what)}")
    return found


def play(scenarios: list[Scenario], start: Start, levels: Iterable[int]) -> Played:
    """Every scenario at every level, by path and level; what cannot be played is said, and left out."""
    played: Played = {}
    for level in levels:
        for group in groups(scenarios):
            with Stage(group, level, start) as stage:
                for scenario in stage.scenarios:
                    try:
                        played.setdefault(scenario.path, {})[level] = stage.play(scenario)
                    except Exception as error:
                        log.exception("\n".join(getattr(error, "__notes__", [])))
    return played


def record(scenarios: list[Scenario], levels: Iterable[int]) -> int:
    """Write the answers of the real broker."""
    played = play(scenarios, brokers.real, levels)
    told = [scenario for scenario in scenarios if scenario.path in played]
    for scenario in told:
        write(scenario, KAFKA, played[scenario.path])
    print(f"recorded {len(told)} of {len(scenarios)} scenarios")
    return int(len(told) < len(scenarios))


def accept(scenarios: list[Scenario], levels: Iterable[int]) -> int:
    """Write Odradek's answers to the scenarios in which they are meant to differ."""
    differing = [scenario for scenario in scenarios if scenario.differs]
    played = play(differing, brokers.odradek, levels)
    for scenario in differing:
        write(scenario, ODRADEK, played[scenario.path])
    print(f"wrote the answers to {len(differing)} scenarios")
    return 0


def compare(scenarios: list[Scenario], levels: Iterable[int]) -> int:
    """Play against both and print what differs, and what should and does not."""
    levels = tuple(levels)
    real, ours = play(scenarios, brokers.real, levels), play(scenarios, brokers.odradek, levels)
    failures = 0
    for scenario in scenarios:
        for level, entries in ours[scenario.path].items():
            expected = recorded(scenario, ODRADEK)[level] if scenario.differs else real[scenario.path][level]
            if lines := difference(expected, entries):
                failures += 1
                print(f"\n{scenario.path} at transaction.version {level}", *lines, sep="\n")
        if lines := stale(scenario, real[scenario.path]):
            failures += 1
            print(f"\n{scenario.path}: the recorded answers are not those of the real broker", *lines, sep="\n")
    print(f"\n{len(scenarios)} scenarios, {failures} differences that are not expected")
    return int(failures > 0)


def check(scenarios: list[Scenario], levels: Iterable[int]) -> int:
    """Play against Odradek and print what differs from the recorded answers."""
    failures = 0
    played = play(scenarios, brokers.odradek, levels)
    for scenario in scenarios:
        accepted = scenario.differs is not None and answers_path(scenario, ODRADEK).exists()
        expected = recorded(scenario, ODRADEK if accepted else KAFKA)
        failures += report(scenario, expected, played.get(scenario.path, {}))
    print(f"\n{len(scenarios)} scenarios, {failures} differences that are not expected")
    return int(failures > 0)


def report(scenario: Scenario, expected: ByLevel, actual: ByLevel) -> bool:
    """Print what differs, levels with the same differences together."""
    found: dict[tuple[str, ...], list[int]] = {}
    for level, entries in actual.items():
        if lines := difference(expected[level], entries):
            found.setdefault(tuple(lines), []).append(level)
    for differing, levels in found.items():
        print(f"\n{scenario.path} at transaction.version {' '.join(map(str, levels))}", *differing, sep="\n")
    return bool(found)


def stale(scenario: Scenario, real: dict[int, list[Entry]]) -> list[str]:
    """How the recorded answers differ from those of the real broker."""
    if not answers_path(scenario, KAFKA).exists():
        return ["nothing is recorded"]
    known = recorded(scenario, KAFKA)
    return [line for level, entries in real.items() for line in difference(known[level], entries)]


def show(scenarios: list[Scenario], levels: Iterable[int], on: str) -> int:
    """Print the answers of one broker."""
    played = play(scenarios, STARTS[on], levels)
    for scenario in scenarios:
        if scenario.path not in played:
            continue
        print(f"== {scenario.title}", merge(on, played[scenario.path]), sep="\n")
    return 0


def differing(kinds: list[str], seeds: range, levels: Iterable[int]) -> int:
    """Print the stories of these seeds that both brokers do not tell alike."""
    found = 0
    for level in levels:
        for finding in explore(kinds, seeds, level):
            found += 1
            print(finding, flush=True)
    print(f"\n{len(seeds)} stories of each kind, {found} differences")
    return int(found > 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description="The differential runner.")
    parser.add_argument("command", choices=("compare", "record", "check", "accept", "show", "explore", "list"))
    parser.add_argument("what", nargs="*", help="file, or file/scenario; kinds of stories to explore")
    parser.add_argument("--on", choices=tuple(STARTS), default="real")
    parser.add_argument("--level", type=int, action="append", choices=LEVELS, help="only at this transaction.version")
    parser.add_argument("--seed", type=int, default=1, help="of the first story")
    parser.add_argument("--runs", type=int, default=20, help="how many stories")
    arguments = parser.parse_args()
    scenarios = [] if arguments.command == "explore" else chosen(load_all(), arguments.what)
    levels = arguments.level or LEVELS
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # Whoever ends this ends the real brokers with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    match arguments.command:
        case "list":
            for scenario in scenarios:
                print(scenario.path, f"(differs: {scenario.differs})" if scenario.differs else "")
            return 0
        case "explore":
            kinds = arguments.what or list(KINDS)
            if unknown := set(kinds) - set(KINDS):
                sys.exit(f"no stories of this kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
            status = differing(kinds, range(arguments.seed, arguments.seed + arguments.runs), levels)
        case "record":
            status = record(scenarios, LEVELS)
        case "check":
            status = check(scenarios, levels)
        case "accept":
            status = accept(scenarios, LEVELS)
        case "show":
            status = show(scenarios, levels, arguments.on)
        case _:
            status = compare(scenarios, levels)
    print(f"{time.monotonic() - started:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
