"""Look for each mutant, and say how many seeds and seconds that took: `make sim-mutants`.

    python -m tests.sim.mutants [--seeds N] [--seconds S] [NAME ...]

A name may be a part of one. Each mutant has a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from time import process_time

import msgspec
from msgspec import Struct
from tests.sim.mutants.mutant import Mutant, mutants

__all__ = ["Search", "look_for", "main", "missing"]

SEEDS, SECONDS = 60, 60.0
FIGURES = Path(__file__).parents[3] / "bench" / "README.md"


class Search(Struct, frozen=True):
    """What came of looking for a mutant."""

    name: str
    seeds: int
    """So many were played, that which found it included."""
    seconds: float
    """Of the processor."""
    found: str | None
    """The promise that was broken."""


def missing() -> list[str]:
    """The mutants that the table of figures does not list."""
    page = FIGURES.read_text()
    return [mutant.name for mutant in mutants() if f"| {mutant.name} |" not in page]


def look_for(mutant: Mutant, *, seeds: int, seconds: float) -> Search:
    """Look for one, in a process of its own."""
    command = [sys.executable, "-m", "tests.sim.mutants", "--play", "--seeds", str(seeds), "--seconds", str(seconds)]
    done = subprocess.run([*command, mutant.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{mutant.name}: {done.stderr}")
    return msgspec.json.decode(done.stdout, type=Search)


def _play(mutant: Mutant, *, seeds: int, seconds: float) -> Search:
    """Look for one in this process, which has not imported the broker yet."""
    mutant.install()
    from odradek.sim.model.promises import Violation
    from odradek.sim.run import run
    from odradek.sim.workloads.draw import draw

    began = process_time()
    for seed in range(1, seeds + 1):
        try:
            run(draw(seed, mutant.workload))
        except Violation as violation:
            return Search(mutant.name, seed, process_time() - began, violation.problems[0].name)
        if process_time() - began > seconds:
            break
    return Search(mutant.name, seed, process_time() - began, None)


def main(words: list[str]) -> int:
    """1 if one was not found, or could not be looked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.play:
        [mutant] = [each for each in mutants() if each.name == asked.names[0]]
        print(msgspec.json.encode(_play(mutant, seeds=asked.seeds, seconds=asked.seconds)).decode())
        return 0
    chosen = [each for each in mutants() if not asked.names or any(part in each.name for part in asked.names)]
    print("| mutant | workload | seeds | seconds | found as |\n| --- | --- | ---: | ---: | --- |")
    missed = 0
    for mutant in chosen:
        try:
            search = look_for(mutant, seeds=asked.seeds, seconds=asked.seconds)
        except RuntimeError as error:
            # It does not apply any more, or the broker does not start with it.
            print(f"| {mutant.name} | {mutant.workload} | | | **not looked for** |\n\n{error}", flush=True)
            missed += 1
            continue
        missed += search.found is None
        found = search.found or "**missed**"
        print(f"| {mutant.name} | {mutant.workload} | {search.seeds} | {search.seconds:.1f} | {found} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
