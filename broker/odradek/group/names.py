"""Names that members and groups are given."""

from __future__ import annotations

__all__ = ["is_blank"]


def is_blank(name: str | None) -> bool:
    """Whether a name is given and says nothing: Kafka trims names before it looks at them."""
    return name is not None and not name.strip()
