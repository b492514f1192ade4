"""Java's property files: what Kafka's tools take as `--command-config`."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parse_properties"]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_PAIR = re.compile(r"((?:\\.|[^\\\s=:])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; a key that comes twice has its last value. Nothing is malformed."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        assert match is not None
        found[_plain(match[1])] = _plain(match[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends with an odd number of backslashes goes on in the next."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def _plain(text: str) -> str:
    def unescaped(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(unescaped, text)
