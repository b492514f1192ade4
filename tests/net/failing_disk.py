"""A disk of the machine whose calls fail: every call that changes something is counted, and chosen ones raise."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from odradek.net import disk as real

__all__ = ["EIO", "ENOSPC", "FailingCalls", "failing_calls"]

EIO, ENOSPC = errno.EIO, errno.ENOSPC
NEEDS_SPACE = frozenset({"write", "open", "reserve", "makedirs"})
"""Calls that a full disk refuses."""
MAPPED_BYTES = 64 * 1024
"""Files are mapped up to here at first, so that a copy of a directory is small."""


class FailingCalls:
    """Counts the calls, and has some fail with this error: the one of a number, or all from that one on."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[str] = []
        self._number = self._error = 0
        self._stays = False

    def fail(self, number: int, error: int, *, stays: bool) -> None:
        """Let the call of this number fail, counted from 1."""
        self._number, self._error, self._stays = number, error, stays

    def heal(self) -> None:
        self._number = 0

    def call(self, name: str) -> None:
        """Count a call; raises OSError if it is to fail."""
        self.count += 1
        if not self._number or self.count < self._number or (self.count > self._number and not self._stays):
            return
        if self._error == ENOSPC and name not in NEEDS_SPACE:
            if self.count == self._number:
                self._number += 1
            return
        self.failed.append(name)
        raise OSError(self._error, os.strerror(self._error))

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.call(name)
            return call(*arguments, **named)

        return counted

    def open(self, path: str, mode: str = "r", buffering: int = -1) -> IO[Any]:
        """`open`, whose file counts writes."""
        if "w" not in mode:
            return open(path, mode, buffering)
        self.call("open")
        file = open(path, mode, buffering)  # noqa: SIM115
        return _CountedFile(file, self)  # type: ignore[return-value]


class _CountedFile:
    def __init__(self, file: IO[Any], calls: FailingCalls) -> None:
        self._file, self._calls = file, calls

    def __enter__(self) -> _CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: memoryview) -> int:
        """Write one half, and count: a write without a buffer may end early."""
        written = self._file.write(data[: len(data) // 2])
        self._calls.call("write")
        return written + self._file.write(data[written:])

    def fileno(self) -> int:
        return self._file.fileno()


class _Os:
    """The module `os`, with counted calls."""

    def __init__(self, calls: FailingCalls) -> None:
        for name in ("fsync", "replace", "unlink", "truncate", "ftruncate", "makedirs", "pwrite"):
            setattr(self, name, calls.counted(name, getattr(os, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def failing_calls() -> Iterator[FailingCalls]:
    """All clusters that start in here are on such a disk."""
    calls = FailingCalls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "os", _Os(calls))
        patch.setattr(real, "open", calls.open, raising=False)
        patch.setattr(real, "_RESERVE", calls.counted("reserve", os.posix_fallocate))
        patch.setattr(real, "_SYNC", calls.counted("fsync", os.fdatasync))
        patch.setattr(real, "MAPPED_BYTES", MAPPED_BYTES)
        yield calls
