"""A new release is compared with the one before: played with 4.3 and 4.4, from what is recorded of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace
from tests.oracle.releases import news, schemas
from tests.oracle.releases.chosen import chosen_scenarios
from tests.oracle.releases.material import KINDS, ConfigKey, Json, has_material, recorded_material
from tests.oracle.releases.news import answers_that_differ, last_two, left_over, steps, write_schemas
from tests.oracle.releases.overlays import RECORDED, Told, before, module_text, told_by
from tests.oracle.releases.real import VERSIONS
from tests.oracle.releases.schemas import Merge, Object, as_text, ends, own_schemas, path_of

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import text_of
from odradek.config.table import BROKER_KEYS, TOPIC_KEYS, Config
from odradek.config.without_effect import INERT_KEYS
from odradek.metadata.group_configs import GROUP_KEYS, HIDDEN_GROUP_KEYS, default_text
from odradek.releases.before import Before, Newest
from odradek.releases.table import RELEASES
from odradek.wire.errors import ErrorCode

OLD, NEW = "4.3", "4.4"
BEFORE, AFTER = recorded_material(OLD), recorded_material(NEW)
CHANGED = sorted(name for name, schema in AFTER.schemas.items() if BEFORE.schemas.get(name) != schema)
OURS = own_schemas()
COPIED_LONG_AGO = {"AbortedTxn"}
"""Kafka wrote the schema down in 4.4; Odradek had it before."""


def module(text: str) -> ModuleType:
    made = ModuleType("recorded")
    exec(compile(text, "recorded.py", "exec"), made.__dict__)
    return made


def test_the_overlays_are_what_would_be_written_now() -> None:
    assert RECORDED.read_text() == module_text([told_by(release) for release in VERSIONS])


def test_the_text_says_what_was_compared() -> None:
    told = [told_by(release) for release in VERSIONS]

    made = module(module_text(told))

    rows = [before(older, newer) for older, newer in pairwise(told)]
    assert tuple(reversed(rows)) == made.OLDER


def test_all_of_a_release_that_is_told_is_in_the_overlay() -> None:
    """Each way in which 4.4 differs from 4.3 is there, and nothing else: one change at a time."""
    newer = told_by(NEW)
    changes: dict[str, Told] = {
        "apis": replace(newer, apis={**newer.apis, "FETCH": (4, 17)}),
        "features": replace(newer, features={**newer.features, "share.version": (0, 1)}),
        "levels": replace(newer, levels={**newer.levels, "share.version": 1}),
        "unstable_apis": replace(newer, unstable_apis={}),
        "unstable_features": replace(newer, unstable_features={}),
        "lacks": replace(newer, configs={**(newer.configs or {}), "topic": {}}),
        "defaults": replace(newer, configs={**(newer.configs or {}), "broker": with_default("compression.type", "x")}),
    }
    for field, older in changes.items():
        row = before(older, newer)
        said = {name for name in Before.__struct_fields__ if name != "name" and getattr(row, name)}

        assert said == {field}, field


def with_default(name: str, default: str) -> dict[str, ConfigKey]:
    keys = dict(AFTER.configs["broker"])
    return {**keys, name: replace(keys[name], default=default)}


def test_a_release_to_come_lies_over_the_newest() -> None:
    """4.5, made up: an API that no schema has, a higher version, a feature, a key, another default."""
    newest = told_by(NEW)
    keys = {**with_default("compression.type", "zstd"), "brand.new": ConfigKey("int", default="5")}
    to_come = replace(
        newest,
        name="4.5",
        apis={**newest.apis, "95": (0, 0), "END_TXN": (0, 6)},
        features={**newest.features, "metadata.version": (7, 36), "queue.version": (0, 1)},
        levels={**newest.levels, "metadata.version": 36},
        configs={**(newest.configs or {}), "broker": keys},
    )

    made = module(module_text([told_by(OLD), newest, to_come]))

    assert isinstance(made.NEWEST, Newest)
    assert (made.NEWEST.name, made.NEWEST.features["queue.version"]) == ("4.5", (0, 1))
    four, three = made.OLDER
    release = four.under(replace(RELEASES[NEW], apis=to_come.apis, features=to_come.features), {})
    assert (release.name, release.apis, release.features) == ("4.4", newest.apis, newest.features)
    assert {"brand.new"} == release.lacks - RELEASES[NEW].lacks
    assert release.defaults == {"compression.type": "producer"}
    assert "brand.new" in three.under(release, {}).lacks


def as_before(name: str) -> dict[str, Object]:
    """Our schema as it was when 4.3 was the newest; none where the message is new."""
    back = Merge()
    then = back.of_messages(AFTER.schemas, BEFORE.schemas, OURS)
    assert not [complaint for complaint in back.complaints if "is gone" not in complaint]
    return {name: then[name]} if name in BEFORE.schemas else {}


@pytest.mark.parametrize("name", CHANGED)
def test_the_schemas_of_today_come_out_of_those_of_the_release_before(name: str) -> None:
    """Ours without what is newer than 4.3, and the change between the two releases of Kafka."""
    ours = as_before(name)
    merge = Merge()

    merged = merge.of_messages(
        {each: schema for each, schema in BEFORE.schemas.items() if each == name}, {name: AFTER.schemas[name]}, ours
    )

    assert ours.get(name) != OURS[name], "nothing was taken away"
    assert {**ours, **merged}[name] == OURS[name]
    assert not merge.complaints


@pytest.mark.parametrize("name", [name for name in CHANGED if name in BEFORE.schemas])
def test_a_schema_without_the_change_has_the_versions_of_its_time(name: str) -> None:
    kafka = BEFORE.schemas[name]
    [ours] = as_before(name).values()

    assert ends(str(ours["validVersions"]))[1] == ends(str(kafka["validVersions"]))[1]
    assert names_of(kafka["fields"]) <= names_of(ours["fields"])
    assert not (names_of(ours["fields"]) - names_of(kafka["fields"])) & names_of(AFTER.schemas[name]["fields"])


def names_of(fields: Json, above: str = "") -> set[str]:
    assert isinstance(fields, list)
    found: set[str] = set()
    for each in fields:
        found |= {f"{above}{each['name']} {each['type']}"}
        found |= names_of(each.get("fields", []), f"{above}{each['name']}.")
    return found


def test_the_files_of_schemas_are_written_as_they_stand() -> None:
    assert not [name for name, schema in OURS.items() if as_text(schema) != path_of(schema).read_text()]


A: Object = {"name": "A", "type": "int8", "versions": "2+"}
B: Object = {"name": "B", "type": "string", "versions": "3+"}
SCHEMA: Object = {"name": "ARequest", "type": "request", "validVersions": "2-3", "fields": [A, B]}
OURS_OF_IT: Object = {
    **SCHEMA,
    "validVersions": "0-3",
    "fields": [
        {"name": "Old", "type": "int8", "versions": "0-1"},
        {**A, "versions": "0+"},
        B,
    ],
}


def changed(**changes: Json) -> tuple[Object, list[str]]:
    merge = Merge()
    found = merge.of_messages({"ARequest": SCHEMA}, {"ARequest": {**SCHEMA, **changes}}, {"ARequest": OURS_OF_IT})
    return found["ARequest"], merge.complaints


def fields_of(schema: Object) -> list[Object]:
    fields = schema["fields"]
    assert isinstance(fields, list)
    return fields


def test_older_versions_and_their_fields_stay() -> None:
    between = {"name": "New", "type": "int8", "versions": "4+"}

    merged, complaints = changed(validVersions="2-4", fields=[{**A, "versions": "2-3"}, between, B])

    assert (merged["validVersions"], complaints) == ("0-4", [])
    old, first, *rest = fields_of(merged)
    assert (old["name"], first["versions"], rest) == ("Old", "0-3", [between, B])


def test_a_field_that_is_gone_goes_and_a_contradiction_is_said() -> None:
    merged, complaints = changed(validVersions="3-4", fields=[A])

    assert [each["name"] for each in fields_of(merged)] == ["Old", "A"]
    assert complaints == ["ARequest.validVersions: 0-3 here, and the release changes 2-3 to 3-4"]


def ours(kind: str, name: str) -> str | None:
    """The default of a key as Odradek has it."""
    if kind == "group":
        return default_text({**GROUP_KEYS, **HIDDEN_GROUP_KEYS}[name], Config())
    table = BROKER_KEYS if kind == "broker" else TOPIC_KEYS
    return text_of(table[name].default) if name in table else INERT_DEFAULTS[name].default


NEW_KEYS = [(kind, name) for kind in KINDS for name in sorted(AFTER.configs[kind].keys() - BEFORE.configs[kind].keys())]


@pytest.mark.parametrize(("kind", "name"), NEW_KEYS)
def test_a_key_of_today_is_found_with_its_type_and_default(kind: str, name: str) -> None:
    key = AFTER.configs[kind][name]
    known = {"broker": INERT_KEYS | BROKER_KEYS.keys(), "topic": TOPIC_KEYS.keys(), "group": GROUP_KEYS.keys()}[kind]

    assert name in RELEASES[OLD].lacks
    assert name in known | HIDDEN_GROUP_KEYS.keys()
    assert key.internal or key.default is None or key.default == (ours(kind, name) or "")


def test_the_codes_of_errors_are_those_of_the_newest_release() -> None:
    assert AFTER.errors == {error.name: error for error in ErrorCode}
    assert {AFTER.errors[name] for name in AFTER.errors.keys() - BEFORE.errors.keys()} == {134, 135, 136}


def test_what_has_no_table_is_listed() -> None:
    lines = list(left_over(BEFORE, replace(AFTER, errors={**AFTER.errors, "BRAND_NEW": 137})))

    assert "error: BRAND_NEW = 137" in lines
    assert "broker key: errors.deadletterqueue.topic.name.prefix string = dlq.   (cluster-wide)" in lines
    assert "topic key: remote.copy.lag.ms long = 0" in lines
    assert len(lines) == 1 + len(NEW_KEYS)
    assert "topic key: remote.copy.lag.ms is gone" in list(left_over(AFTER, BEFORE))


def test_scenarios_show_what_no_version_tells() -> None:
    """The two switches of 4.3 are behaviour: their scenarios are among those that are answered otherwise."""
    differing = set(answers_that_differ(chosen_scenarios(), OLD))

    assert {"streams_topics/configs-of-a-group-that-are-wrong", "streams_topics/standby-tasks"} <= differing
    assert "commit_and_abort/a-new-client-commits" not in differing


def test_every_release_since_the_last_two_has_its_jars_read() -> None:
    assert all(has_material(release) for release in last_two())
    assert AFTER.version == VERSIONS[NEW]


def test_the_steps_are_commands_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `new` calls; the schemas are written where they belong."""
    monkeypatch.setattr(schemas, "SCHEMAS", tmp_path)
    (tmp_path / "messages").mkdir()
    (tmp_path / "records").mkdir()
    then = {**OURS, **as_before("TxnOffsetCommitRequest")}
    monkeypatch.setattr(news, "own_schemas", lambda: then)

    assert write_schemas(OLD, NEW) == []
    [written] = (tmp_path / "messages").iterdir()
    assert json.loads(written.read_text()) == OURS["TxnOffsetCommitRequest"]
    assert list(steps("4.4", "4.5").values())[3] == ["tests.oracle.releases", "ranges", "4.5"]
