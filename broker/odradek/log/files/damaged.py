"""The error of all readers of files."""

from __future__ import annotations

__all__ = ["DamagedFile"]


class DamagedFile(Exception):
    """Bytes that are not what the file's name promises; the text says what is wrong with them."""
