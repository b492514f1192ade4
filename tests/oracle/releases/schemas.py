"""What a release changed in Kafka's schemas, carried over into those of Odradek.

Odradek's schemas reach back to older versions, and say less, so they are not replaced: the difference between the
schemas of two releases is applied to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct, field
from tests.oracle.releases.material import Json

__all__ = ["FOLDERS", "SCHEMAS", "Merge", "as_text", "own_schemas", "path_of"]

SCHEMAS = Path(__file__).parents[3] / "protocol_schemas"
FOLDERS = ("messages", "records")
RANGES = frozenset({"versions", "validVersions", "nullableVersions", "taggedVersions", "flexibleVersions"})
ORDER = ("name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable", "entityType")
"""The keys of a field, as far as they have an order; the others follow."""
TYPES_OF_RECORDS = frozenset({"metadata", "coordinator-key", "coordinator-value"})
Object = dict[str, Json]


def own_schemas() -> dict[str, Object]:
    """Odradek's schemas, by the name of the message."""
    paths = [path for folder in FOLDERS for path in sorted((SCHEMAS / folder).glob("*.json"))]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def path_of(schema: Object) -> Path:
    """The file of a schema: where it is, or, for a new one, where those of its type are."""
    name = f"{schema['name']}.json"
    for folder in FOLDERS:
        if (SCHEMAS / folder / name).exists():
            return SCHEMAS / folder / name
    return SCHEMAS / ("records" if schema["type"] in TYPES_OF_RECORDS else "messages") / name


class Merge(Struct):
    """The change from one schema to another, applied to a third one; what cannot be applied is a complaint."""

    complaints: list[str] = field(default_factory=list)

    def of_messages(
        self, before: Mapping[str, Object], after: Mapping[str, Object], ours: Mapping[str, Object]
    ) -> dict[str, Object]:
        """The schemas of ours that change, as they are then; new ones too."""
        changed: dict[str, Object] = {}
        for name, schema in after.items():
            if name not in before:
                if in_order(schema) != in_order(ours.get(name, {})):
                    changed[name] = in_order(schema)
            elif schema != before[name] and name in ours:
                merged = self.of_objects(name, before[name], schema, ours[name])
                if merged != ours[name]:
                    changed[name] = merged
            elif schema != before[name]:
                self.complaints.append(f"{name} changes, and Odradek has no such message")
        self.complaints += [f"{name} is gone, and its file stays" for name in before.keys() - after.keys()]
        return changed

    def of_objects(self, place: str, before: Object, after: Object, ours: Object) -> Object:
        """Key by key; a key that the release has dropped is dropped."""
        merged: Object = {}
        for key in dict.fromkeys([*ours, *after]):
            if key in after:
                value = self.of_values(f"{place}.{key}", key, before.get(key), after[key], ours.get(key))
                if key in ours or value != before.get(key):
                    merged[key] = value
            elif key not in before:
                merged[key] = ours[key]
        return merged if merged.keys() <= ours.keys() else sorted_keys(merged)

    def of_values(self, place: str, key: str, before: Json, after: Json, ours: Json) -> Json:
        if before == after or after == ours:
            return ours if before == after else after
        if isinstance(after, dict) and isinstance(before, dict) and isinstance(ours, dict):
            return self.of_objects(place, before, after, ours)
        if isinstance(after, list) and isinstance(before, list) and isinstance(ours, list) and is_named(after):
            return self.of_lists(place, before, after, ours)
        if ours is None or ours == before:
            return after
        if key in RANGES:
            return self.of_ranges(place, str(before), str(after), str(ours))
        self.complaints.append(f"{place}: {ours} here, and the release changes {before} to {after}")
        return ours

    def of_lists(self, place: str, before: list[Json], after: list[Json], ours: list[Json]) -> list[Json]:
        """Fields by their names, in the order of the release; those that only Odradek has stay in their place."""
        old, new, own = named(before), named(after), named(ours)
        merged = {
            name: self.of_objects(f"{place}.{name}", old.get(name, {}), value, own[name]) if name in own else value
            for name, value in new.items()
            if name in own or name not in old
        }
        names = list(merged)
        for place_, name in enumerate(own):
            if name not in new and name not in old:
                behind = [names.index(each) + 1 for each in list(own)[:place_] if each in names]
                names.insert(max(behind, default=0), name)
        return [merged.get(name, own.get(name)) for name in names]

    def of_ranges(self, place: str, before: str, after: str, ours: str) -> str:
        """A range of versions: its beginning is Odradek's own, its end that of the release."""
        low, high = ends(ours)
        if ends(before)[0] != ends(after)[0] or ends(before)[1] != high:
            self.complaints.append(f"{place}: {ours} here, and the release changes {before} to {after}")
        return f"{low}-{ends(after)[1]}" if ends(after)[1] else f"{low}+"


def ends(versions: str) -> tuple[str, str]:
    """The ends of a range; the second is empty where it is open."""
    low, dash, high = versions.removesuffix("+").partition("-")
    return low, high if dash else "" if versions.endswith("+") else low


def is_named(values: list[Json]) -> bool:
    return all(isinstance(value, dict) and "name" in value for value in values)


def named(values: list[Json]) -> dict[str, Object]:
    fields = [cast("Object", value) for value in values]
    assert len({str(value["name"]) for value in fields}) == len(fields), "two fields have one name"
    return {str(value["name"]): value for value in fields}


def in_order(schema: Object) -> Object:
    """A schema of Kafka with the keys of its fields in the order of Odradek's files."""

    def sort(each: Json) -> Json:
        if isinstance(each, list):
            return [sort(item) for item in each]
        if isinstance(each, dict):
            return {key: sort(value) for key, value in sorted_keys(each).items()}
        return each

    return {key: sort(value) for key, value in schema.items()}


def sorted_keys(each: Object) -> Object:
    return {**{key: each[key] for key in ORDER if key in each and "versions" in each}, **each}


def as_text(schema: Object) -> str:
    """A schema as its file is written: a line for each key, and for each field that fits into one."""
    lines = [f"  {json.dumps(key)}: {laid_out(value, '  ')}" for key, value in schema.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def laid_out(value: Json, indent: str) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return json.dumps(value)
    lines = ",\n".join(field_line(cast("Object", each), indent + "  ") for each in value)
    return f"[\n{lines}\n{indent}]"


def field_line(each: Object, indent: str) -> str:
    words = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in each.items() if key != "fields"]
    if "fields" not in each:
        return f"{indent}{{ {', '.join(words)} }}"
    return f'{indent}{{ {", ".join(words)}, "fields": {laid_out(each["fields"], indent)}}}'
