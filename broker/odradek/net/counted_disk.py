"""A disk whose calls go through whoever keeps its answers, or gives them again.

What a disk reads follows from what was written to it. How much room it has does not, nor whether it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from odradek.log.disk import MappedFile
    from odradek.net.disk import LocalDisk

__all__ = ["CountedDisk"]

T = TypeVar("T")


class CountedDisk:
    """A directory of the machine; see `Disk`. A subclass says how it is asked."""

    def __init__(self, disk: LocalDisk) -> None:
        self._disk = disk
        self.warn = disk.warn

    def ask(self, act: Callable[[], T]) -> T:
        """Make a call of the disk. Raises its `DiskError`."""
        return act()

    def ask_space(self, act: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """Make the call whose result clients are told."""
        return self.ask(act)

    def folders(self) -> list[str]:
        return self.ask(self._disk.folders)

    def files(self, folder: str) -> dict[str, int]:
        return self.ask(partial(self._disk.files, folder))

    def read(self, name: str) -> bytes | None:
        return self.ask(partial(self._disk.read, name))

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        self.ask(partial(self._disk.write, name, data, flush=flush))

    def sync(self, *names: str) -> None:
        self.ask(partial(self._disk.sync, *names))

    def map(self, name: str, capacity: int, *, until: int = 0) -> MappedFile:
        return _CountedFile(self.ask(partial(self._disk.map, name, capacity, until=until)), self)

    def map_to_read(self, name: str) -> memoryview:
        return self.ask(partial(self._disk.map_to_read, name))

    def are_unchanged(self, *names: str, since: str) -> bool:
        """No: the times of a copy are others, and it is to be read with the same calls."""
        return False

    def modified(self, name: str) -> int | None:
        """Unknown, for the same reason."""
        return None

    def space(self) -> tuple[int, int]:
        return self.ask_space(self._disk.space)

    def make_folder(self, name: str) -> None:
        self.ask(partial(self._disk.make_folder, name))

    def rename(self, old: str, new: str) -> None:
        self.ask(partial(self._disk.rename, old, new))

    def remove(self, name: str) -> None:
        self.ask(partial(self._disk.remove, name))

    def complete(self, *names: str) -> None:
        self.ask(partial(self._disk.complete, *names))

    def later(self, work: Callable[[], None]) -> None:
        """Do it at once: when another thread ends it would be one more thing that comes from outside."""
        self._disk.do(work)


class _CountedFile:
    """A mapped file; see `MappedFile`."""

    def __init__(self, file: MappedFile, disk: CountedDisk) -> None:
        self._file = file
        self._disk = disk

    @property
    def buffer(self) -> memoryview:
        return self._file.buffer

    def reserve(self, end: int) -> int:
        return self._disk.ask(partial(self._file.reserve, end))

    def cut(self, size: int) -> None:
        self._disk.ask(partial(self._file.cut, size))
