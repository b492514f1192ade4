"""Configuration keys: type, permitted values, and whether they may change while the broker runs.

Types, ranges and update modes are those of Kafka's `KafkaConfig`, `LogConfig` and `DynamicBrokerConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from typing import Annotated
else:

    class Annotated:
        """`typing.Annotated` for the type checker, and at run time the pair alone: forms of 250 keys take 8 ms."""

        def __class_getitem__(cls, declared: tuple[object, object]) -> tuple[object, object]:
            return declared


__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "NODE_ID_BITS",
    "Annotated",
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
"""Checks a parsed value: the reason why it is not permitted, or None."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
NODE_ID_BITS = 31
# Patterns here are texts, compiled with their first use: few starts need more than two of them.
_INTEGER = r"[+-]?[0-9]+"
_DOUBLE = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)"
"""The texts that Java's `Double.parseDouble` accepts, except hexadecimal ones."""
_THROTTLED = r"[0-9]+:[0-9]+"


class BadValue(ValueError):
    """A value that its key does not permit; the text is that of Kafka's ConfigException."""


class Kind(IntEnum):
    """Types of values, numbered as in DescribeConfigs."""

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
    """Whether a broker key can change while the broker runs (KIP-226): not at all, or for the whole cluster."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs; a lower number takes precedence."""

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
    """All of a key that its field does not say: everything but name and default."""

    kind: Kind
    check: Check | None = None
    words: tuple[str, ...] = ()
    """The permitted words of a text, or of each item in a list; empty: any text."""
    scope: Scope = Scope.READ_ONLY
    synonyms: Mapping[str, int] = {}
    """For a topic key: the broker keys that give its default, in order of precedence, each with a factor."""


class Key(Struct, frozen=True):
    """One config key."""

    name: str
    attribute: str
    default: Value
    rule: Rule

    def of(self, table: Struct) -> Value:
        """Its value in a table."""
        return value_of(table, self.attribute)

    def parse(self, text: str) -> Value:
        """Parse a value; raises `BadValue` as Kafka's `ConfigDef.parseType` and the validator of the key do."""
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


def value_of(table: Struct, attribute: str) -> Value:
    """The value of a key in a table of keys, whose fields are named as the keys are."""
    value: Value = getattr(table, attribute)
    return value


def name_of(attribute: str) -> str:
    """Kafka's name for an attribute. Kafka's names contain no underscore."""
    return attribute.replace("_", ".")


def keys_of(table: type[Struct]) -> Iterator[Key]:
    """The keys of a configuration class: its fields with a `Rule`. Its annotations are values and no texts.

    They are the types alone from then on, so that msgspec can decode the class; its keys can be read once.
    """
    defaults = dict(zip(table.__struct_fields__, table.__struct_defaults__, strict=True))
    for cls in reversed(table.__mro__):
        annotations = getattr(cls, "__annotations__", {})
        for attribute, declared in annotations.items():
            if isinstance(declared, tuple):
                annotations[attribute], rule = declared
                yield Key(name_of(attribute), attribute, defaults[attribute], rule)


def text_of(value: Value) -> str | None:
    """A value as DescribeConfigs shows it."""
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
    """A retention time: at least 1, or -1 for no limit."""

    def check(value: Value) -> str | None:
        return "Value must be -1 (unlimited) or at least 1" if value == 0 else None

    return Rule(kind, check, scope=scope)


def listing(*words: str, scope: Scope = Scope.READ_ONLY, **synonyms: int) -> Rule:
    """A list of words; if `words` are given, only these are permitted."""
    return Rule(Kind.LIST, words=words, scope=scope, synonyms=synonyms)


def throttled_replicas(name: str) -> Rule:
    """All replicas (`*`), or a list of them as `partition:broker`."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple), "a list key is parsed into a tuple"
        if value == ("*",) or all(re.fullmatch(_THROTTLED, word) for word in value):
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
    """A signed integer of this size, parsed like Java's `Integer.valueOf`; None for any other text."""
    try:
        # Python refuses numbers of more than 4,300 digits, leading zeros included.
        number = int(text) if re.fullmatch(_INTEGER, text) else None
    except ValueError:
        return None
    return number if number is not None and -(1 << bits) <= number < 1 << bits else None


_BITS = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
_BOOLEANS = {"true": True, "false": False}


def parse_value(name: str, kind: Kind, text: str) -> Value:
    """Parse a text as this type; raises `BadValue`, which names the key."""
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
        if not re.fullmatch(_DOUBLE, text):
            raise BadValue(f"Invalid value {text} for configuration {name}: Not a number of type DOUBLE")
        return float(text.rstrip("dDfF"))
    if kind is Kind.LIST:
        return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()
    return text
