"""`python -m tests.clients.matrix`: plays the matrix and writes docs/compatibility.md and docs/compatibility.json.

Exit code 0 if everything that is expected to work does, 1 if not, 2 for wrong arguments.
What this machine has no means for (a compiler, a Python) is left out; where CI=true it counts as a failure.
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console
from tests.clients.driver import FAMILIES
from tests.clients.matrix import page
from tests.clients.matrix.expectations import Expectations
from tests.clients.matrix.plan import BROKERS, SCENARIOS, Cell, Client, core, everything
from tests.clients.matrix.playing import Outcome, play_against_kafka, play_cell
from tests.clients.matrix.results import Entry, Results
from tests.clients.toolchain import BuildFailed, MissingToolchain

# Most of a cell is a client that waits: for a rebalance, for a timeout.
AT_ONCE = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.matrix", description=__doc__)
    parser.add_argument("--full", action="store_true", help="everything, not the smaller set of every change")
    by_name = "cells whose name matches, of everything: 'java 4*, level 2, *'; may be repeated"
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help=by_name)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="cells at the same time")
    parser.add_argument("--real", action="store_true", help="play them against a real Kafka, and write nothing")
    parser.add_argument("--list", action="store_true", help="say which cells would be played")
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> list[Cell]:
    """The cells to be played, those of one client together."""
    cells = list(everything() if asked.full or asked.only else core())
    if asked.only:
        cells = [cell for cell in cells if any(fnmatch.fnmatchcase(str(cell), each) for each in asked.only)]
    return cells


def prepare(cells: Sequence[Cell], console: Console) -> dict[Client, str]:
    """Build every client once, before anything is timed; why each of those that cannot be built cannot."""
    missing: dict[Client, str] = {}
    for client in dict.fromkeys(cell.client for cell in cells):
        console.print(f"preparing {client}", highlight=False)
        try:
            FAMILIES[client.family](client.version)
        except (MissingToolchain, BuildFailed) as lacking:
            missing[client] = str(lacking)
            console.print(f"  {lacking}", highlight=False, markup=False)
    return missing


def played(cells: Sequence[Cell], at_once: int) -> Iterator[tuple[Cell, Outcome]]:
    """Play them, several at a time, each in a process that has a cluster of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context) as pool:
        futures = {pool.submit(play_cell, cell): cell for cell in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()


def is_expected(cell: Cell, outcome: Outcome, expectations: Expectations) -> bool:
    """Whether it came as it should; what this machine lacks is no fault, except where everything is to be there."""
    match outcome.result:
        case "lacking":
            return expectations.lacks(cell) is not None
        case "failed":
            return expectations.fails(cell) is not None
        case "missing":
            return cell.client.optional or os.environ.get("CI") != "true"
    return expectations.lacks(cell) is None


def report(cell: Cell, outcome: Outcome, expected: bool, console: Console) -> None:
    again = f", try {outcome.tries}" if outcome.tries > 1 else ""
    style = "green" if outcome.result == "passed" else "yellow" if expected else "red"
    console.print(f"{outcome.result:8} {outcome.seconds:5.1f} s  {cell}{again}", style=style, highlight=False)
    if not expected:
        console.print(f"         {outcome.error}", highlight=False, markup=False)


def main() -> int:
    asked = arguments()
    console = Console(soft_wrap=True)
    cells = chosen(asked)
    if not cells:
        known = f"brokers: {', '.join(broker.name for broker in BROKERS)}; scenarios: {', '.join(SCENARIOS)}"
        print(f"No cell matches. A cell is called 'FAMILY VERSION, BROKER, SCENARIO'; {known}.", file=sys.stderr)
        return 2
    if asked.list:
        for cell in cells:
            print(cell)
        return 0
    expectations = Expectations()
    missing = prepare(cells, console)
    ready = [cell for cell in cells if cell.client not in missing]
    if asked.real:
        for cell, outcome in play_against_kafka(ready):
            report(cell, outcome, outcome.result == "passed", console)
        return 0
    results, counts, unexpected = Results(), Counter[str](), 0
    lost = ((cell, Outcome("missing", error=missing[cell.client])) for cell in cells if cell.client in missing)
    for source in (lost, played(ready, asked.at_once)):
        for cell, outcome in source:
            expected = is_expected(cell, outcome, expectations)
            counts[outcome.result] += 1
            unexpected += not expected
            report(cell, outcome, expected, console)
            if outcome.result != "missing":
                results.put(cell, Entry(outcome, expected))
    results.write()
    page.write(results, expectations)
    told = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    console.print(f"{told}; {unexpected} not as expected")
    print(f"{len(cells) - unexpected} passed, {unexpected} failed")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
