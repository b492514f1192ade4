"""End this process when its parent process is gone, whatever the reason."""

from __future__ import annotations

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
    """From now on the end of standard input is a SIGTERM; if the process still runs a while later, a SIGKILL.

    Called when the process handles SIGTERM; standard input may have ended before. The kernel closes the parent's end of
    the pipe even if the parent was killed.
    """
    threading.Thread(target=_watch, name="until-stdin-ends", daemon=True).start()


def end_with_parent() -> None:
    """From now on this process ends with the process that started it by `multiprocessing`.

    Otherwise a worker of a pool whose parent was killed would wait for its next task for ever.
    """
    threading.Thread(target=_outlive_nobody, name="until-the-parent-ends", daemon=True).start()


def _outlive_nobody() -> None:
    import multiprocessing  # a process that it started has imported it, and no other needs it

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
