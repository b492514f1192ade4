"""The small language of scenarios: words of a line, and the values in them.

    12  -1  e+1  "text"  null  true  [a, b]  {key: value}  x  tid  id(t)  hex("00ff")  times("a", 300)

A bare word is a captured variable if there is one of that name, and otherwise the scenario's own name of a topic,
group or transactional id: `t` stands for a topic that no other scenario uses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LanguageError", "Scope", "is_option", "split_option", "split_words"]

TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_][\w.]*)|(?P<mark>[\[\]{}():,+-]))'
)
OPTION = re.compile(r"(?P<key>[a-z_][a-z0-9_.]*)=(?!=)")
OPENING, CLOSING = "[{(", "]})"
CONSTANTS: Mapping[str, Any] = {"null": None, "true": True, "false": False}


class LanguageError(Exception):
    """A scenario is not written as it should be."""


def split_words(line: str) -> list[str]:
    """Split at blanks that are neither in quotes nor in brackets."""
    words: list[str] = []
    word, depth, quoted, escaped = "", 0, False, False
    for character in line:
        if quoted:
            quoted = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            quoted = True
        else:
            depth += (character in OPENING) - (character in CLOSING)
            if character.isspace() and depth == 0:
                words.append(word)
                word = ""
                continue
        word += character
    if quoted or depth != 0:
        raise LanguageError(f"a quote or bracket is not closed: {line}")
    return [word for word in [*words, word] if word]


def is_option(word: str) -> bool:
    """Whether the word is `key=value`."""
    return OPTION.match(word) is not None


def split_option(word: str) -> tuple[str, str]:
    """Key and value of such a word."""
    found = OPTION.match(word)
    assert found is not None, word
    return found["key"], word[found.end() :]


@dataclass
class Tokens:
    """The tokens of one value, read from left to right."""

    text: str
    items: list[tuple[str, str]]
    position: int = 0

    @classmethod
    def of(cls, text: str) -> Tokens:
        items: list[tuple[str, str]] = []
        position = 0
        while position < len(text.rstrip()):
            found = TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise LanguageError(f"not a value: {text}")
            items.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()
        return cls(text, items)

    def peek(self) -> str:
        return self.items[self.position][1] if self.position < len(self.items) else ""

    def take(self) -> tuple[str, str]:
        if self.position == len(self.items):
            raise LanguageError(f"a value ends too early: {self.text}")
        self.position += 1
        return self.items[self.position - 1]

    def skip(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.position += 1
        return True

    def expect(self, mark: str) -> None:
        if not self.skip(mark):
            raise LanguageError(f"{mark} is missing: {self.text}")


class Scope:
    """What names mean while a scenario is played: variables, and names made unique by a prefix."""

    def __init__(self, prefix: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.prefix = prefix
        self.variables: dict[str, Any] = {}
        self.functions: dict[str, Callable[..., Any]] = {
            "hex": bytes.fromhex,
            "times": lambda text, count: text * count,
            "list": lambda value, count: [value] * count,
            **(functions or {}),
        }

    def unique(self, name: str) -> str:
        """The full name of a topic, group or transactional id of this scenario."""
        return f"{self.prefix}{name}"

    def value(self, text: str) -> Any:
        """What a word stands for."""
        tokens = Tokens.of(text)
        value = self.sum(tokens)
        if tokens.position != len(tokens.items):
            raise LanguageError(f"not one value: {text}")
        return value

    def sum(self, tokens: Tokens) -> Any:
        value = self.term(tokens)
        while tokens.peek() in ("+", "-") and tokens.peek():
            _, sign = tokens.take()
            other = self.term(tokens)
            value = value + other if sign == "+" else value - other
        return value

    def term(self, tokens: Tokens) -> Any:
        kind, text = tokens.take()
        match kind, text:
            case "number", _:
                return int(text)
            case "string", _:
                return ast.literal_eval(text)
            case "name", _ if tokens.skip("("):
                return self.call(text, tokens)
            case "name", _:
                return self.name(text)
            case "mark", "-":
                return -self.term(tokens)
            case "mark", "[":
                return self.several(tokens, "]")
            case "mark", "{":
                return self.mapping(tokens)
        raise LanguageError(f"not a value: {tokens.text}")

    def name(self, text: str) -> Any:
        if text in CONSTANTS:
            return CONSTANTS[text]
        return self.variables[text] if text in self.variables else self.unique(text)

    def call(self, function: str, tokens: Tokens) -> Any:
        if function not in self.functions:
            raise LanguageError(f"no such function: {function}")
        return self.functions[function](*self.several(tokens, ")"))

    def several(self, tokens: Tokens, end: str) -> list[Any]:
        values: list[Any] = []
        while not tokens.skip(end):
            values.append(self.sum(tokens))
            if tokens.peek() != end:
                tokens.expect(",")
        return values

    def mapping(self, tokens: Tokens) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not tokens.skip("}"):
            kind, key = tokens.take()
            if kind != "name":
                raise LanguageError(f"not a key: {key} in {tokens.text}")
            tokens.expect(":")
            values[key] = self.sum(tokens)
            if tokens.peek() != "}":
                tokens.expect(",")
        return values
