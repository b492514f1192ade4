"""The garbage collector rests while modules are imported.

Imports create next to no garbage, and a full collection visits everything that was imported so far.
"""

from __future__ import annotations

import gc

__all__ = ["NoCollections"]


class NoCollections:
    """No automatic collections inside the block."""

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collects:
            gc.enable()
