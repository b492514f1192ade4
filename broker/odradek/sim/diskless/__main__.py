"""Plays every schedule of a design of diskless topics, and prints the shortest one that breaks a promise.

python -m odradek.sim.diskless                          the design that checks batches when it takes them
python -m odradek.sim.diskless --unchecked              one that relies on what brokers verified before the upload
"""

from __future__ import annotations

import argparse
import sys

from odradek.sim.diskless.machines import Design, Size
from odradek.sim.diskless.search import search


def main(arguments: list[str] | None = None) -> int:
    """The exit code is 0 if every promise is kept, 1 if one is broken."""
    parser = argparse.ArgumentParser(prog="python -m odradek.sim.diskless", description=__doc__.splitlines()[0])
    parser.add_argument("--unchecked", action="store_true", help="the batch coordinator takes every batch")
    parser.add_argument("--end-waits", action="store_true", help="EndTxn is answered when the markers are written")
    parser.add_argument("--markers-wait", action="store_true", help="markers wait for the batches that brokers hold")
    parser.add_argument("--two-reads", action="store_true", help="a Fetch reads log and aborted transactions apart")
    parser.add_argument("--promise", default="", metavar="WORDS", help="only promises with these words")
    parser.add_argument("--transactions", type=int, default=Size().transactions)
    parser.add_argument("--partitions", type=int, default=Size().partitions)
    parser.add_argument("--brokers", type=int, default=Size().brokers)
    given = parser.parse_args(arguments)
    design = Design(
        checks_batches=not given.unchecked,
        end_waits_for_markers=given.end_waits,
        markers_wait_for_objects=given.markers_wait,
        reads_one_snapshot=not given.two_reads,
    )
    found = search(design, Size(given.transactions, given.partitions, given.brokers), given.promise)
    for number, step in enumerate(found.schedule, 1):
        print(f"{number:3}. {step}")
    print(f"{found.states:,} states: {found.promise or 'every promise is kept'}")
    return int(found.promise is not None)


if __name__ == "__main__":
    sys.exit(main())
