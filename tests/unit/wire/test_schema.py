"""The schema format: what it means, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.wire.generate import SCHEMAS
from odradek.wire.schema import SchemaError, Versions, load, parse, snake_case


def message(*fields: dict[str, Any], **more: Any) -> str:
    head = {"name": "M", "type": "data", "validVersions": "0-9", "flexibleVersions": "5+"}
    return json.dumps({**head, "fields": list(fields), **more})


def field(name: str = "F", kind: str = "int32", versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("TopicData", "topic_data"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("Enable2Pc", "enable2_pc"),
        ("isKRaftController", "is_k_raft_controller"),
        ("group", "group"),
    ],
)
def test_snake_case(name: str, python: str) -> None:
    assert python == snake_case(name)


@pytest.mark.parametrize(
    ("text", "versions"), [("0-9", range(10)), ("3", [3]), ("7+", [7, 8, 9]), ("2-4", [2, 3, 4]), ("none", [])]
)
def test_versions(text: str, versions: list[int]) -> None:
    (only,) = parse(message(field(versions=text))).root.fields
    assert list(versions) == list(only.versions)
    assert bool(versions) == bool(only.versions)


def test_versions_as_text() -> None:
    texts = [str(Versions(*pair)) for pair in ((0, 9), (3, 3), (1, 0x7FFF), (0, -1))]
    assert ["0-9", "3", "1+", "none"] == texts


@pytest.mark.parametrize(
    ("source", "default"),
    [
        ({"type": "int32"}, 0),
        ({"type": "int32", "default": "-1"}, -1),
        ({"type": "int32", "default": -1}, -1),
        ({"type": "int32", "default": "0x7fffffff"}, 2**31 - 1),
        ({"type": "uint16", "default": "7"}, 7),
        ({"type": "bool"}, False),
        ({"type": "bool", "default": "true"}, True),
        ({"type": "bool", "default": False}, False),
        ({"type": "float64"}, 0.0),
        ({"type": "string"}, ""),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "nullableVersions": "0+", "default": "null"}, None),
        ({"type": "bytes"}, b""),
        ({"type": "records"}, None),
        ({"type": "uuid"}, bytes(16)),
        ({"type": "[]int32"}, ()),
        ({"type": "[]int32", "nullableVersions": "0+", "default": "null"}, None),
        # A null without quotes counts as no default.
        ({"type": "[]int32", "nullableVersions": "0+", "default": None}, ()),
        ({"type": "S", "fields": [], "nullableVersions": "0+", "default": None}, ...),
        ({"type": "S", "fields": [], "nullableVersions": "0+", "default": "null"}, None),
        ({"type": "S", "fields": []}, ...),
    ],
)
def test_defaults(source: dict[str, Any], default: Any) -> None:
    (only,) = parse(message({"name": "F", "versions": "0+", **source})).root.fields
    assert default == only.default
    assert type(default) is type(only.default)


def test_field_with_tagged_versions_only() -> None:
    spec = parse(message({"name": "F", "type": "int8", "taggedVersions": "6+", "tag": 0}))
    assert [] == spec.root.present(6)
    assert ["F"] == [tagged.name for tagged in spec.root.tagged(6)]
    assert [] == spec.root.tagged(5)


def test_tagged_only_in_later_versions() -> None:
    spec = parse(message(field(taggedVersions="7+", tag=0)))
    assert ["F"] == [present.name for present in spec.root.present(6)]
    assert [] == spec.root.present(7)


def test_common_struct_is_one() -> None:
    common = {"name": "S", "versions": "0+", "fields": [field("X")]}
    spec = parse(message(field("A", "S"), field("B", "[]S"), commonStructs=[common]))
    assert ["S", "M"] == [struct.name for struct in spec.structs()]


def test_minimal_size() -> None:
    inner = field("S", "[]S", fields=[field("T", "string"), field("U", "uuid", "5+")])
    spec = parse(message(field(), inner))
    assert 4 + 4 == spec.minimal_size(spec.root, 0)
    assert 4 + 1 + 1 == spec.minimal_size(spec.root, 5)
    (struct, _) = spec.structs()
    assert 2 == spec.minimal_size(struct, 0)
    assert 1 + 16 + 1 == spec.minimal_size(struct, 5)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("[", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "fields, flexibleVersions, name, type, validVersions is missing"),
        (message(colour="red"), "unknown key colour"),
        (message(type="letter"), "unknown message type 'letter'"),
        (message(validVersions="1-"), "'1-' is not a range of versions"),
        (message({"name": "F"}), "M.F: type is missing"),
        (message(field(nullable="0+")), "M.F: unknown key nullable"),
        (message(field(kind="int128")), "M.F: unknown type int128"),
        (message(field(kind="[]Nowhere")), "M.F: unknown type Nowhere"),
        (message(field(fields=[])), "M.F: a int32 has no fields"),
        (message(field(nullableVersions="0+")), "M.F: a int32 cannot be null"),
        (message(field(default="many")), "'many'"),
        (message(field(kind="bool", default="maybe")), "M.F: 'maybe' is no default for bool"),
        (message(field(kind="uuid", default="x")), "M.F: 'x' is no default for uuid"),
        (message(field(tag=0)), "M.F: tag and taggedVersions belong together"),
        (message(field(taggedVersions="5+")), "M.F: tag and taggedVersions belong together"),
        (message(field(taggedVersions="4+", tag=0)), "M.F: tagged in a version that is not flexible"),
        (message(field(versions="6+", taggedVersions="5+", tag=0)), "M.F: tagged in a version that does not have it"),
        (message(field(taggedVersions="5+", tag=1)), "the tags of M are [1]"),
        (message(field("Foo"), field("foo")), "M has a field twice"),
        (message(field("A", "S", fields=[]), field("B", "S", fields=[field()])), "two structs are named S"),
        (
            message(field("A", "S"), commonStructs=[{"name": "S", "versions": "0+", "fields": [field("B", "[]S")]}]),
            "S contains itself",
        ),
    ],
)
def test_what_is_refused(source: str, complaint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(source)
    assert complaint in str(caught.value)


def test_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "M.json"
    path.write_text(message(field(kind="int128")))
    with pytest.raises(SchemaError, match=r"M\.json: M\.F: unknown type int128"):
        load(path)


def test_schemas_of_the_repository() -> None:
    specs = [load(path) for path in SCHEMAS.glob("*/*.json")]
    assert len(specs) > 280
    pairs = {(spec.type, spec.api_key) for spec in specs}
    assert {key for kind, key in pairs if kind == "request"} == {key for kind, key in pairs if kind == "response"}
