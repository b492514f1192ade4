"""The entry point of `odradek`: from the command line to an exit code.

This module imports next to nothing, so that Ctrl-C during the imports of a start ends it without a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper

from odradek import __version__
from odradek.cli.imports import NoCollections, find_sources_first, let_modules_wait
from odradek.cli.usage import Unmet, UsageError

__all__ = ["main"]

CANNOT, UNMET = 2, 3
INTERRUPTED = 128 + 2
"""The exit code after SIGINT."""
PIPE_CLOSED = 128 + 13
"""The exit code after SIGPIPE."""
NO_PLACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""Errors of writing to standard output that are not bugs: a closed pipe, a full disk."""


def main() -> None:
    """Run the command; a mistake of the user ends in one sentence and exit code 2."""
    code = _code_of(_run)
    # The interpreter also flushes at its end, and would print a traceback if the output cannot be written.
    sys.exit(code or _code_of(sys.stdout.flush))


def _run() -> None:
    _open_standard_streams()
    words = sys.argv[1:]
    if words == ["--version"]:
        print(f"odradek {__version__}")
        return
    find_sources_first()
    if words[:1] == ["serve"]:
        let_modules_wait()
    with NoCollections():
        from odradek.cli.all_commands import commands_for

        commands = commands_for(words[0] if words else None)
    commands.run(words)


def _open_standard_streams() -> None:
    """Open the null device for closed standard streams; otherwise the next socket would get their file number."""
    sys.stdin = sys.stdin or _null(writes=False)
    sys.stdout = sys.stdout or _null(writes=True)
    sys.stderr = sys.stderr or _null(writes=True)


def _null(*, writes: bool) -> TextIOWrapper:
    descriptor = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(descriptor, True)
    return open(descriptor, "w" if writes else "r")


def _code_of(part: Callable[[], object]) -> int:
    try:
        part()
    except SystemExit as ended:
        return _number(ended)
    except BaseException as error:
        ends = [_end(each) for each in _leaves(error)]
        if None in ends:
            raise
        _flush_or_give_up()
        code, sentence = next(end for end in ends if end is not None)
        if sentence:
            print(f"odradek: {sentence}", file=sys.stderr)
        return code
    return 0


def _number(ended: SystemExit) -> int:
    return ended.code if isinstance(ended.code, int) else 0


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _end(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the sentence for an exception that ended a command; None for a bug."""
    match error:
        case SystemExit():
            return _number(error), ""
        case KeyboardInterrupt():
            return INTERRUPTED, ""
        case BrokenPipeError():
            return PIPE_CLOSED, ""
        case UsageError():
            return UNMET if isinstance(error, Unmet) else CANNOT, str(error)
        case OSError() if error.filename is not None:
            return CANNOT, f"{os.fsdecode(error.filename)}: {error.strerror}."
        case OSError() if error.errno in NO_PLACE:
            return CANNOT, f"What is told cannot be written: {error.strerror}."
        case _:
            return None


def _flush_or_give_up() -> None:
    """Discard the rest of the output, which nobody reads or which has no space: the interpreter would write it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
