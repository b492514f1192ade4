"""The interface of a disk for logs: files by name below one directory.

Names are relative to the directory, with `/` between folder and file. Every method may raise `DiskError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["DamagedFile", "Disk", "DiskError", "MappedFile"]


class DamagedFile(Exception):
    """Bytes that do not have the format of the file's name; the text names the mistake."""


class DiskError(Exception):
    """The disk failed; the text is one clear sentence without a full stop."""


class MappedFile(Protocol):
    """A file whose bytes are memory: bytes written to `buffer` are in the file, even if the process is killed.

    A Protocol: the disk of the machine and that of the simulator have their own.
    """

    @property
    def buffer(self) -> memoryview: ...

    def reserve(self, end: int) -> int:
        """Have room on the disk up to this position at least; the position up to which there is room now.

        `buffer` may be another one afterwards, with the same bytes, and more of them.
        """

    def cut(self, size: int) -> None:
        """Cut the file here: bytes behind it are not used."""


class Disk(Protocol):
    """A directory.

    A Protocol: there are the disk of the machine, and that of the simulator, which forgets.
    """

    def folders(self) -> list[str]:
        """Names of the folders in the directory."""

    def files(self, folder: str) -> dict[str, int]:
        """Names of the files in a folder and their sizes (bytes); "" is the directory itself."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        """Put a file in place, whole or not at all: whoever reads sees the old bytes or the new ones.

        With `flush` that holds if the machine dies, too, and the new bytes outlive it once this returns.
        """

    def sync(self, *names: str) -> None:
        """Write the bytes of files, or the names in folders, to the device, so that they outlive the machine.

        "" is the directory itself; there may be nothing of this name.
        """

    def map(self, name: str, capacity: int, *, until: int = 0) -> MappedFile:
        """A file to write to, up to this size (bytes), made or made longer if need be; its bytes end at `until`."""

    def map_to_read(self, name: str) -> memoryview:
        """The bytes of a file that is no longer written; room at its end that was never written to may be missing."""

    def are_unchanged(self, *names: str, since: str) -> bool:
        """Whether these files are there, and none was written to after the file `since`.

        False where the disk does not tell, and in a copy that has not kept the times.
        """

    def modified(self, name: str) -> int | None:
        """When a file was last written to (ms); None where the disk does not tell, and for a file that is not there."""

    def space(self) -> tuple[int, int]:
        """The size of the volume, and how much of it can still be used (bytes)."""

    def make_folder(self, name: str) -> None:
        """Create a folder, unless it exists."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or a folder another name; a file of that name is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; there may be none of this name."""

    def complete(self, *names: str) -> None:
        """Have these files, if they were left out when a fork was made, and nothing has taken their place."""

    def warn(self, name: str, reason: str) -> None:
        """Report to the operator a file with unexpected content."""

    def later(self, work: Callable[[], None]) -> None:
        """Do this some time later, in the order of these calls, while others go on; errors are logged."""
