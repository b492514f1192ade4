"""The place and the values at which two results of `odradek codec-check` differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NotAVector", "compare_bytes", "difference", "hexadecimal"]


class NotAVector(Exception):
    """The line does not have the form of a vector."""


def hexadecimal(vector: Mapping[str, Any], key: str) -> bytes:
    """The bytes under this key of a vector."""
    try:
        return bytes.fromhex(vector[key])
    except (TypeError, ValueError):
        raise NotAVector(f"its {key!r} is not hexadecimal") from None


def compare_bytes(what: str, ours: bytes, theirs: bytes) -> str | None:
    """A sentence about the difference of two byte strings; None if they are equal."""
    if ours == theirs:
        return None
    same = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    if same is None:
        same = min(len(ours), len(theirs))
    return f"{what}, it differs from byte {same} on ({len(ours)} bytes, not {len(theirs)})"


def difference(ours: Any, theirs: Any, path: str = "") -> str:
    """The first place at which two JSON values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if key not in ours or key not in theirs:
                return f"{path}{key} is {'missing' if key not in ours else 'too much'}"
            if ours[key] != theirs[key]:
                return difference(ours[key], theirs[key], f"{path}{key}.")
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            if left != right:
                return difference(left, right, f"{path.removesuffix('.')}[{index}].")
    return f"{path.removesuffix('.') or 'the message'} is {ours!r}, not {theirs!r}"
