"""SIGTERM and SIGINT as an event to wait on."""

from __future__ import annotations

import signal
import threading

__all__ = ["stop_signal"]


def stop_signal() -> threading.Event:
    """Set by the first SIGTERM or SIGINT; a second SIGINT ends the process as usual."""
    stopped = threading.Event()

    def stop(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped
