"""All keys that a broker of Kafka 4.4 shows, held to what one answered to DescribeConfigs v4."""

from __future__ import annotations

import json
from pathlib import Path

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import Kind
from odradek.config.table import BROKER_KEYS, Config, ConfigSource
from odradek.config.without_effect import INERT_KEYS
from odradek.metadata.describe import Entry, broker_entries

RECORDED = {
    each["name"]: each for each in json.loads((Path(__file__).parent / "broker_keys_of_kafka.json").read_text())
}
OTHER_DEFAULTS = {
    "group.initial.rebalance.delay.ms",
    "group.streams.initial.rebalance.delay.ms",
}
"""Where Odradek begins otherwise than Kafka; see docs/skipped.md."""


def shown(config: Config | None = None) -> dict[str, Entry]:
    return {entry.name: entry for entry in broker_entries(config or Config.parse({}), {})}


def default_of(entry: Entry) -> str | None:
    own = (each.value for each in entry.synonyms if each.source == ConfigSource.DEFAULT and each.name == entry.name)
    return next(own, None)


def test_every_key_is_shown_as_kafka_shows_it() -> None:
    found = {
        name: {"type": Kind(entry.kind).name, "read_only": entry.read_only, "sensitive": entry.sensitive}
        | ({} if name in OTHER_DEFAULTS else {"default": default_of(entry)})
        for name, entry in shown().items()
        if name in RECORDED
    }
    assert {name: {key: expected[key] for key in found[name]} for name, expected in RECORDED.items()} == found


def test_what_is_recorded_is_known() -> None:
    assert set(RECORDED) <= BROKER_KEYS.keys() | INERT_KEYS
    assert INERT_DEFAULTS.keys() <= RECORDED.keys()


def test_a_key_without_effect_that_was_set_has_its_default_behind() -> None:
    entry = shown(Config.parse({"num.io.threads": "3"}))["num.io.threads"]
    assert ("3", ConfigSource.STATIC_BROKER, Kind.INT) == (entry.value, entry.source, entry.kind)
    assert ["3", "8"] == [synonym.value for synonym in entry.synonyms]
