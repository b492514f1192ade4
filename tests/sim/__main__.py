"""Play runs by hand: `python -m tests.sim SEED [COUNT [FOCUS]]`; a line for each, with the digest of its trace."""

from __future__ import annotations

import sys
from traceback import print_exc

from tests.sim.focus import FOCUSES
from tests.sim.scenario import run


def main(arguments: list[str]) -> int:
    """Play the runs; 1 if something did not hold in one of them."""
    first, count, focus = (*arguments, *("1", "general")[len(arguments) - 1 :])
    failed = False
    for seed in range(int(first), int(first) + int(count)):
        try:
            report = run(seed, FOCUSES[focus])
        except AssertionError:
            failed = True
            print(f"{seed} failed")
            print_exc()
        else:
            print(f"{seed} {report.digest} {report.committed} committed of {report.transactions}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
