"""Client styles: which versions of which requests a producer speaks, and whether it adds its partitions itself."""

from __future__ import annotations

import pytest
from msgspec import Struct

__all__ = [
    "NEW",
    "NEW_STYLES",
    "OLD",
    "OLD_STYLES",
    "Style",
    "every_client",
    "every_level",
    "new_clients",
    "old_clients",
]


class Style(Struct, frozen=True):
    """The versions of its requests; `add` is None for a client that has its partitions added by Produce."""

    name: str
    produce: int
    end: int
    offsets: int
    add: int | None
    init: int

    def __str__(self) -> str:
        return self.name


OLD_STYLES = (
    Style("old-3", produce=3, end=0, offsets=0, add=0, init=0),
    Style("old-7", produce=7, end=1, offsets=2, add=1, init=1),
    Style("old-9", produce=9, end=3, offsets=3, add=3, init=3),
    Style("old-11", produce=11, end=4, offsets=4, add=3, init=5),
)
"""Clients without part 2 of KIP-890; the last one knows TRANSACTION_ABORTABLE."""

NEW_STYLES = (
    Style("new-12", produce=12, end=5, offsets=5, add=None, init=5),
    Style("new-13", produce=13, end=5, offsets=6, add=None, init=5),
)
"""Clients with both parts of KIP-890; the last one names topics by id."""

OLD, NEW = OLD_STYLES[-1], NEW_STYLES[-1]

every_level = pytest.mark.parametrize("level", [0, 1, 2])
old_clients = pytest.mark.parametrize("style", OLD_STYLES, ids=str)
new_clients = pytest.mark.parametrize("style", NEW_STYLES, ids=str)
every_client = pytest.mark.parametrize(
    ("level", "style"),
    [
        pytest.param(level, style, id=f"level{level}-{style}")
        for level in (0, 1, 2)
        for style in (*OLD_STYLES, *NEW_STYLES)
        # At level 0 the log cannot hold what new clients do; they go back to the old style.
        if level > 0 or style.add is not None
    ],
)
"""Every kind of client at every level at which it can work."""
