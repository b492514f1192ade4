"""Common parts of the hub's bodies and answers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = ["Body", "BrokerId", "Port", "Problem", "Unclean", "View"]

Port = Annotated[int, Meta(ge=0, le=65535)]
BrokerId = Annotated[int, Meta(ge=0)]
Unclean = Annotated[bool, Meta(description="To a broker that is out of sync, too; what it lacks is lost.")]


class Body(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A body from a client: unknown fields are refused."""


class View(Struct, kw_only=True):
    """An answer to a client."""


class Problem(Struct, kw_only=True, omit_defaults=True):
    """An error, as in RFC 9457."""

    title: str
    status: int
    detail: str
    """One sentence."""
    type: str = "about:blank"
    field: str | None = None
    """The JSON path of the mistake in the body."""
    nearest: Any = None
    """The state nearest to the one that was waited for."""
