"""What a cluster of the hub pays for its events: transactions at hubs of two checkouts of the repository, in turns.

    python -m bench.hub_events --against ../main                # --rounds 100

Each hub is a process of its own with one cluster of one broker, and nobody looks at its events. A producer of
confluent-kafka commits transactions of one record at each, a few at a time; the ratio of a round is that of this
checkout to the other one, and what is printed is the median of the rounds. Both checkouts run with this interpreter and
its packages; the messages of the other one must have been generated (`make check` there).
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

from bench.hub import Caller, running_hub
from bench.transactions.confluent import Load

__all__ = ["main"]

AT_A_TIME = 50
HERE = Path(__file__).parents[1]


class Side:
    """A hub of a checkout, with a producer at its cluster."""

    def __init__(self, exits: ExitStack, checkout: Path) -> None:
        self._pid, url = exits.enter_context(running_hub(checkout / "broker"))
        made = Caller(url).call("POST", "/clusters", {"topics": ["t"]})
        self._load = Load(made["bootstrap"], "t", 1, 1)
        exits.callback(self._close)

    def spent_s(self) -> tuple[float, float]:
        """Time of a few transactions, and processor time of the hub."""
        began, cpu = time.perf_counter(), self._cpu_s()
        for _ in range(AT_A_TIME):
            self._load.transaction()
        return time.perf_counter() - began, self._cpu_s() - cpu

    def _close(self) -> None:
        del self._load.producer  # before its broker goes, which it would complain of

    def _cpu_s(self) -> float:
        clock = Path(f"/proc/{self._pid}/schedstat").read_text().split()
        return int(clock[0]) / 1e9


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True, help="another checkout of the repository")
    parser.add_argument("--rounds", type=int, default=60, help=f"of {AT_A_TIME} transactions at each hub")
    given = parser.parse_args()
    with ExitStack() as exits:
        here, there = Side(exits, HERE), Side(exits, given.against.absolute())
        for _ in range(10):  # the rings of both are full
            here.spent_s(), there.spent_s()
        pairs = []
        for number in range(given.rounds):
            first, second = (here, there) if number % 2 else (there, here)
            took = {id(side): side.spent_s() for side in (first, second)}
            pairs.append((took[id(here)], took[id(there)]))
    rate = statistics.median(other[0] / own[0] for own, other in pairs)
    cpu = statistics.median(own[1] / other[1] for own, other in pairs)
    total = sum(other[0] for _, other in pairs) / sum(own[0] for own, _ in pairs)
    print(f"ratio of this checkout to the other: {rate:.3f} in transactions a second ({total:.3f} over all rounds)")
    print(f"{cpu:.3f} in processor time of the hub")


if __name__ == "__main__":
    main()
