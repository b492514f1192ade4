"""What each release tells of itself: its versions of every request, and its features."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.oracle.client import Client
from tests.oracle.releases.real import VERSIONS, ReleasedKafka
from tests.oracle.requests import build_request

from odradek.wire.registry import ApiKey

__all__ = ["RANGES", "highest_versions", "record_ranges"]

RANGES = Path(__file__).parent / "ranges.json"
ASKED = (0, 1, 2, 3, 4, 5, 99)


@cache
def highest_versions(release: str) -> dict[str, int]:
    """The highest version of each API that the release has told."""
    return {api: highest for api, (_, highest) in json.loads(RANGES.read_text())[release]["apis"].items()}


def record_ranges() -> None:
    """Start each release with its defaults, ask for its versions, and write them down."""
    found = {}
    for release, version in VERSIONS.items():
        with ReleasedKafka(release) as kafka:
            found[release] = {"version": version, **told(("127.0.0.1", kafka.port))}
            print(release, flush=True)
    RANGES.write_text(as_text(found))


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


def ask(address: tuple[str, int], version: int) -> Any:
    client = Client(address)
    try:
        fields = {"client_software_name": "oracle", "client_software_version": "1"} if version >= 3 else {}
        client.send(ApiKey.API_VERSIONS, version, build_request(ApiKey.API_VERSIONS, fields))
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
