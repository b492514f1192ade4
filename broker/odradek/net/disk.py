"""A directory of the machine, as the logs of a cluster use it (`odradek.log.disk`)."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from odradek.broker import Logger

__all__ = ["DirectoryLock", "LocalDisk", "LocalFile"]

RESERVED_BYTES = 1024 * 1024
"""So much of a file is reserved at a time: a full disk is noticed there, and not by a write to memory."""
_RESERVE: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
"""Not on macOS, where a full disk ends the process in a write to memory."""
_POPULATE_WRITE: int = 23
"""MADV_POPULATE_WRITE (Linux 5.14): the pages of a piece are made at once, not one fault at a time."""


def _sentence(error: OSError, path: str) -> DiskError:
    return DiskError(f"{path}: {error.strerror or error}")


class LocalFile:
    """A file that is mapped into memory, and may be written to."""

    def __init__(self, path: str, capacity: int, *, until: int) -> None:
        self.path = path
        self._reserved = 0
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if os.fstat(descriptor).st_size != capacity:
                    os.ftruncate(descriptor, capacity)
                self._mapping = mmap.mmap(descriptor, capacity)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _sentence(error, path) from None
        self.buffer = memoryview(self._mapping)
        self._reserved = until - until % RESERVED_BYTES

    def reserve(self, end: int) -> int:
        """See `MappedFile`."""
        start = self._reserved
        wanted = min(len(self.buffer), end + RESERVED_BYTES - 1 - (end - 1) % RESERVED_BYTES)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _RESERVE is not None:
                    _RESERVE(descriptor, start, wanted - start)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _sentence(error, self.path) from None
        with suppress(OSError, ValueError):  # an older kernel: each page costs a fault when it is first written to
            self._mapping.madvise(_POPULATE_WRITE, start, wanted - start)
        self._reserved = wanted
        return wanted

    def flush(self) -> None:
        """See `MappedFile`."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            pass  # retention has taken it meanwhile
        except OSError as error:
            raise _sentence(error, self.path) from None

    def cut(self, size: int) -> None:
        """See `MappedFile`."""
        try:
            os.truncate(self.path, size)
        except OSError as error:
            raise _sentence(error, self.path) from None


class LocalDisk:
    """A directory on a disk of the machine; see `Disk`."""

    def __init__(self, path: Path, log: Logger) -> None:
        self.path = path
        self._root = os.fspath(path)
        self._log = log
        self._worker = ThreadPoolExecutor(1, "disk")

    def _full(self, name: str) -> str:
        return f"{self._root}/{name}"

    def folders(self) -> list[str]:
        """See `Disk`."""
        try:
            with os.scandir(self._root) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            raise _sentence(error, self._root) from None

    def files(self, folder: str) -> dict[str, int]:
        """See `Disk`."""
        path = self._full(folder)
        try:
            with os.scandir(path) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _sentence(error, path) from None

    def read(self, name: str) -> bytes | None:
        """See `Disk`."""
        path = self._full(name)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _sentence(error, path) from None

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        """See `Disk`."""
        path = self._full(name)
        aside = f"{path}.tmp"
        try:
            with open(aside, "wb") as file:
                file.write(data)
                if flush:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError as error:
            raise _sentence(error, path) from None

    def map(self, name: str, capacity: int, *, until: int = 0) -> LocalFile:
        """See `Disk`."""
        return LocalFile(self._full(name), capacity, until=until)

    def map_to_read(self, name: str) -> memoryview:
        """See `Disk`."""
        path = self._full(name)
        try:
            with open(path, "rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise _sentence(error, path) from None

    def make_folder(self, name: str) -> None:
        """See `Disk`."""
        path = self._full(name)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise _sentence(error, path) from None

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        try:
            os.replace(self._full(old), self._full(new))
        except OSError as error:
            raise _sentence(error, self._full(old)) from None

    def remove(self, name: str) -> None:
        """See `Disk`."""
        path = self._full(name)
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _sentence(error, path) from None

    def warn(self, name: str, reason: str) -> None:
        """See `Disk`."""
        self._log.warning("file_damaged", file=self._full(name), reason=reason)

    def later(self, work: Callable[[], None]) -> None:
        """See `Disk`."""
        self._worker.submit(self._do, work)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DiskError as error:
            self._log.error("disk_failed", reason=str(error))

    def close(self) -> None:
        """Wait for what was to be done later."""
        self._worker.shutdown()


class DirectoryLock:
    """The lock on a directory: `.lock`, as Kafka's `FileLock` takes it, which the end of a process gives up."""

    _held: set[str] = set()  # noqa: RUF012 - a lock of POSIX belongs to the process, so this does, too

    def __init__(self, path: Path, name: str) -> None:
        """Take it. Raises `DiskError` if another process has it, or another cluster of this one."""
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
        """Give it up."""
        self._held.discard(self._key)
        os.close(self._descriptor)
