"""A disk in memory, for tests of what is done with files: a process that is killed leaves what it had written."""

from __future__ import annotations

from collections.abc import Callable

from odradek.log.disk import DiskError


class MemoryFile:
    def __init__(self, disk: MemoryDisk, name: str, data: bytearray) -> None:
        self._disk, self._name, self._data = disk, name, data
        self.buffer = memoryview(data)

    def reserve(self, end: int) -> int:
        if self._disk.is_full:
            raise DiskError("No space left on device")
        return end

    def flush(self) -> None:
        self._disk.flushed.append(self._name)

    def cut(self, size: int) -> None:
        self._disk.sizes[self._name] = size


class MemoryDisk:
    """See `odradek.log.disk.Disk`."""

    def __init__(self) -> None:
        self.data: dict[str, bytearray] = {}
        self.sizes: dict[str, int] = {}
        self.made: set[str] = set()
        self.warnings: list[tuple[str, str]] = []
        self.works: list[Callable[[], None]] = []
        self.flushed: list[str] = []
        self.read_names: list[str] = []
        self.is_full = False

    def killed(self) -> MemoryDisk:
        """What the next process finds when this one is killed now."""
        after = MemoryDisk()
        after.data = {name: bytearray(self.content(name)) for name in self.data}
        after.sizes = {name: len(data) for name, data in after.data.items()}
        after.made = set(self.made)
        return after

    def content(self, name: str) -> bytes:
        return bytes(self.data[name][: self.sizes[name]])

    def put(self, name: str, data: bytes) -> None:
        self.data[name], self.sizes[name] = bytearray(data), len(data)

    def folders(self) -> list[str]:
        return sorted(self.made)

    def files(self, folder: str) -> dict[str, int]:
        found = {}
        for name in self.data:
            parent, _, own = name.rpartition("/")
            if parent == folder:
                found[own] = self.sizes[name]
        return found

    def read(self, name: str) -> bytes | None:
        return self.content(name) if name in self.data else None

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        self.put(name, data)

    def map(self, name: str, capacity: int, *, until: int = 0) -> MemoryFile:
        old = self.content(name)[:capacity] if name in self.data else b""
        self.put(name, old + bytes(capacity - len(old)))
        return MemoryFile(self, name, self.data[name])

    def map_to_read(self, name: str) -> memoryview:
        self.read_names.append(name)
        return memoryview(self.content(name))

    def make_folder(self, name: str) -> None:
        self.made.add(name)

    def rename(self, old: str, new: str) -> None:
        if old in self.made:
            self.made.discard(old)
            self.made.add(new)
            for name in [name for name in self.data if name.startswith(f"{old}/")]:
                self.rename(name, new + name.removeprefix(old))
            return
        self.data[new], self.sizes[new] = self.data.pop(old), self.sizes.pop(old)

    def remove(self, name: str) -> None:
        self.made.discard(name)
        for each in [each for each in self.data if each == name or each.startswith(f"{name}/")]:
            del self.data[each], self.sizes[each]

    def warn(self, name: str, reason: str) -> None:
        self.warnings.append((name, reason))

    def later(self, work: Callable[[], None]) -> None:
        self.works.append(work)

    def work(self) -> None:
        works, self.works = self.works, []
        for work in works:
            work()
