"""What a topic may be called (Kafka's `Topic.validate`), and which names are internal."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["CLUSTER_METADATA", "INTERNAL_TOPICS", "collision", "invalid_name"]

CLUSTER_METADATA = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that Metadata flags as internal."""

LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name(name: str) -> str | None:
    """Why a name is not allowed, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LENGTH_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def collision(name: str, existing: Iterable[str]) -> str | None:
    """A topic whose name differs only in `.` and `_`: names of metrics could not tell them apart."""
    if "." not in name and "_" not in name:
        return None
    normal = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == normal), None)
