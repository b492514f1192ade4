"""Keep freed memory of the size of a request for the next one.

glibc returns a freed block above 128 KiB to the system and asks for it again at the next request, so that each megabyte
received costs 256 page faults: more than everything else that is done with it.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MAPPED_BYTES_MIN = 8 * 1024 * 1024
"""Blocks from this size on are mapped separately, and returned to the system when they are freed."""
_KEPT_BYTES = 16 * 1024 * 1024
"""At most this much freed memory is kept."""


def keep_freed_memory() -> None:
    """Configure glibc for the whole process; other C libraries are left unchanged."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
