"""Data directories of forks: made of the files of a snapshot, and opened without reading them again.

A snapshot never changes, so that its files are listed and read once for all forks. A fork makes a folder for each log,
links what nobody writes to, and writes the last segment of each log, which will be appended to. The indexes of that
segment are left out, as those of every active segment are: they are written when it ends, or at the clean stop. So the
directory is complete at every moment, as that of a process that was killed: its next process makes what is missing.
One that goes with its fork has no next process: there a log has its folder with its first change.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from odradek.cli.usage import UsageError
from odradek.log.files.names import (
    CLEAN_STOP,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_STARTS,
    META,
    RECOVERY_POINTS,
    read_segment_file,
)
from odradek.log.found_log import FoundBefore
from odradek.net.apart import MARK
from odradek.net.disk import LocalDisk, LocalFile

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.log.found_log import FoundLog

__all__ = [
    "ForkedDisk",
    "SnapshotFiles",
    "copy_file",
    "files_of",
    "fork_directory",
    "link_file",
    "make_empty",
    "place_for_fork",
]

T = TypeVar("T")

COPIED_AT_ONCE = 64 * 1024
LOG, SNAPSHOT = ".log", ".snapshot"
REPLACED = frozenset({RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_OFFSETS})
"""Files of a broker that are never written to: a new one takes their place. So a fork can link them."""
NOT_IN_FORKS = frozenset({MARK, LOCK, CLEAN_STOP, META})
"""`meta.properties` is made last: a directory without it is refused, as half a copy."""


class _Folder:
    """The folder of a log in a snapshot."""

    __slots__ = ("left_out", "linked", "sizes", "written")

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        """Bytes, by file."""
        found = {name: read_segment_file(name) for name in sizes}
        last = max((each.base_offset for each in found.values() if each and each.suffix == LOG), default=-1)
        of_last = [
            name for name, each in found.items() if each and each.base_offset == last and each.suffix != SNAPSHOT
        ]
        self.written = [name for name in of_last if name.endswith(LOG)]
        """The last segment."""
        self.left_out = [name for name in of_last if not name.endswith(LOG)]
        """Its indexes."""
        self.linked = [name for name in sizes if name not in of_last]


class SnapshotFiles:
    """The files of one broker in a snapshot, as they are at the first look."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`."""
        self.path = os.fspath(path)
        self.folders: dict[str, _Folder] = {}
        self.sizes: dict[str, int] = {}
        """Those of the files beside the folders (bytes)."""
        self._changed_ns: dict[str, int] = {}
        """When each file was written to."""
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    self.folders[entry.name] = _Folder(self._listed(entry))
                else:
                    self._changed_ns[entry.name] = entry.stat().st_mtime_ns
                    self.sizes[entry.name] = entry.stat().st_size
        self.logs: dict[str, FoundLog] = {}
        """What the first fork has found in each folder."""
        self.late: WeakSet[ForkedDisk] = WeakSet()
        """The disks of running forks that read from here what they have not changed."""
        self._bytes: dict[str, bytes] = {}
        self._views: dict[str, memoryview] = {}

    def _listed(self, folder: os.DirEntry[str]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with os.scandir(folder.path) as files:
            for each in files:
                sizes[each.name] = each.stat().st_size
                self._changed_ns[f"{folder.name}/{each.name}"] = each.stat().st_mtime_ns
        return sizes

    def has(self, name: str) -> bool:
        """Whether there is this file."""
        return name in self._changed_ns

    def is_unchanged(self, name: str, since: str) -> bool:
        """Whether there is this file, and it was not written to after the other one."""
        changed = self._changed_ns
        return name in changed and since in changed and changed[name] <= changed[since]

    def modified(self, name: str) -> int | None:
        """When a file was last written to (ms); None if it is not there."""
        changed_ns = self._changed_ns.get(name)
        return None if changed_ns is None else changed_ns // 1_000_000

    def read(self, name: str) -> bytes:
        """A small file, which is kept. Raises `OSError`."""
        data = self._bytes.get(name)
        if data is None:
            with open(f"{self.path}/{name}", "rb", buffering=0) as file:
                data = self._bytes[name] = file.readall()
        return data

    def view(self, name: str) -> memoryview:
        """A segment, mapped once for all forks. Raises `OSError`."""
        view = self._views.get(name)
        if view is None:
            with open(f"{self.path}/{name}", "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
            self._views[name] = view
        return view

    def make(self, target: str, *, late: bool) -> None:
        """Make a directory of the same content, but for `meta.properties` and what is left out. Raises `OSError`.

        `late`: without the folders, which `make_folder` makes, and the files that are replaced as a whole.
        """
        for name in self.sizes:
            if name not in NOT_IN_FORKS and not (late and name in REPLACED):
                (link_file if name in REPLACED else copy_file)(f"{self.path}/{name}", f"{target}/{name}")
        for name in () if late else self.folders:
            self.make_folder(target, name)

    def make_folder(self, target: str, name: str) -> None:
        """Make the folder of a log. Raises `OSError`."""
        folder, source, made = self.folders[name], f"{self.path}/{name}", f"{target}/{name}"
        os.mkdir(made)
        for each in folder.linked:
            link_file(f"{source}/{each}", f"{made}/{each}")
        for each in folder.written:
            _write(f"{made}/{each}", self.view(f"{name}/{each}")[: folder.sizes[each]])

    def let_go(self) -> None:
        """The snapshot is about to be removed: its forks have everything themselves from now on."""
        for disk in list(self.late):
            disk.make_rest()

    def make_known(self, target: str) -> None:
        """Everything is there: now it is a data directory. Raises `OSError`."""
        link_file(f"{self.path}/{META}", f"{target}/{META}")


class ForkedDisk(LocalDisk):
    """The directory of a broker of a fork.

    Until `begun` it has what its snapshot has, as far as nothing was changed: that is answered without a call. If it is
    made `late`, folders have it until they are changed.
    """

    def __init__(self, path: Path, log: Logger, files: SnapshotFiles, *, late: bool) -> None:
        super().__init__(path, log)
        self._files = files
        self._unmade = set(files.folders) if late else set()
        """Folders of the snapshot that are not here yet."""
        if late:
            files.late.add(self)
        self._left_out = {f"{name}/{each}" for name, folder in files.folders.items() for each in folder.left_out}
        """Files of the snapshot that are not here yet."""
        self._is_known = True
        self._changed: set[str] = set()
        """Folders that are not as in the snapshot."""
        self._has_warned = False

    def begun(self) -> None:
        """See `LocalDisk`: the directory is looked at from now on, and no longer the snapshot."""
        self._is_known = False

    @property
    def before(self) -> FoundBefore:
        return FoundBefore(self._files.logs, may_keep=self._is_plain)

    def _is_plain(self, folder: str) -> bool:
        """Whether other forks find the same; after a warning they look again, and warn."""
        return self._is_as_it_was(folder) and not self._has_warned

    def warn(self, name: str, reason: str) -> None:
        self._has_warned = True
        super().warn(name, reason)

    def _is_as_it_was(self, name: str) -> bool:
        folder = name.partition("/")[0]
        return (self._is_known or folder in self._unmade) and folder not in self._changed

    def _note_change(self, name: str) -> None:
        """Something in a folder is about to change. Raises `DiskError` if it cannot be made."""
        folder = name.partition("/")[0]
        if folder in self._unmade:
            self._make(folder)
        self._changed.add(folder)
        self._left_out.discard(name)

    def _make(self, folder: str) -> None:
        try:
            self._files.make_folder(self._root, folder)
        except OSError as error:
            # What was made is not a log: the next attempt begins anew.
            shutil.rmtree(self._full(folder), ignore_errors=True)
            raise self._failed(error, self._full(folder)) from None
        self._unmade.discard(folder)

    def make_rest(self) -> None:
        """Have everything here. Raises `DiskError`."""
        for folder in list(self._unmade):
            self._make(folder)

    def _ask(self, look: Callable[[str], T], name: str) -> T:
        """Look at a file of the snapshot. Raises `DiskError`."""
        try:
            return look(name)
        except OSError as error:
            raise self._failed(error, f"{self._files.path}/{name}") from None

    def folders(self) -> list[str]:
        if self._is_known and not self._changed:
            return sorted(self._files.folders)
        return sorted({*super().folders(), *self._unmade})

    def files(self, folder: str) -> dict[str, int]:
        if not folder or not self._is_as_it_was(folder):
            return super().files(folder)
        known = self._files.folders.get(folder)
        return {} if known is None else {name: known.sizes[name] for name in sorted(known.sizes)}

    def read(self, name: str) -> bytes | None:
        if not self._is_as_it_was(name):
            return super().read(name)
        return self._ask(self._files.read, name) if self._files.has(name) else None

    def map_to_read(self, name: str) -> memoryview:
        if not self._is_as_it_was(name):
            return super().map_to_read(name)
        return self._ask(self._files.view, name)

    def are_unchanged(self, *names: str, since: str) -> bool:
        if self._is_known:
            return all(self._is_as_it_was(name) and self._files.is_unchanged(name, since) for name in names)
        return super().are_unchanged(*names, since=since)

    def modified(self, name: str) -> int | None:
        return self._files.modified(name) if name.partition("/")[0] in self._unmade else super().modified(name)

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        self._note_change(name)
        super().write(name, data, flush=flush)

    def map(self, name: str, capacity: int, *, until: int = 0) -> LocalFile:
        self._note_change(name)
        return super().map(name, capacity, until=until)

    def make_folder(self, name: str) -> None:
        self._note_change(name)
        super().make_folder(name)

    def rename(self, old: str, new: str) -> None:
        self._note_change(old)
        self._note_change(new)
        self._leave_out_no_more(old)
        super().rename(old, new)

    def remove(self, name: str) -> None:
        if name == CLEAN_STOP and self._is_as_it_was(name):
            self._changed.add(name)  # it is not here
            return
        self._note_change(name)
        self._leave_out_no_more(name)
        super().remove(name)

    def _leave_out_no_more(self, folder: str) -> None:
        if folder in self._files.folders:
            self._left_out.difference_update([f"{folder}/{each}" for each in self._files.folders[folder].left_out])

    def complete(self, *names: str) -> None:
        for name in names:
            if name in self._left_out and name.partition("/")[0] not in self._unmade:
                self._left_out.discard(name)
                data = self._ask(self._files.read, name)
                try:
                    _write(self._full(name), memoryview(data))
                except OSError as error:
                    raise self._failed(error, self._full(name)) from None


def files_of(directory: Path) -> dict[str, SnapshotFiles]:
    """The files of each broker in a snapshot, by the broker's folder; "" of the only one. Raises `UsageError`."""
    try:
        if (directory / META).exists():
            return {"": SnapshotFiles(directory)}
        return {broker.name: SnapshotFiles(broker) for broker in sorted(directory.glob("broker-*"))}
    except OSError as error:
        raise UsageError(f"The snapshot {directory} cannot be read: {error.strerror or error}.") from None


def place_for_fork(directory: Path) -> Path:
    """A new directory for a fork that nobody has named one for; beside its snapshot, so that both can share files."""
    try:
        return Path(tempfile.mkdtemp(prefix=".fork-", dir=directory.parent))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="odradek-fork-"))


def fork_directory(source: Path, files: Mapping[str, SnapshotFiles], target: Path, *, late: bool) -> None:
    """Make a data directory of a snapshot; `late`: without folders, which come with their first change.

    Raises `UsageError` where there is something already, or the disk fails.
    """
    if not (source / MARK).exists():
        raise UsageError(f"The snapshot {source} is not there any more.")
    make_empty(target, "A fork begins in a directory of its own, and {} is not empty.")
    made = {name: os.path.join(target, name).rstrip("/") for name in files}
    try:
        for name, broker in files.items():
            if name:
                os.mkdir(made[name])
            broker.make(made[name], late=late)
        for name, broker in files.items():
            broker.make_known(made[name])
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise UsageError(f"The snapshot {source} cannot be forked to {target}: {error.strerror or error}.") from None


def make_empty(path: Path, sentence: str) -> None:
    """Have an empty directory there. Raises `UsageError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(sentence.format(path))
    except OSError as error:
        raise UsageError(f"The directory {path} cannot be made: {error.strerror}.") from None


def copy_file(source: str, target: str) -> None:
    """`shutil.copyfile`, with half as many calls for a small file. Raises `OSError`."""
    with open(source, "rb", buffering=0) as one, open(target, "wb", buffering=0) as other:
        while data := one.read(COPIED_AT_ONCE):
            view = memoryview(data)
            while view:
                view = view[other.write(view) :]
            if len(data) < COPIED_AT_ONCE:
                return


def link_file(source: str, target: str) -> None:
    """Let a file have another name, or be there twice. Raises `FileNotFoundError` where it is not there."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _write(path: str, data: memoryview) -> None:
    """Make a file that is not there yet; one that is there stays as it is. Raises `OSError`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
