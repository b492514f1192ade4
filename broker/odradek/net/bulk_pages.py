"""The buffers into which sockets write long requests."""

from __future__ import annotations

from mmap import mmap

from odradek.core.spare_pages import SparePages, new_pages

__all__ = ["BulkPages"]

_STEP_BYTES = 256 * 1024
"""Buffers have a multiple of this size, so that one serves requests that are nearly equal."""
_SPARE_BYTES_MAX = 8 * 1024 * 1024


class BulkPages:
    """The buffers of all connections of a loop."""

    def __init__(self) -> None:
        self._spare = SparePages(_SPARE_BYTES_MAX)
        self._next: mmap | None = None

    def next(self, size: int) -> mmap:
        """The buffer for what comes next, whichever connection it is; at least this long."""
        if self._next is None or len(self._next) < size:
            self._next = self.take(size)
        return self._next

    def claim(self) -> None:
        """The next buffer has been written to, so that it is the next no more."""
        self._next = None

    def take(self, size: int) -> mmap:
        """A buffer for one connection."""
        size += -size % _STEP_BYTES
        return self._spare.take(size) or new_pages(size)

    def keep(self, pages: mmap) -> None:
        """Nothing more is written to it; it serves again when no view of it is left."""
        self._spare.keep(pages)
