"""What a config key is: its kind, its permitted values, and how it may change.

Kinds, ranges and update modes are those of Kafka's `KafkaConfig`, `LogConfig` and `DynamicBrokerConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import get_type_hints

from msgspec import Struct

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "NODE_ID_BITS",
    "BadValue",
    "ConfigSource",
    "Key",
    "Kind",
    "Rule",
    "Scope",
    "Value",
    "boolean",
    "choices",
    "choices_any_case",
    "double",
    "gzip_level",
    "integer",
    "keys_of",
    "listing",
    "long",
    "name_of",
    "parse_value",
    "short",
    "string",
    "text_of",
    "throttled_replicas",
    "unlimited_or_positive",
    "whole_number",
]

Value = bool | int | float | str | tuple[str, ...] | None
Check = Callable[[Value], "str | None"]
"""Why a parsed value is not permitted, or None."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
NODE_ID_BITS = 31
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)")
"""What Java's `Double.parseDouble` takes, but for hexadecimal."""
_THROTTLED = re.compile(r"[0-9]+:[0-9]+")


class BadValue(ValueError):
    """A value that its key does not permit; the text is Kafka's ConfigException message."""


class Kind(IntEnum):
    """Types of values, numbered as DescribeConfigs names them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Whether a broker key can change while the broker runs, and for whom (KIP-226)."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs names it; a lower number wins."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Rule(Struct, frozen=True):
    """The part of a key that is written beside its field: everything but name and default."""

    kind: Kind
    check: Check | None = None
    words: tuple[str, ...] = ()
    """What a text, or each word of a list, must be one of; empty: anything."""
    scope: Scope = Scope.READ_ONLY
    synonyms: Mapping[str, int] = {}
    """Of a topic key: the broker keys that give its default, best first, and what their value is multiplied by."""


class Key(Struct, frozen=True):
    """One config key."""

    name: str
    attribute: str
    default: Value
    rule: Rule

    def parse(self, text: str) -> Value:
        """The value of a text; raises `BadValue` as Kafka's `ConfigDef.parseType` and the key's validator do."""
        value = parse_value(self.name, self.rule.kind, text.strip())
        words = self.rule.words
        for word in (value if isinstance(value, tuple) else (value,)) if words else ():
            if not word and isinstance(value, tuple):
                raise BadValue(f"Configuration '{self.name}' values must not be empty.")
            if word not in words:
                raise self._bad(word, f"String must be one of: {', '.join(words)}")
        complaint = self.rule.check(value) if self.rule.check else None
        if complaint is not None:
            raise self._bad(f"[{', '.join(value)}]" if isinstance(value, tuple) else value, complaint)
        return value

    def _bad(self, value: Value, complaint: str) -> BadValue:
        return BadValue(f"Invalid value {text_of(value)} for configuration {self.name}: {complaint}")


def name_of(attribute: str) -> str:
    """Kafka's name of an attribute; no name of Kafka's has an underscore."""
    return attribute.replace("_", ".")


def keys_of(table: type[Struct]) -> Iterator[Key]:
    """The keys of a table: its fields that have a rule."""
    defaults = dict(zip(table.__struct_fields__, table.__struct_defaults__, strict=True))
    for attribute, hint in get_type_hints(table, include_extras=True).items():
        for rule in getattr(hint, "__metadata__", ()):
            if isinstance(rule, Rule):
                yield Key(name_of(attribute), attribute, defaults[attribute], rule)


def text_of(value: Value) -> str | None:
    """How DescribeConfigs shows a value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def integer(low: int | None = None, high: int | None = None, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A 32-bit integer; keyword arguments are the synonyms of a topic key, as attributes of `Config`."""
    return Rule(Kind.INT, _between(low, high), scope=scope, synonyms=synonyms)


def short(low: int | None = None) -> Rule:
    """A 16-bit integer."""
    return Rule(Kind.SHORT, _between(low, None))


def long(low: int | None = None, high: int | None = None, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A 64-bit integer; keyword arguments as for `integer`."""
    return Rule(Kind.LONG, _between(low, high), scope=scope, synonyms=synonyms)


def double(low: float, high: float, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A floating-point number between two limits."""
    return Rule(Kind.DOUBLE, _between(low, high), scope=scope, synonyms=synonyms)


def boolean(scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """True or false."""
    return Rule(Kind.BOOLEAN, scope=scope, synonyms=synonyms)


def string(scope: Scope = Scope.READ_ONLY) -> Rule:
    """Any text."""
    return Rule(Kind.STRING, scope=scope)


def choices(*words: str, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """One of some words."""
    return Rule(Kind.STRING, words=words, scope=scope, synonyms=synonyms)


def choices_any_case(*names: str) -> Rule:
    """One of some words, in upper or lower case."""

    def check(value: Value) -> str | None:
        if isinstance(value, str) and value.lower() in names:
            return None
        return f"String must be one of (case insensitive): {', '.join(name.upper() for name in names)}"

    return Rule(Kind.STRING, check)


def unlimited_or_positive(kind: Kind, scope: Scope = Scope.READ_ONLY) -> Rule:
    """A time that retention may last: -1 for ever, but not 0."""

    def check(value: Value) -> str | None:
        return "Value must be -1 (unlimited) or at least 1" if value == 0 else None

    return Rule(kind, check, scope=scope)


def listing(*words: str, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A list of words; if some are given, of these only."""
    return Rule(Kind.LIST, words=words, scope=scope, synonyms=synonyms)


def throttled_replicas(name: str) -> Rule:
    """All replicas (`*`), or a list of them as `partition:broker`."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple), "a list key is parsed into a tuple"
        if value == ("*",) or all(_THROTTLED.fullmatch(word) for word in value):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return Rule(Kind.LIST, check)


def gzip_level(scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A level of gzip: 1 to 9, or -1 for its default."""

    def check(value: Value) -> str | None:
        return None if value in (-1, *range(1, 10)) else "Value must be between 1 and 9 or equal to -1"

    return Rule(Kind.INT, check, scope=scope, synonyms=synonyms)


def _between(low: float | None, high: float | None) -> Check | None:
    if low is None and high is None:
        return None

    def check(value: Value) -> str | None:
        assert isinstance(value, (int, float)), "only numbers have limits"
        if low is not None and value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if high is not None and value > high else None

    return check


def whole_number(text: str, bits: int) -> int | None:
    """A signed number of so many bits and a sign, as Java's `Integer.valueOf` takes it; None for anything else."""
    try:
        # Python refuses to read more than 4,300 digits at all; zeros in front count.
        number = int(text) if _INTEGER.fullmatch(text) else None
    except ValueError:
        return None
    return number if number is not None and -(1 << bits) <= number < 1 << bits else None


_BITS = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
_BOOLEANS = {"true": True, "false": False}


def parse_value(name: str, kind: Kind, text: str) -> Value:
    """The value that a text has as one of a kind; raises `BadValue`, which names the key."""
    bits = _BITS.get(kind)
    if bits is not None:
        number = whole_number(text, bits)
        if number is None:
            raise BadValue(f"Invalid value {text} for configuration {name}: Not a number of type {kind.name}")
        return number
    if kind is Kind.BOOLEAN:
        if text.lower() not in _BOOLEANS:
            raise BadValue(f"Invalid value {text} for configuration {name}: Expected value to be either true or false")
        return _BOOLEANS[text.lower()]
    if kind is Kind.DOUBLE:
        if not _DOUBLE.fullmatch(text):
            raise BadValue(f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE")
        return float(text.rstrip("dDfF"))
    if kind is Kind.LIST:
        return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()
    return text
