"""Which ids a request carries, and where: read off the schemas, once for each version of an API.

A field is an id by its `entityType`, or by its name where the schemas give none (partitions, the groups of share APIs).
The schemas cannot say what the keys of FindCoordinator and the resources of the config APIs are: a field beside them
does (`KEYED`). The producer id of a Produce stands in its record batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from struct import Struct as Layout

from msgspec import Struct

from odradek.wire import registry
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec, Value

__all__ = ["Carried", "Test", "TopicOf", "carried"]

Test = Callable[[str | int | None], bool]
"""Whether an id, or the id of a client, is one of those that are meant."""
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

    __slots__ = ("_field", "_kinds", "_told_by")

    def __init__(self, field: Field, told_by: Field | None, kinds: Mapping[int, str]) -> None:
        """`kinds` are the kinds of ids by the value of the field `told_by`; without such a field it is one, at 0."""
        self._field = field
        self._told_by = told_by
        self._kinds = kinds

    @property
    def possible(self) -> frozenset[str]:
        return frozenset(self._kinds.values())

    def kind(self, struct: Struct) -> str | None:
        """The kind of id that this message holds here."""
        told = 0 if self._told_by is None else self._told_by.of(struct)
        return self._kinds.get(told) if isinstance(told, int) else None

    def values(self, struct: Struct, topic_of: TopicOf) -> Iterator[str | int]:
        for held in self._field.all_of(struct):
            value = _id_in(held, self._field.kind, topic_of)
            if value is not None and value != "":
                yield value


class _Level:
    """One struct of a request: the ids that stand in it, and the lists of structs below."""

    __slots__ = ("below", "ids", "kinds")

    def __init__(self, ids: list[_Id], below: list[tuple[Field, _Level]]) -> None:
        self.ids = ids
        self.below = below
        own: frozenset[str] = frozenset().union(*(each.possible for each in ids))
        self.kinds: frozenset[str] = own.union(*(level.kinds for _, level in below))

    def structs(self, struct: Struct) -> Iterator[tuple[_Level, Struct]]:
        for field, level in self.below:
            for each in field.structs_of(struct):
                yield level, each

    def holds(self, struct: Struct, wanted: Mapping[str, Test], topic_of: TopicOf) -> bool:
        rest = dict(wanted)
        for field in self.ids:
            kind = field.kind(struct)
            if kind is None or kind not in wanted:
                continue
            if any(map(wanted[kind], field.values(struct, topic_of))):
                rest.pop(kind, None)
        return not rest or any(level.holds(each, rest, topic_of) for level, each in self.structs(struct))

    def gather(self, struct: Struct, found: dict[str, list[str | int]], topic_of: TopicOf, most: int) -> None:
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

    def holds(self, request: Struct, wanted: Mapping[str, Test], topic_of: TopicOf) -> bool:
        """Whether ids of these kinds that pass these tests stand together in the request."""
        return not wanted or (wanted.keys() <= self.kinds and self._root.holds(request, wanted, topic_of))

    def ids(self, request: Struct, topic_of: TopicOf, most: int = 10) -> dict[str, list[str | int]]:
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
    below: list[tuple[Field, _Level]] = []
    for field in spec.fields:
        if version not in field.versions:
            continue
        if field.struct is not None:
            level = _level(field.struct, version)
            if level is not None:
                below.append((field, level))
        elif (found := _id(field, spec)) is not None:
            ids.append(found)
    return _Level(ids, below) if ids or below else None


def _id(field: Field, beside: StructSpec) -> _Id | None:
    if field.kind == "records":
        return _Id(field, None, {0: "producer_id"})
    kind = ENTITIES.get(field.entity or "") or NAMED.get((field.python_name, field.kind))
    if kind is not None:
        return _Id(field, None, {0: kind})
    name, kinds = KEYED.get(field.python_name, ("", {}))
    told_by = beside.field(name)
    return None if told_by is None else _Id(field, told_by, kinds)


def _id_in(held: Value, kind: str, topic_of: TopicOf) -> str | int | None:
    match kind, held:
        case "uuid", bytes():
            return topic_of(held) if any(held) else None
        case "records", (bytes() | memoryview()):
            return _producer_id(held)
        case _, (str() | int()):
            return held
    return None


def _producer_id(records: bytes | memoryview) -> int | None:
    """The producer id of the first batch; formats before v2 have none (KIP-98)."""
    if len(records) < _PRODUCER_ID + _INT64.size or records[_MAGIC] < 2:
        return None
    producer_id: int = _INT64.unpack_from(records, _PRODUCER_ID)[0]
    return producer_id
