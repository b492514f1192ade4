"""Kafka's message schemas: JSON in, `MessageSpec` out.

    MessageSpec    one file: its versions and its outermost struct
      StructSpec   a name and its fields, in the order of the wire
        Field      what one field is, and in which versions it is what

Standard library only: the generator runs at build time, where nothing else is installed.
The format is described in protocol_schemas/README.md.
A schema that breaks its rules ends in `SchemaError`, which names the field.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

if TYPE_CHECKING:
    from msgspec import Struct

__all__ = [
    "FIXED",
    "Field",
    "Json",
    "MessageSpec",
    "SchemaError",
    "StructSpec",
    "Value",
    "Versions",
    "load",
    "parse",
    "snake_case",
]

Value: TypeAlias = "bool | int | float | str | bytes | bytearray | memoryview | Struct | Sequence[Value] | None"
"""The value of a field."""
Scalar: TypeAlias = bool | int | float | str | bytes | None
Default: TypeAlias = Scalar | tuple[()] | EllipsisType
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value of JSON."""

FIXED: Mapping[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Types of fixed size: character for the struct module, bytes."""

_VARIABLE = frozenset({"string", "bytes", "records"})
_NO_END = 0x7FFF

_EMPTY: Mapping[str, Scalar] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": bytes(16),
}

_FIELD_KEYS = frozenset(
    {"name", "type", "versions", "nullableVersions", "flexibleVersions", "taggedVersions", "tag", "default"}
    | {"ignorable", "mapKey", "entityType", "zeroCopy", "about", "fields"}
)
_MESSAGE_KEYS = frozenset(
    {"apiKey", "type", "listeners", "name", "validVersions", "flexibleVersions", "latestVersionUnstable"}
    | {"fields", "commonStructs", "about", "draft"}
)
_TYPES = frozenset({"request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value"})


class _FieldSource(TypedDict, total=False):
    name: str
    type: str
    versions: str
    nullableVersions: str
    flexibleVersions: str
    taggedVersions: str
    tag: int
    default: bool | int | float | str | None
    ignorable: bool
    mapKey: bool
    entityType: str
    about: str
    fields: list[_FieldSource]


class _StructSource(TypedDict):
    name: str
    versions: str
    fields: list[_FieldSource]


class _MessageSource(TypedDict, total=False):
    apiKey: int
    type: str
    listeners: list[str]
    name: str
    validVersions: str
    flexibleVersions: str
    latestVersionUnstable: bool
    draft: bool
    fields: list[_FieldSource]
    commonStructs: list[_StructSource]


class SchemaError(ValueError):
    """The schema breaks a rule of the format."""


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; empty where `lowest` is above `highest`."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.lowest, other.lowest), min(self.highest, other.highest))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.highest == _NO_END:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE = Versions(0, -1)


@dataclass(frozen=True)
class Field:
    """One field of a struct.

    `kind` is the type without its array brackets; `struct` is set where it names one. `flexible` is set where the field
    does not follow its message in this. `default` is a Python value; an array's empty default is `()`, and a struct's
    own default is `...`.
    """

    name: str
    kind: str
    is_array: bool
    struct: StructSpec | None
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions | None
    default: Default
    ignorable: bool
    map_key: bool
    entity: str | None
    about: str | None

    @cached_property
    def python_name(self) -> str:
        name = snake_case(self.name)
        return f"{name}_" if keyword.iskeyword(name) else name

    def of(self, struct: Struct) -> Value:
        """Its value in a struct."""
        # Code that is written for all messages names fields by their schema: here, and in `put`, and nowhere else.
        value: Value = getattr(struct, self.python_name)
        return value

    def put(self, struct: Struct, value: Value) -> None:
        """Give it a value in a struct."""
        setattr(struct, self.python_name, value)

    def all_of(self, struct: Struct) -> Sequence[Value]:
        """The values of an array; of any other field its only value."""
        value = self.of(struct)
        return value if self.is_array and isinstance(value, list) else (value,)

    def structs_of(self, struct: Struct) -> Iterator[Struct]:
        """The structs that it holds, one or many; none where it is null."""
        from msgspec import Struct  # not at build time

        return (each for each in self.all_of(struct) if isinstance(each, Struct))

    @property
    def json_name(self) -> str:
        return self.name[0].lower() + self.name[1:]

    @property
    def fixed(self) -> tuple[str, int] | None:
        """Character for the struct module and size, of a field that is one value of fixed size."""
        return None if self.is_array else FIXED.get(self.kind)

    def is_compact(self, version: int, message: MessageSpec) -> bool:
        """Whether lengths are varints plus one."""
        return version in (message.flexible if self.flexible is None else self.flexible)


@dataclass(frozen=True)
class StructSpec:
    """A struct, in which every array element and every struct field of its type has the same fields."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]

    def field(self, python_name: str) -> Field | None:
        """The field of this name in Python, if there is one."""
        return next((field for field in self.fields if field.python_name == python_name), None)

    def present(self, version: int) -> list[Field]:
        """The fields that have a fixed order on the wire."""
        return [field for field in self.fields if version in field.versions and version not in field.tagged]

    def tagged(self, version: int) -> list[Field]:
        """The tagged fields, by tag."""
        return sorted((f for f in self.fields if version in f.tagged), key=lambda field: field.tag or 0)


@dataclass(frozen=True)
class MessageSpec:
    """One message with all its versions."""

    name: str
    type: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    unstable: bool
    draft: bool
    """Whether no release of Kafka has the message: only dialects offer it."""
    root: StructSpec
    extends: str | None = None
    """The module of the ordinary message that a dialect's message stands for; its structs are below that one's."""

    @property
    def module_name(self) -> str:
        return snake_case(self.name)

    def extending(self, module: str) -> MessageSpec:
        """The same message, of a dialect: it stands for the ordinary one of this module."""
        return replace(self, extends=module)

    def minimal_size(self, struct: StructSpec, version: int) -> int:
        """The fewest bytes that one of its structs takes in this version."""
        size = 1 if version in self.flexible else 0
        return size + sum(self.minimal_field_size(field, version) for field in struct.present(version))

    def minimal_field_size(self, field: Field, version: int) -> int:
        if field.fixed is not None:
            return field.fixed[1]
        if field.struct is not None and not field.is_array:
            return 1 if version in field.nullable else self.minimal_size(field.struct, version)
        if field.is_compact(version, self):
            return 1
        return 2 if field.kind == "string" and not field.is_array else 4

    def structs(self) -> list[StructSpec]:
        """Every struct of the message once, used ones before their users, the root last."""
        found: dict[str, StructSpec] = {}

        def visit(struct: StructSpec) -> None:
            for field in struct.fields:
                if field.struct is not None:
                    visit(field.struct)
            found.setdefault(struct.name, struct)

        visit(self.root)
        return list(found.values())


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def load(path: Path) -> MessageSpec:
    """Read one schema file."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def parse(text: str) -> MessageSpec:
    try:
        source: Json = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from None
    if not isinstance(source, dict):
        raise SchemaError("not a JSON object")
    return _Parser(_checked(source)).message()


def _checked(source: Mapping[str, Json]) -> _MessageSource:
    _require(source, {"name", "type", "validVersions", "flexibleVersions", "fields"}, _MESSAGE_KEYS, "message")
    return cast("_MessageSource", source)


class _Parser:
    def __init__(self, source: _MessageSource) -> None:
        self.source = source
        self.name: str = source["name"]
        self.versions = _versions(source["validVersions"], self.name)
        self.flexible = _versions(source["flexibleVersions"], self.name) & self.versions
        self.common: dict[str, _StructSource] = {}
        self.done: dict[str, StructSpec] = {}
        self.open: list[str] = []

    def message(self) -> MessageSpec:
        source = self.source
        if source["type"] not in _TYPES:
            raise SchemaError(f"{self.name}: unknown message type {source['type']!r}")
        for struct in source.get("commonStructs", []):
            _require(struct, {"name", "versions", "fields"}, {"name", "versions", "fields", "about"}, self.name)
            self.common[struct["name"]] = struct
        root = self.struct(self.name, source["fields"], self.versions, self.name)
        return MessageSpec(
            name=self.name,
            type=source["type"],
            api_key=source.get("apiKey"),
            versions=self.versions,
            flexible=self.flexible,
            listeners=tuple(source.get("listeners", ())),
            unstable=source.get("latestVersionUnstable", False),
            draft=source.get("draft", False),
            root=root,
        )

    def struct(self, name: str, fields: list[_FieldSource], versions: Versions, path: str) -> StructSpec:
        if name in self.open:
            # A reader follows the schema to its bottom, so there has to be one.
            raise SchemaError(f"{path}: {name} contains itself")
        self.open.append(name)
        done = tuple(self.field(field, versions, path) for field in fields)
        self.open.pop()
        spec = StructSpec(name, versions, done)
        _check_struct(spec, path)
        if self.done.setdefault(name, spec) != spec:
            raise SchemaError(f"{path}: two structs are named {name}")
        return spec

    def field(self, source: _FieldSource, parent: Versions, path: str) -> Field:
        path = f"{path}.{source.get('name', '?')}"
        _require(source, {"name", "type"}, _FIELD_KEYS, path)
        tagged = _versions(source.get("taggedVersions", "none"), path) & parent
        # A field that names only its tagged versions is in no others.
        versions = _versions(source.get("versions", source.get("taggedVersions", "none")), path) & parent
        kind = source["type"].removeprefix("[]")
        field = Field(
            name=source["name"],
            kind=kind,
            is_array=source["type"].startswith("[]"),
            struct=self.field_struct(source, kind, versions, path),
            versions=versions,
            nullable=_versions(source.get("nullableVersions", "none"), path) & versions,
            tagged=tagged,
            tag=source.get("tag"),
            flexible=_versions(source["flexibleVersions"], path) if "flexibleVersions" in source else None,
            default=_default(source, kind, path),
            ignorable=source.get("ignorable", False),
            map_key=source.get("mapKey", False),
            entity=source.get("entityType"),
            about=source.get("about"),
        )
        self.check_field(field, path)
        return field

    def field_struct(self, source: _FieldSource, kind: str, versions: Versions, path: str) -> StructSpec | None:
        if kind in FIXED or kind in _VARIABLE:
            if "fields" in source:
                raise SchemaError(f"{path}: a {kind} has no fields")
            return None
        if "fields" in source:
            return self.struct(kind, source["fields"], versions, path)
        if kind not in self.common:
            raise SchemaError(f"{path}: unknown type {kind}")
        common = self.common[kind]
        return self.struct(kind, common["fields"], _versions(common["versions"], path) & self.versions, kind)

    def check_field(self, field: Field, path: str) -> None:
        if (field.tag is None) != (not field.tagged) and field.versions:
            raise SchemaError(f"{path}: tag and taggedVersions belong together")
        if any(version not in self.flexible for version in field.tagged):
            raise SchemaError(f"{path}: tagged in a version that is not flexible")
        if any(version not in field.versions for version in field.tagged):
            raise SchemaError(f"{path}: tagged in a version that does not have it")
        if field.nullable and field.fixed is not None:
            raise SchemaError(f"{path}: a {field.kind} cannot be null")


def _check_struct(spec: StructSpec, path: str) -> None:
    names = [field.python_name for field in spec.fields]
    if len(set(names)) != len(names):
        raise SchemaError(f"{path}: {spec.name} has a field twice")
    tags = sorted(field.tag for field in spec.fields if field.tag is not None)
    # Kafka's generator wants the tags of a struct to count up from 0 without a gap.
    if tags != list(range(len(tags))):
        raise SchemaError(f"{path}: the tags of {spec.name} are {tags}, not 0 and up without a gap")


def _require(source: Mapping[str, object], needed: set[str], known: set[str] | frozenset[str], path: str) -> None:
    if missing := needed - source.keys():
        raise SchemaError(f"{path}: {', '.join(sorted(missing))} is missing")
    if unknown := source.keys() - known:
        raise SchemaError(f"{path}: unknown key {', '.join(sorted(unknown))}")


def _versions(text: str, path: str) -> Versions:
    if text == "none":
        return NONE
    found = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
    if found is None:
        raise SchemaError(f"{path}: {text!r} is not a range of versions")
    lowest = int(found[1])
    if found[2] == "+":
        return Versions(lowest, _NO_END)
    return Versions(lowest, int(found[3]) if found[3] else lowest)


def _default(source: _FieldSource, kind: str, path: str) -> Default:
    """The default as a Python value. A JSON null counts as no default at all; the string "null" is the null default."""
    value = source.get("default")
    if value == "null":
        return None
    if source["type"].startswith("[]"):
        return ()
    if value is None or value == "":
        return _EMPTY.get(kind, 0) if kind in FIXED or kind in _VARIABLE else ...
    try:
        return _given_default(value, kind)
    except (TypeError, ValueError):
        raise SchemaError(f"{path}: {value!r} is no default for {kind}") from None


def _given_default(value: bool | int | float | str, kind: str) -> Scalar:
    match kind:
        case "bool" if value in (True, False, "true", "false"):
            return value in (True, "true")
        case "string":
            return str(value)
        case "float64":
            return float(value)
        case "int8" | "int16" | "uint16" | "int32" | "uint32" | "int64":
            return int(value, 0) if isinstance(value, str) else int(value)
        case _:
            raise ValueError(kind)
