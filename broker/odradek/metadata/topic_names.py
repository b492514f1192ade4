"""Permitted names of topics (Kafka's `Topic.validate`), and the internal topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["CLUSTER_METADATA", "INTERNAL_TOPICS", "collision", "invalid_name", "similar_names"]

CLUSTER_METADATA = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that Metadata marks as internal."""

LENGTH_MAX = 249
_LEGAL = r"[a-zA-Z0-9._-]+"


def invalid_name(name: str) -> str | None:
    """The reason why a name is not permitted, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LENGTH_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
    if not re.fullmatch(_LEGAL, name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def similar_names(existing: Iterable[str]) -> dict[str, str]:
    """Topics by their name with `.` replaced by `_`: names of metrics do not distinguish the two."""
    return {name.replace(".", "_"): name for name in existing if "." in name or "_" in name}


def collision(name: str, similar: Mapping[str, str]) -> str | None:
    """Another topic whose name differs only in `.` and `_`, or None."""
    other = similar.get(name.replace(".", "_"))
    return None if other == name else other
