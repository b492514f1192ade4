"""What logs need of a disk, which is handed to them: files by name below one directory.

Names are relative to the directory, with `/` between folder and file. Every method may raise `DiskError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Disk", "DiskError", "MappedFile"]


class DiskError(Exception):
    """The disk did not do what it was asked for; the text is one clear sentence without a full stop."""


class MappedFile(Protocol):
    """A file whose bytes are memory: what is written to `buffer` is in the file, even if the process is killed."""

    @property
    def buffer(self) -> memoryview: ...

    def reserve(self, end: int) -> int:
        """Have room on the disk up to this position at least; the position up to which there is room now."""

    def flush(self) -> None:
        """Write everything to the device, so that it outlives the machine."""

    def cut(self, size: int) -> None:
        """End the file here: nobody looks at bytes behind it."""


class Disk(Protocol):
    """A directory."""

    def folders(self) -> list[str]:
        """Names of the folders in the directory."""

    def files(self, folder: str) -> dict[str, int]:
        """Names of the files in a folder and their sizes (bytes); "" is the directory itself."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        """Put a file in place, whole or not at all: whoever reads sees the old bytes or the new ones."""

    def map(self, name: str, capacity: int, *, until: int = 0) -> MappedFile:
        """A file of this size (bytes) to write to, made or made longer if need be; `until` is where its bytes end."""

    def map_to_read(self, name: str) -> memoryview:
        """The bytes of a file that nobody writes to any more."""

    def make_folder(self, name: str) -> None:
        """Make a folder, if there is none of this name."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or a folder another name; a file of that name is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; there may be none of this name."""

    def warn(self, name: str, reason: str) -> None:
        """Note for the operator that a file is not what it should be."""

    def later(self, work: Callable[[], None]) -> None:
        """Do this some time later, in the order of these calls, while others go on; errors are logged."""
