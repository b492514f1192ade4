"""The page: a cluster at this moment, and its history. Its files are plain ES modules, without a build step.

The hub serves them one by one; `document` puts them into one HTML file that needs no network.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["MEDIA_TYPES", "file", "names"]

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def names() -> frozenset[str]:
    """The names of the files of the page."""
    return frozenset(each.name for each in files(__package__).joinpath("static").iterdir())


@cache
def file(name: str) -> bytes:
    """One of them."""
    return files(__package__).joinpath("static").joinpath(name).read_bytes()
