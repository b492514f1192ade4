"""A process that ends when the one that started it is gone, however that came about."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import Annotated

from odradek.cli.commands import Option

__all__ = ["FLAG", "UntilStdinEnds", "end_with_parent", "end_with_stdin"]

FLAG = "--until-stdin-ends"
UntilStdinEnds = Annotated[
    bool, Option(help="End when standard input does: a pipe whose other end the parent holds, until it ends itself.")
]
GRACE_S = 10.0
STDIN = 0


def end_with_stdin() -> None:
    """From now on the end of standard input is a SIGTERM, and a while later, where that did not help, a SIGKILL.

    Called when the process heeds SIGTERM: standard input may have ended before.
    The kernel closes the parent's end of the pipe, so that not even its SIGKILL leaves this process behind.
    """
    threading.Thread(target=_watch, name="until-stdin-ends", daemon=True).start()


def end_with_parent() -> None:
    """From now on the end of the process that has begun this one by `multiprocessing` is its end, too.

    Without that a process of a pool whose parent is killed waits for ever for what there is to do next.
    """
    threading.Thread(target=_outlive_nobody, name="until-the-parent-ends", daemon=True).start()


def _outlive_nobody() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process was begun by hand"
    parent.join()
    os._exit(1)


def _watch() -> None:
    while os.read(STDIN, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
