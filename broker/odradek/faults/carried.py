"""Which ids a request carries, and where: read off the schemas, once for each version of an API.

A field is an id by its `entityType`, or by its name where the schemas give none (partitions, the groups of share APIs).
The schemas cannot say what the keys of FindCoordinator and the resources of the config APIs are: a field beside them
does (`KEYED`). The producer id of a Produce stands in its record batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from struct import Struct as Layout
from typing import Any

from odradek.wire import registry
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec

__all__ = ["Carried", "TopicOf", "carried"]

TopicOf = Callable[[bytes], str | None]
"""The name of the topic that has an id; requests of later versions carry that alone (KIP-516)."""

ENTITIES = {
    "transactionalId": "transactional_id",
    "producerId": "producer_id",
    "groupId": "group",
    "topicName": "topic",
}
NAMED: dict[tuple[str, str], str] = {
    ("group_id", "string"): "group",
    ("partition", "int32"): "partition",
    ("partition_index", "int32"): "partition",
    ("partition_indexes", "int32"): "partition",
    ("partitions", "int32"): "partition",
    ("index", "int32"): "partition",
    ("topic_id", "uuid"): "topic",
    ("topic_ids", "uuid"): "topic",
}
"""Ids by the name and type of their field."""
KEYED: dict[str, tuple[str, dict[int, str]]] = {
    "key": ("key_type", {0: "group", 1: "transactional_id"}),
    "coordinator_keys": ("key_type", {0: "group", 1: "transactional_id"}),
    "resource_name": ("resource_type", {2: "topic", 32: "group"}),
}
"""Ids whose kind stands in the field beside them: its name, and its values."""
_MAGIC = 16
_PRODUCER_ID = 43
_INT64 = Layout(">q")


class _Id:
    """One field that holds ids."""

    __slots__ = ("_kind", "_kinds", "_records", "_told_by", "_uuid", "attribute", "is_list")

    def __init__(self, field: Field, kind: str | None, told_by: str | None, kinds: Mapping[int, str]) -> None:
        self.attribute = field.python_name
        self.is_list = field.is_array
        self._kind = kind
        self._told_by = told_by
        self._kinds = kinds
        self._uuid = field.kind == "uuid"
        self._records = field.kind == "records"

    @property
    def possible(self) -> frozenset[str]:
        return frozenset(self._kinds.values()) if self._kind is None else frozenset((self._kind,))

    def kind(self, struct: Any) -> str | None:
        """The kind of id that this message holds here."""
        return self._kind if self._told_by is None else self._kinds.get(getattr(struct, self._told_by))

    def values(self, struct: Any, topic_of: TopicOf) -> Iterator[str | int]:
        value = getattr(struct, self.attribute)
        for each in value if self.is_list and value is not None else (value,):
            if self._uuid:
                each = topic_of(each) if each != bytes(16) else None
            elif self._records:
                each = _producer_id(each)
            if each is not None and each != "":
                yield each


class _Level:
    """One struct of a request: the ids that stand in it, and the lists of structs below."""

    __slots__ = ("below", "ids", "kinds")

    def __init__(self, ids: list[_Id], below: list[tuple[str, bool, _Level]]) -> None:
        self.ids = ids
        self.below = below
        own: frozenset[str] = frozenset().union(*(each.possible for each in ids))
        self.kinds: frozenset[str] = own.union(*(level.kinds for _, _, level in below))

    def structs(self, struct: Any) -> Iterator[tuple[_Level, Any]]:
        for attribute, is_list, level in self.below:
            value = getattr(struct, attribute)
            if value is not None:
                for each in value if is_list else (value,):
                    yield level, each

    def holds(self, struct: Any, wanted: Mapping[str, Callable[[Any], bool]], topic_of: TopicOf) -> bool:
        rest = dict(wanted)
        for field in self.ids:
            kind = field.kind(struct)
            if kind is None or kind not in wanted:
                continue
            if any(map(wanted[kind], field.values(struct, topic_of))):
                rest.pop(kind, None)
        return not rest or any(level.holds(each, rest, topic_of) for level, each in self.structs(struct))

    def gather(self, struct: Any, found: dict[str, list[str | int]], topic_of: TopicOf, most: int) -> None:
        for field in self.ids:
            kind = field.kind(struct)
            if kind is not None:
                values = found.setdefault(kind, [])
                for value in field.values(struct, topic_of):
                    if len(values) >= most:
                        break
                    if value not in values and value != -1:
                        values.append(value)
        for level, each in self.structs(struct):
            level.gather(each, found, topic_of, most)


class Carried:
    """The ids of one version of a request."""

    def __init__(self, root: _Level) -> None:
        self._root = root
        self.kinds = root.kinds
        """The kinds of ids that it carries."""

    def holds(self, request: object, wanted: Mapping[str, Callable[[Any], bool]], topic_of: TopicOf) -> bool:
        """Whether ids of these kinds that pass these tests stand together in the request."""
        return not wanted or (wanted.keys() <= self.kinds and self._root.holds(request, wanted, topic_of))

    def ids(self, request: object, topic_of: TopicOf, most: int = 10) -> dict[str, list[str | int]]:
        """The ids of a request, so many of each kind at most."""
        found: dict[str, list[str | int]] = {}
        self._root.gather(request, found, topic_of, most)
        return {kind: values for kind, values in found.items() if values}


@cache
def carried(api_key: ApiKey, version: int) -> Carried:
    """The ids of a version of an API's request."""
    spec = registry.spec(registry.request_type(api_key))
    level = _level(spec.root, version)
    return Carried(level if level is not None else _Level([], []))


def _level(spec: StructSpec, version: int) -> _Level | None:
    ids: list[_Id] = []
    below: list[tuple[str, bool, _Level]] = []
    for field in spec.fields:
        if version not in field.versions:
            continue
        if field.struct is not None:
            level = _level(field.struct, version)
            if level is not None:
                below.append((field.python_name, field.is_array, level))
        elif (found := _id(field, spec)) is not None:
            ids.append(found)
    return _Level(ids, below) if ids or below else None


def _id(field: Field, beside: StructSpec) -> _Id | None:
    if field.kind == "records":
        return _Id(field, "producer_id", None, {})
    kind = ENTITIES.get(field.entity or "") or NAMED.get((field.python_name, field.kind))
    if kind is not None:
        return _Id(field, kind, None, {})
    told_by, kinds = KEYED.get(field.python_name, ("", {}))
    told = any(each.python_name == told_by for each in beside.fields)
    return _Id(field, None, told_by, kinds) if told else None


def _producer_id(records: memoryview | None) -> int | None:
    """Of the first batch; before the second format there were none (KIP-98)."""
    if records is None or len(records) < _PRODUCER_ID + _INT64.size or records[_MAGIC] < 2:
        return None
    producer_id: int = _INT64.unpack_from(records, _PRODUCER_ID)[0]
    return producer_id
