"""Memory that was touched before: the first touch of a page costs more than the copy of what goes there."""

from __future__ import annotations

import mmap

__all__ = ["SparePages", "new_pages"]

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_KEPT_MS = 60_000
_KEPT_IN_EXCESS_MS = 1_000


def new_pages(size: int) -> mmap.mmap:
    """A buffer of zeros, of the process alone; a page takes memory from its first touch on."""
    return mmap.mmap(-1, size, **_PRIVATE)


class SparePages:
    """Buffers that are not needed any more, for the next of their size: at most `bytes_max`, until two looks.

    Looks are a minute apart. What is above `bytes_lasting` is looked at every second: retention drops at once what was
    written since its last check, and as much is written until the next one, or less.
    """

    def __init__(self, bytes_max: int, *, bytes_lasting: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._bytes_lasting = bytes_max if bytes_lasting is None else bytes_lasting
        self._kept: list[mmap.mmap] = []
        self._unused = 0
        """So many of them, from the first on, were there at the last look, and nobody has taken them since."""
        self._looked_at = 0
        self._unused_in_excess = 0
        """The same for the looks at what is above `bytes_lasting`."""
        self._looked_at_excess = 0

    @property
    def bytes_kept(self) -> int:
        """The size of all of them."""
        return sum(map(len, self._kept))

    def keep(self, mapping: mmap.mmap) -> None:
        """Keep a buffer that nobody writes to any more; there may be readers of its bytes."""
        if self.bytes_kept + len(mapping) <= self._bytes_max:
            self._kept.append(mapping)

    def take(self, size: int) -> mmap.mmap | None:
        """A buffer of this size of which no view is left; the one that was kept last, if there are several."""
        for number in reversed(range(len(self._kept))):
            mapping = self._kept[number]
            if len(mapping) == size and _is_free(mapping):
                del self._kept[number]
                self._unused = min(self._unused, number)
                self._unused_in_excess = min(self._unused_in_excess, number)
                return mapping
        return None

    def give_back(self, now: int) -> None:
        """Give the system what nobody has needed for a minute, or for a second if it is much (`now` in ms)."""
        if now - self._looked_at >= _KEPT_MS:
            self._looked_at = now
            self._drop(self._unused)
            self._unused = len(self._kept)
        if now - self._looked_at_excess >= _KEPT_IN_EXCESS_MS:
            self._looked_at_excess = now
            excess, count = self.bytes_kept - self._bytes_lasting, 0
            while excess > 0 and count < self._unused_in_excess:
                excess -= len(self._kept[count])
                count += 1
            self._drop(count)
            self._unused_in_excess = len(self._kept)

    def _drop(self, count: int) -> None:
        del self._kept[:count]
        self._unused = max(0, self._unused - count)
        self._unused_in_excess = max(0, self._unused_in_excess - count)


def _is_free(mapping: mmap.mmap) -> bool:
    """Whether no memoryview of it exists: only then it can be resized, here to the size it has."""
    try:
        mapping.resize(len(mapping))
    except (BufferError, SystemError, OSError, ValueError):  # not all systems can resize
        return False
    return True
