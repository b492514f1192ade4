"""What each release tells of itself: its versions of every request, and its features."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode
from tests.oracle.client import Client
from tests.oracle.releases.real import UNSTABLE, VERSIONS, ReleasedKafka, has_transaction_version
from tests.oracle.requests import build_request

from odradek.releases.release import Range
from odradek.wire.registry import ApiKey

__all__ = [
    "LACKING",
    "PREVIEWS",
    "RANGES",
    "asked",
    "highest_versions",
    "keys",
    "record_ranges",
    "recorded_ranges",
    "told",
]

RANGES = Path(__file__).parent / "ranges.json"
ASKED = (0, 1, 2, 3, 4, 5, 99)
INSIDE = "brokers of one release ask it of one another, in a process where they need not"
LACKING: Mapping[str, str] = {
    "ALTER_PARTITION": INSIDE,
    "CONTROLLED_SHUTDOWN": INSIDE,
    "LEADER_AND_ISR": INSIDE,
    "STOP_REPLICA": INSIDE,
    "UPDATE_METADATA": INSIDE,
}
"""The APIs that real brokers tell and Odradek does not, and why: what is built goes from here."""
PREVIEWS = frozenset(
    {
        *("SHARE_GROUP_HEARTBEAT", "SHARE_GROUP_DESCRIBE", "SHARE_FETCH", "SHARE_ACKNOWLEDGE"),
        *("INITIALIZE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE"),
        *("DELETE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE_SUMMARY"),
    }
)
"""What 4.0 offers with its switch for unstable versions, and Odradek does not: share groups as a preview."""


class Answer(Struct, frozen=True):
    """What one version of ApiVersions tells."""

    error_code: int
    supported: Mapping[str, Range]
    finalized: Mapping[str, Range]


class Unstable(Struct, frozen=True):
    """What is others with the switches for what is unstable."""

    apis: Mapping[str, Range]
    features: Mapping[str, Range]


class Ranges(Struct, frozen=True):
    """What is recorded of one release, as far as an overlay needs it."""

    apis: Mapping[str, Range]
    api_versions: Mapping[str, Answer]
    unstable: Unstable | None = None


def recorded_ranges(release: str) -> Ranges:
    """The recorded versions and features of a release."""
    return decode(RANGES.read_bytes(), type=dict[str, Ranges])[release]


@cache
def highest_versions(release: str) -> dict[str, int]:
    """The highest version of each API that the release has told."""
    return {api: highest for api, (_, highest) in json.loads(RANGES.read_text())[release]["apis"].items()}


def record_ranges(releases: Collection[str]) -> None:
    """Start each of these releases with its defaults, ask for its versions, and write them down."""
    found = json.loads(RANGES.read_text())
    for release in releases:
        with ReleasedKafka(release) as kafka:
            address = "127.0.0.1", kafka.port
            found[release] = {"version": VERSIONS[release], **told(address)}
            if has_transaction_version(release):
                found[release]["configs"] = keys(address, node_id=1)
        if has_transaction_version(release):
            with ReleasedKafka(release, properties=UNSTABLE) as kafka:
                found[release]["unstable"] = more(found[release], told(("127.0.0.1", kafka.port)))
        print(release, flush=True)
    RANGES.write_text(as_text({release: found[release] for release in VERSIONS if release in found}))


def more(stable: dict[str, Any], unstable: dict[str, Any]) -> dict[str, Any]:
    """The ranges and features that are others where what is unstable is offered too."""
    newest = max(version for version, answer in unstable["api_versions"].items() if answer["error_code"] == 0)
    before, after = (each["api_versions"][newest]["supported"] for each in (stable, unstable))
    return {
        "apis": {api: told for api, told in unstable["apis"].items() if stable["apis"].get(api) != told},
        "features": {feature: told for feature, told in after.items() if before.get(feature) != told},
    }


def told(address: tuple[str, int]) -> dict[str, Any]:
    """What a broker tells in ApiVersions, by the version in which it is asked."""
    answers = {version: ask(address, version) for version in ASKED}
    known = [answer for version, answer in answers.items() if answer.error_code == 0]
    apis = {name(api.api_key): [api.min_version, api.max_version] for api in known[-1].api_keys}
    return {
        "apis": dict(sorted(apis.items())),
        "api_versions": {
            version: {
                "error_code": answer.error_code,
                "apis": len(answer.api_keys),
                "supported": {each.name: [each.min_version, each.max_version] for each in answer.supported_features},
                "finalized": {
                    each.name: [each.min_version_level, each.max_version_level] for each in answer.finalized_features
                },
                "has_epoch": answer.finalized_features_epoch >= 0,
            }
            for version, answer in answers.items()
        },
    }


def keys(address: tuple[str, int], *, node_id: int) -> dict[str, list[str]]:
    """The names of the configs that a broker, a topic and a group have."""
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    asked(address, ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout_ms": 10_000})
    kinds = {"broker": (4, str(node_id)), "topic": (2, "t"), "group": (32, "g")}
    resources = [{"resource_type": number, "resource_name": name} for number, name in kinds.values()]
    answer = asked(address, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
    told = {result.resource_type: sorted(each.name for each in result.configs) for result in answer.results}
    return {kind: told[number] for kind, (number, _) in kinds.items()}


def ask(address: tuple[str, int], version: int) -> Any:
    fields = {"client_software_name": "oracle", "client_software_version": "1"} if version >= 3 else {}
    return asked(address, ApiKey.API_VERSIONS, version, fields)


def asked(address: tuple[str, int], api_key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
    client = Client(address)
    try:
        client.send(api_key, version, build_request(api_key, fields))
        return client.receive()
    finally:
        client.close()


def name(api_key: int) -> str:
    """The name of an API; the number of one that the newest release does not have."""
    try:
        return ApiKey(api_key).name
    except ValueError:
        return str(api_key)


def as_text(found: dict[str, Any]) -> str:
    """JSON with a range on each line."""
    text = json.dumps(found, indent=1)
    return re.sub(r"\[\s+(-?\d+),\s+(-?\d+)\s+\]", r"[\1, \2]", text) + "\n"
