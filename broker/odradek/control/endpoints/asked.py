"""One call of the hub, and a row of its table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from odradek.control.hub import Hosted, Hub

__all__ = ["Asked", "Endpoint", "File", "Parameter"]


class Asked(Struct, frozen=True):
    """One call: the hub, the cluster that the path names, the parts of the path, the query, and the body."""

    hub: Hub
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    cluster: Hosted | None = None

    @property
    def hosted(self) -> Hosted:
        """The cluster that the path names."""
        assert self.cluster is not None, "this call is about no cluster"
        return self.cluster

    def number(self, name: str) -> int:
        """A number in the path. Raises LookupError for any other text, because nothing has such a name."""
        text = self.path[name]
        if not text.isdecimal() or len(text) > 9:
            raise LookupError(f"there is no {name} {text}: it is a number")
        return int(text)

    def count(self, name: str, default: int, most: int) -> int:
        """A number in the query: from 1 to `most`. Raises ValueError for anything else."""
        text = self.query.get(name, str(default))
        if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
            raise ValueError(f"{name} is a number from 1 to {most}, not {text}")
        return int(text)


class File(Struct, frozen=True):
    """An answer that is not JSON, for a browser to save."""

    content: bytes
    media_type: str
    name: str
    """A safe file name: only ASCII letters, digits, `_`, `.` and `-`."""


class Parameter(Struct, frozen=True):
    """A parameter of the query."""

    name: str
    about: str
    kind: str = "string"


class Endpoint(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    method: str
    path: str
    about: str
    run: Callable[[Asked], Awaitable[object]]
    body: Any = None
    answer: Any = None
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body_required: bool = False
    """Whether the body is required; otherwise a missing body means that all fields are left out."""
