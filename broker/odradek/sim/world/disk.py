"""A disk in memory that loses unsynced data, as a real one does when its machine crashes.

Model of a file system with a journal (ext4, XFS): names and sizes change in one order for the whole disk, and a crash
keeps a beginning of that order; a sync of a folder writes all of them. The bytes of a file go to the device by pages,
each at any time: of unsynced pages a crash keeps none, all, a beginning, or any, some of them torn between sectors.
Files are independent of each other. A file that `write` created without `flush` may exist with no bytes, or some: its
name is in the journal, its bytes are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from odradek.log.disk import DiskError
from odradek.sim.world.dice import Dice

__all__ = ["SimDisk"]

MAPPED_BYTES = 16 * 1024
"""A file grows from here, so that small runs grow files, too."""
PAGE_BYTES = 4096
VOLUME_BYTES = 1 << 40
SECTOR_BYTES = 512


class _Bytes:
    """The bytes of a file, whatever its name: in the page cache, and on the device."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.size = len(data)
        """The end of the file; bytes behind it are not used."""
        self.safe = b""
        """The content that a sync has brought to the device."""
        self.changed = 0
        """When it was written to: the number of that change of the disk."""

    @property
    def content(self) -> bytes:
        return bytes(self.data[: self.size])


class _Tree:
    """Names, and the files that they belong to."""

    def __init__(self) -> None:
        self.files: dict[str, _Bytes] = {}
        self.sizes: dict[_Bytes, int] = {}
        """Sizes that were set, of files that have not ended since."""
        self.folders: set[str] = set()

    def put(self, name: str, data: _Bytes) -> None:
        self.files[name] = data

    def resize(self, data: _Bytes, size: int) -> None:
        self.sizes[data] = size

    def make(self, name: str) -> None:
        self.folders.add(name)

    def rename(self, old: str, new: str) -> None:
        if old in self.folders:
            self.folders.remove(old)
            self.folders.add(new)
            for name in [name for name in self.files if name.startswith(f"{old}/")]:
                self.files[new + name.removeprefix(old)] = self.files.pop(name)
            return
        self.files[new] = self.files.pop(old)

    def remove(self, name: str) -> None:
        self.folders.discard(name)
        for each in [each for each in self.files if each == name or each.startswith(f"{name}/")]:
            del self.files[each]


class SimFile:
    """See `odradek.log.disk.MappedFile`."""

    def __init__(self, disk: SimDisk, data: _Bytes, capacity: int) -> None:
        self._disk, self._data, self._capacity = disk, data, capacity
        self.buffer = memoryview(data.data)

    def reserve(self, end: int) -> int:
        if self._disk.is_full:
            raise DiskError("No space left on device")
        if end > len(self.buffer):
            size = min(self._capacity, max(end, 2 * len(self.buffer)))
            # Readers have views of the bytes, so the buffer cannot grow.
            self._data.data = self._data.data + bytes(size - len(self.buffer))
            self._disk.resize(self._data, size)
            self.buffer = memoryview(self._data.data)
        return end

    def cut(self, size: int) -> None:
        self._disk.resize(self._data, size)


class SimDisk:
    """See `odradek.log.disk.Disk`."""

    def __init__(self) -> None:
        self._now = _Tree()
        self._safe = _Tree()
        self._journal: list[tuple[_Bytes | None, Callable[[_Tree], None]]] = []
        """Changes of names, and of the size of a file, that no sync has written down, in order."""
        self.synced: list[str] = []
        """Synced names, in order."""
        self.warnings: list[tuple[str, str]] = []
        self.works: list[Callable[[], None]] = []
        """Work that is put off."""
        self.read_names: list[str] = []
        self._changes = 0
        self.is_full = False
        self.is_broken = False
        """Whether a sync fails."""

    def killed(self) -> SimDisk:
        """The disk as the next process finds it when this one is killed now: everything written is there."""
        return self._left(self._now, lambda data, size: data.content)

    def crashed(self, random: Dice) -> SimDisk:
        """The disk as the next process finds it when the machine crashes now."""
        tree = _Tree()
        tree.files, tree.sizes, tree.folders = dict(self._safe.files), dict(self._safe.sizes), set(self._safe.folders)
        kept = random.choice((0, len(self._journal), int(random.random() * (len(self._journal) + 1))))
        for _, change in self._journal[:kept]:
            change(tree)
        return self._left(tree, partial(_torn, random=random))

    def _left(self, tree: _Tree, content: Callable[[_Bytes, int | None], bytes]) -> SimDisk:
        """A disk on which everything that is there is on the device."""
        after = SimDisk()
        for name, data in tree.files.items():
            after.put(name, content(data, tree.sizes.get(data)))
            after._now.files[name].changed = data.changed
        after._changes = self._changes
        after._now.folders = set(tree.folders)
        after._write_down()
        for data in after._now.files.values():
            data.safe = data.content
        return after

    def put(self, name: str, data: bytes) -> None:
        """Have a file with these bytes, which are not on the device."""
        there = _Bytes(data)
        self._note_change(there)
        self._change(lambda tree: tree.put(name, there))

    def content(self, name: str) -> bytes:
        """The bytes of a file as a process sees them."""
        return self._now.files[name].content

    def names(self) -> Iterator[str]:
        """Names of all files."""
        return iter(self._now.files)

    def resize(self, data: _Bytes, size: int) -> None:
        """Let a file end here."""
        data.size = size
        self._note_change(data)
        self._change(lambda tree: tree.resize(data, size), of=data)

    def _note_change(self, data: _Bytes) -> None:
        self._changes += 1
        data.changed = self._changes

    def work(self) -> None:
        """Do the work that was put off."""
        works, self.works = self.works, []
        for each in works:
            each()

    def _change(self, change: Callable[[_Tree], None], *, of: _Bytes | None = None) -> None:
        change(self._now)
        self._journal.append((of, change))

    def _write_down(self) -> None:
        self._journal.clear()
        self._safe.files = dict(self._now.files)
        self._safe.sizes = dict(self._now.sizes)
        self._safe.folders = set(self._now.folders)

    def folders(self) -> list[str]:
        return sorted(self._now.folders)

    def files(self, folder: str) -> dict[str, int]:
        found = {}
        for name, data in self._now.files.items():
            parent, _, own = name.rpartition("/")
            if parent == folder:
                found[own] = data.size
        return found

    def read(self, name: str) -> bytes | None:
        return self.content(name) if name in self._now.files else None

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        self.put(f"{name}.tmp", data)
        if flush:
            self.sync(f"{name}.tmp")
        self.rename(f"{name}.tmp", name)
        if flush:
            self.sync(name.rpartition("/")[0])

    def sync(self, *names: str) -> None:
        if self.is_broken:
            raise DiskError("Input/output error")
        for name in names:
            self._sync(name)

    def _sync(self, name: str) -> None:
        self.synced.append(name)
        data = self._now.files.get(name)
        if not name or name in self._now.folders:
            self._write_down()
        elif data is not None:
            data.safe = data.content
            # With its bytes a file's size is written down.
            self._safe.sizes[data] = data.size
            self._journal = [each for each in self._journal if each[0] is not data]

    def map(self, name: str, capacity: int, *, until: int = 0) -> SimFile:
        data = self._now.files.get(name)
        if data is None:
            data = _Bytes(b"")
            self._change(lambda tree: tree.put(name, data))
        # Readers have views of the bytes, so the buffer cannot grow.
        size = min(capacity, max(MAPPED_BYTES, until))
        data.data = data.data[: min(data.size, size)] + bytes(max(0, size - data.size))
        self.resize(data, size)
        return SimFile(self, data, capacity)

    def map_to_read(self, name: str) -> memoryview:
        self.read_names.append(name)
        return memoryview(self.content(name))

    def are_unchanged(self, *names: str, since: str) -> bool:
        files = self._now.files
        return all(name in files for name in (since, *names)) and all(
            files[name].changed <= files[since].changed for name in names
        )

    def modified(self, name: str) -> int | None:
        """Unknown: its times are an order, and no clock's."""
        return None

    def space(self) -> tuple[int, int]:
        used = sum(data.size for data in self._now.files.values())
        return VOLUME_BYTES, VOLUME_BYTES - used

    def make_folder(self, name: str) -> None:
        if name not in self._now.folders:
            self._change(lambda tree: tree.make(name))

    def rename(self, old: str, new: str) -> None:
        self._change(lambda tree: tree.rename(old, new))

    def remove(self, name: str) -> None:
        self._change(lambda tree: tree.remove(name))

    def complete(self, *names: str) -> None:
        """See `Disk`: nothing was left out."""

    def warn(self, name: str, reason: str) -> None:
        self.warnings.append((name, reason))

    def later(self, work: Callable[[], None]) -> None:
        self.works.append(work)


def _torn(data: _Bytes, size: int | None, *, random: Dice) -> bytes:
    """The content on the device of a file, with the size that the journal has for it."""
    old, new = data.safe, data.content
    if size is None:
        # A file that only grew ends where its bytes are written down up to.
        size = len(old) if old else random.choice((0, len(new), int(random.random() * (len(new) + 1))))
    old = old[:size].ljust(size, b"\0")
    new = new[:size].ljust(size, b"\0")
    if old == new:
        return old
    how = random.choice(("none", "all", "beginning", "pages"))
    if how == "none":
        return old
    if how == "all":
        return new
    if how == "beginning":
        until = int(random.random() * (size + 1))
        return new[:until] + old[until:]
    kept = bytearray(old)
    for start in range(0, size, PAGE_BYTES):
        end = min(size, start + PAGE_BYTES)
        drawn = random.random()
        if drawn < 0.1:
            start = start + SECTOR_BYTES * int(random.random() * PAGE_BYTES / SECTOR_BYTES)
        if drawn < 0.55:
            kept[start:end] = new[start:end]
    return bytes(kept)
