"""What the bodies and answers of the hub have in common."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = ["Body", "BrokerId", "Port", "Problem", "Unclean", "View"]

Port = Annotated[int, Meta(ge=0, le=65535)]
BrokerId = Annotated[int, Meta(ge=0)]
Unclean = Annotated[bool, Meta(description="To a broker that is out of sync, too; what it lacks is lost.")]


class Body(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a client sends: a field that there is not is refused."""


class View(Struct, kw_only=True):
    """What a client is told."""


class Problem(Struct, kw_only=True, omit_defaults=True):
    """What is wrong, as RFC 9457 has it."""

    title: str
    status: int
    detail: str
    """One sentence."""
    type: str = "about:blank"
    field: str | None = None
    """The JSON path of what is wrong in the body."""
    nearest: Any = None
    """What came nearest to what was waited for."""
