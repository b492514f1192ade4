"""What the author of a test is told of a data directory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.testing import DataDirWarning

__all__ = ["warned"]


@contextmanager
def warned() -> Iterator[list[str]]:
    """The texts of all `DataDirWarning`s of a block, behind it."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", DataDirWarning)
        yield told
    told += [str(each.message) for each in found]
