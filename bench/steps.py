"""`odradek serve`, which at its end writes its longest step to its standard error, in ms of a processor.

    python -m bench.steps --port 0 --topic t:10

Nobody else is served while a step lasts. By the clock a step takes longer on a machine with other work: by as long as
it has to wait for a processor. Steps before the first connection do not count.
"""

from __future__ import annotations

import atexit
import sys
from time import thread_time_ns

from odradek.cli.main import main
from odradek.host.events import Connected, Event
from odradek.net.driver import Driver

__all__: list[str] = []

longest = (0, "none")
"""Nanoseconds of a processor that the longest step took, and its event."""
step = Driver.step
is_connected = False


def measured(self: Driver, event: Event) -> None:
    """A step of the driver, with the sends that it leads to."""
    global is_connected, longest
    is_connected = is_connected or isinstance(event, Connected)
    began = thread_time_ns()
    step(self, event)
    if is_connected:
        longest = max(longest, (thread_time_ns() - began, type(event).__name__))


def tell() -> None:
    """Write the longest step."""
    taken, event = longest
    print(f"{taken / 1e6:.1f} ({event})", file=sys.stderr)


if __name__ == "__main__":
    Driver.step = measured  # type: ignore[method-assign]
    atexit.register(tell)
    sys.argv[1:1] = ["serve"]
    main()
