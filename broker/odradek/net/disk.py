"""A directory of the machine as the disk of a cluster's logs (`odradek.log.disk`)."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.disk import DiskError
from odradek.log.files.names import read_segment_file

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.log.found_log import FoundBefore

__all__ = ["DirectoryLock", "LocalDisk", "LocalFile"]

MAPPED_BYTES = 16 * 1024 * 1024
"""A file is mapped up to here at first, and then up to twice as far whenever its mapping is full."""
FIRST_RESERVED_BYTES = 64 * 1024
RESERVED_BYTES = 1024 * 1024
"""Bytes of a file that are reserved at a time: a full disk is noticed there, and not by a write to memory.

First and at most; in between as many as there are already, because the pages of most logs are never written to.
"""
_ZEROS = memoryview(bytes(RESERVED_BYTES))
_RESERVE: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
"""Reserves bytes on the disk in one piece; macOS has no such call."""
_SYNC: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_SEEK_HOLE: int | None = getattr(os, "SEEK_HOLE", None)
SYNCS_AT_ONCE = 16
_ONE_BY_ONE: int | None = getattr(mmap, "MADV_RANDOM", None)
"""Else the first page of a file brings as many others as the device reads ahead, up to megabytes for each log."""
_IN_ADVANCE: int | None = getattr(mmap, "MADV_NORMAL", None)
"""The pages of a large log are made for less together."""


Fail = Callable[[OSError, str], DiskError]
"""Makes the error of a call that failed at a path."""


def _end_of_data(descriptor: int) -> int:
    """Where the bytes of a file end that were written: a process that was killed leaves room that was not."""
    size, end = os.fstat(descriptor).st_size, 0
    if _SEEK_DATA is None or _SEEK_HOLE is None:
        return size
    try:
        while end < size:
            end = os.lseek(descriptor, os.lseek(descriptor, end, _SEEK_DATA), _SEEK_HOLE)
    except OSError as error:
        # ENXIO: there are only holes from here on. Other file systems do not know.
        return end if error.errno == errno.ENXIO else size
    return size


class LocalFile:
    """A file that is mapped into memory, and may be written to. It grows as it is written, up to its capacity."""

    def __init__(self, path: str, capacity: int, *, until: int, fail: Fail) -> None:
        self.path = path
        self._fail = fail
        self._capacity = capacity
        self._reserved = until
        self._map(min(capacity, max(MAPPED_BYTES, until)))

    def _map(self, size: int) -> None:
        """Let the file and its mapping be of this size; readers of the mapping before see the same pages."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if os.fstat(descriptor).st_size != size:
                    os.ftruncate(descriptor, size)
                self._mapping = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._fail(error, self.path) from None
        self.buffer = memoryview(self._mapping)
        self._advise(_ONE_BY_ONE if self._reserved < RESERVED_BYTES else _IN_ADVANCE)

    def _advise(self, advice: int | None) -> None:
        if advice is not None:
            with suppress(OSError):  # advice only
                self._mapping.madvise(advice)

    def reserve(self, end: int) -> int:
        start = self._reserved
        if end > len(self.buffer):
            self._map(min(self._capacity, max(end, 2 * len(self.buffer))))
        piece = min(RESERVED_BYTES, max(FIRST_RESERVED_BYTES, start - start % FIRST_RESERVED_BYTES))
        wanted = min(len(self.buffer), end + piece - 1 - (end - 1) % piece)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _RESERVE is not None:
                    _RESERVE(descriptor, start, wanted - start)
                # A write makes pages by the dozen; the first touch of a mapped page makes that page alone.
                while start < wanted:
                    start += os.pwrite(descriptor, _ZEROS[: wanted - start], start)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._fail(error, self.path) from None
        if self._reserved < RESERVED_BYTES <= wanted:
            self._advise(_IN_ADVANCE)
        self._reserved = wanted
        return wanted

    def cut(self, size: int) -> None:
        try:
            os.truncate(self.path, size)
        except OSError as error:
            raise self._fail(error, self.path) from None


class LocalDisk:
    """A directory on a disk of the machine; see `Disk`."""

    def __init__(self, path: Path, log: Logger) -> None:
        self.path = path
        self._root = os.fspath(path)
        self._log = log
        self._worker = ThreadPoolExecutor(1, "disk")
        self.waits_for_device = True
        """Whether what is to outlive the machine is on the device before work goes on."""
        self.reports = False
        """Whether failures are logged; before, the first one is kept: a start is refused for it."""
        self.failure = ""
        self._reported: set[str] = set()

    def _failed(self, error: OSError, path: str) -> DiskError:
        """The error of a failed call, which is logged: once for each reason, as a full disk fails many requests."""
        reason = f"{path}: {error.strerror or error}"
        if not self.reports:
            self.failure = self.failure or reason
        elif reason not in self._reported:
            self._reported.add(reason)
            self._log.error("disk_failed", reason=reason)
        return DiskError(reason)

    @property
    def before(self) -> FoundBefore | None:
        """The logs that other forks of the same snapshot have found."""
        return None

    def make_rest(self) -> None:
        """Have all files in the directory: those of a fork may still lie in its snapshot."""

    def begun(self) -> None:
        """The logs were opened, and change from now on."""

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}"

    def folders(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            raise self._failed(error, self._root) from None

    def files(self, folder: str) -> dict[str, int]:
        path = self._full(folder)
        try:
            with os.scandir(path) as entries:
                found = {entry.name: entry.stat().st_size if entry.is_file() else -1 for entry in entries}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._failed(error, path) from None
        for name, size in found.items():
            if size < 0 and read_segment_file(name) is not None:
                raise DiskError(f"{path}/{name} is no file, or a link to none")
        return {name: found[name] for name in sorted(found) if found[name] >= 0}

    def read(self, name: str) -> bytes | None:
        path = self._full(name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error, path) from None

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        path = self._full(name)
        aside = f"{path}.tmp"
        try:
            with open(aside, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                if flush and self.waits_for_device:
                    os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError as error:
            raise self._failed(error, path) from None
        if flush:
            self.sync(name.rpartition("/")[0])

    def sync(self, *names: str) -> None:
        if not self.waits_for_device:
            return
        if len(names) < SYNCS_AT_ONCE:
            for name in names:
                self._sync(name)
            return
        # What is asked for at the same time a file system writes down together.
        with ThreadPoolExecutor(SYNCS_AT_ONCE, "sync") as workers:
            list(workers.map(self._sync, names))

    def _sync(self, name: str) -> None:
        path = self._full(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _SYNC(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            pass  # retention has deleted it meanwhile
        except OSError as error:
            raise self._failed(error, path) from None

    def map(self, name: str, capacity: int, *, until: int = 0) -> LocalFile:
        return LocalFile(self._full(name), capacity, until=until, fail=self._failed)

    def map_to_read(self, name: str) -> memoryview:
        path = self._full(name)
        try:
            with open(path, "rb") as file:
                size = _end_of_data(file.fileno())
                if not size:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        except OSError as error:
            raise self._failed(error, path) from None

    def are_unchanged(self, *names: str, since: str) -> bool:
        path = self._full(since)
        try:
            latest = os.stat(path).st_mtime_ns
            for name in names:
                path = self._full(name)
                if os.stat(path).st_mtime_ns > latest:
                    return False
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(error, path) from None
        return True

    def modified(self, name: str) -> int | None:
        path = self._full(name)
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error, path) from None

    def space(self) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(self._root)
        except OSError as error:
            raise self._failed(error, self._root) from None
        return usage.total, usage.free

    def make_folder(self, name: str) -> None:
        path = self._full(name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise self._failed(error, path) from None

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(self._full(old), self._full(new))
        except OSError as error:
            raise self._failed(error, self._full(old)) from None

    def remove(self, name: str) -> None:
        path = self._full(name)
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._failed(error, path) from None

    def complete(self, *names: str) -> None:
        """See `Disk`: nothing was left out here."""

    def warn(self, name: str, reason: str) -> None:
        self._log.warning("file_damaged", file=self._full(name), reason=reason)

    def later(self, work: Callable[[], None]) -> None:
        self._worker.submit(self.do, work)

    def do(self, work: Callable[[], None]) -> None:
        """Do it now; an error is logged."""
        with suppress(DiskError):  # it is in the log
            work()

    def close(self) -> None:
        """Wait for work that was put off."""
        self._worker.shutdown()


class DirectoryLock:
    """The lock on a directory: `.lock`, as Kafka's `FileLock` takes it; it ends with the process."""

    _held: set[str] = set()  # noqa: RUF012 - a lock of POSIX belongs to the process, so this does, too

    def __init__(self, path: Path, name: str) -> None:
        """Take the lock. Raises `DiskError` if another process has it, or another cluster of this one."""
        self._key = os.path.realpath(path)
        if self._key in self._held:
            raise DiskError(f"another cluster of this process uses {path}")
        try:
            self._descriptor = os.open(path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DiskError(f"{path} cannot be written to ({error.strerror})") from None
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise DiskError(f"another process uses {path}: it has locked {name}") from None
        self._held.add(self._key)

    def release(self) -> None:
        self._held.discard(self._key)
        os.close(self._descriptor)
