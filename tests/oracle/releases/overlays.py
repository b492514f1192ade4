"""From what two releases told of themselves to what the older one has in place of the newer one's.

`recorded.py` of `odradek.releases` is written here, from `ranges.json` and `jars`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from tests.oracle.releases.material import KINDS, ConfigKey, has_material, recorded_material
from tests.oracle.releases.ranges import LACKING, PREVIEWS, recorded_ranges
from tests.oracle.releases.real import number

from odradek.releases.before import Before, Newest
from odradek.releases.release import Range
from odradek.wire.registry import APIS, ApiKey

__all__ = ["RECORDED", "Told", "before", "module_text", "newest", "told_by"]

T = TypeVar("T")
RECORDED = Path(__file__).parents[3] / "broker" / "odradek" / "releases" / "recorded.py"
HEAD = '''\
"""The versions, features and configuration keys of the releases, as real brokers and their jars told them.

Written by `python -m tests.oracle.releases overlay`; change nothing here. `docs/contributing.md` says how a release
gets here.
"""

from __future__ import annotations

from odradek.releases.before import Before, Newest

__all__ = ["NEWEST", "OLDER"]

'''
WITH_A_PLUG_IN: Mapping[str, tuple[int, ...]] = {
    "GET_TELEMETRY_SUBSCRIPTIONS": (3, 7),
    "PUSH_TELEMETRY": (3, 7),
}
"""APIs that brokers tell where a plug-in takes the metrics of clients, and the release that brought them (KIP-714)."""


class Told(Struct, frozen=True):
    """What one release told: ranges and levels, and, where its jars were read, its configuration keys."""

    name: str
    apis: Mapping[str, Range]
    features: Mapping[str, Range]
    levels: Mapping[str, int]
    unstable_apis: Mapping[str, int]
    unstable_features: Mapping[str, Range]
    configs: Mapping[str, Mapping[str, ConfigKey]] | None


def told_by(release: str) -> Told:
    """The recordings of a release, without what Odradek has no use for."""
    recorded = recorded_ranges(release)
    answers = [answer for answer in recorded.api_versions.values() if answer.error_code == 0]
    unstable = recorded.unstable
    return Told(
        name=release,
        apis={
            **{api: told for api, told in recorded.apis.items() if api not in LACKING},
            **{api: (0, 0) for api, since in WITH_A_PLUG_IN.items() if number(release) >= since},
        },
        features=answers[-1].supported,
        levels={name: high for name, (_, high) in answers[-1].finalized.items()},
        unstable_apis={api: high for api, (_, high) in unstable.apis.items() if api not in PREVIEWS}
        if unstable
        else {},
        unstable_features=unstable.features if unstable else {},
        configs=recorded_material(release).configs if has_material(release) else None,
    )


def newest(told: Told) -> Newest:
    """The newest release."""
    return Newest(
        name=told.name,
        lowest={
            key.name: told.apis[key.name][0]
            for key in sorted(ApiKey, key=lambda key: key.name)
            if key.name in told.apis and told.apis[key.name][0] > APIS[key].lowest
        },
        features=told.features,
        levels=told.levels,
        unstable_apis=told.unstable_apis,
        unstable_features=told.unstable_features,
    )


def before(older: Told, newer: Told) -> Before:
    """What an older release has in place of the next newer one's.

    A release that tells no features, one with ZooKeeper, keeps those of the newer one inside of Odradek.
    """
    tells = bool(older.features)
    return Before(
        name=older.name,
        apis=changes(older.apis, newer.apis),
        features=changes(older.features, newer.features) if tells else {},
        levels=changes(older.levels, newer.levels) if tells else {},
        unstable_apis=changes(older.unstable_apis, newer.unstable_apis),
        unstable_features=changes(older.unstable_features, newer.unstable_features),
        lacks=tuple(sorted(set(lacking(older, newer)))),
        defaults=dict(changed_defaults(older, newer)),
    )


def changes(older: Mapping[str, T], newer: Mapping[str, T]) -> dict[str, T | None]:
    """By name what the older one has; None where it has nothing."""
    names = sorted(older.keys() | newer.keys())
    return {name: older.get(name) for name in names if older.get(name) != newer.get(name)}


def lacking(older: Told, newer: Told) -> Iterator[str]:
    """Keys that only the newer one has.

    A topic's key that has the name of a broker's is lacked by both, or by neither.
    """
    if older.configs is None or newer.configs is None:
        return
    had = {name for kind in KINDS for name in older.configs[kind]}
    for kind in KINDS:
        yield from newer.configs[kind].keys() - had


def changed_defaults(older: Told, newer: Told) -> Iterator[tuple[str, str]]:
    """Broker keys of both that had another default, and that default."""
    if older.configs is None or newer.configs is None:
        return
    for name, key in sorted(older.configs["broker"].items()):
        now = newer.configs["broker"].get(name)
        if now is not None and key.default is not None and key.default != now.default:
            yield name, key.default


def module_text(releases: list[Told]) -> str:
    """The module, from all releases, the oldest first."""
    rows = [before(older, newer) for older, newer in pairwise(releases)]
    body = "".join(f"    {laid_out(row, '    ')},\n" for row in reversed(rows))
    return (
        f"{HEAD}NEWEST = {laid_out(newest(releases[-1]), '')}\n\n"
        f"OLDER: tuple[Before, ...] = (\n{body})\n"
        '"""From the newest to the oldest, each in place of the one before."""\n'
    )


def laid_out(value: object, indent: str) -> str:
    """The expression of a value, as `ruff format` leaves it."""
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        said = [f"{name}={laid_out(each, indent + '    ')}" for name, each in fields.items() if each or name == "name"]
        return wrapped(type(value).__name__ + "(", said, ")", indent)
    if isinstance(value, dict):
        return wrapped("{", [f"{quoted(key)}: {laid_out(each, '')}" for key, each in value.items()], "}", indent)
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return wrapped("(", [quoted(each) for each in value], ")", indent)
    return quoted(value)


def wrapped(opening: str, parts: list[str], closing: str, indent: str) -> str:
    lines = "".join(f"{indent}    {part},\n" for part in parts)
    return f"{opening}\n{lines}{indent}{closing}"


def quoted(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
