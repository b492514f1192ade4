"""A new release: what it brings, what of it is written by itself, and what is left to people."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.oracle import recorded as newest_answers
from tests.oracle.releases.columns import COLUMNS, Column
from tests.oracle.releases.material import KINDS, ConfigKey, Material, recorded_material
from tests.oracle.releases.overlays import RECORDED, module_text, told_by
from tests.oracle.releases.real import VERSIONS
from tests.oracle.releases.recorded import recorded
from tests.oracle.releases.schemas import Merge, as_text, own_schemas, path_of
from tests.oracle.scenario import Scenario
from tests.oracle.transcript import difference

from odradek.wire.errors import ErrorCode

__all__ = [
    "answers_that_differ",
    "config_line",
    "last_two",
    "left_over",
    "prepare",
    "steps",
    "write_overlays",
    "write_schemas",
]


def write_overlays() -> None:
    """Write the versions, features and keys of all releases, from their recordings."""
    RECORDED.write_text(module_text([told_by(release) for release in VERSIONS]), encoding="utf-8")


def write_schemas(older: str, newer: str) -> list[str]:
    """Carry over what changed in the schemas, and say what could not be."""
    merge = Merge()
    before, after = recorded_material(older), recorded_material(newer)
    for schema in merge.of_messages(before.schemas, after.schemas, own_schemas()).values():
        path_of(schema).write_text(as_text(schema), encoding="utf-8")
    return merge.complaints


def left_over(before: Material, after: Material) -> Iterator[str]:
    """What has no table that is written: the new keys and codes as they stand in Odradek's, and keys that are gone."""
    known = {error.name for error in ErrorCode}
    for name, code in after.errors.items():
        if name not in known:
            yield f"error: {name} = {code}"
    for kind in KINDS:
        yield from (f"{kind} key: {line}" for line in of_keys(before.configs[kind], after.configs[kind]))


def of_keys(before: Mapping[str, ConfigKey], after: Mapping[str, ConfigKey]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            yield f"{name} is gone"
        elif old is None:
            yield config_line(name, new)
        else:
            yield f"{config_line(name, new)}   before: {config_line(name, old)}"


def config_line(name: str, key: ConfigKey) -> str:
    """A key as it stands in `inert_defaults.py`, and what that does not say."""
    default = "" if key.default is None else f" ={' ' + key.default if key.default else ''}"
    more = [word for word, holds in ((key.scope, key.scope != "read-only"), ("internal", key.internal)) if holds]
    return f"{name} {key.kind}{default}" + (f"   ({', '.join(more)})" if more else "")


def answers_that_differ(scenarios: list[Scenario], older: str, level: int = 2) -> Iterator[str]:
    """The scenarios that the newest release answers otherwise than an older one."""
    column = Column(older, level, only_level=False)
    for scenario in scenarios:
        if column not in (then := recorded(scenario)):
            continue
        if not newest_answers.answers_path(scenario, newest_answers.KAFKA).exists():
            continue
        now = newest_answers.recorded(scenario, newest_answers.KAFKA)
        if level in now and difference(then[column], now[level]):
            yield scenario.path


def last_two() -> tuple[str, str]:
    """The newest release, and before it the one that is older."""
    older, newer = list(VERSIONS)[-2:]
    return older, newer


def steps(older: str, newer: str) -> Mapping[str, list[str]]:
    """All that is done for a new release, in order. Each is a process of its own: it needs the files before."""
    ours = "tests.oracle.releases"
    columns = [word for column in COLUMNS if column.release == older for word in ("--column", column.name)]
    return {
        "the jars": [ours, "jars", older, newer],
        "the schemas": [ours, "schemas"],
        "the codecs": ["odradek.wire.generate"],
        "versions and features": [ours, "ranges", newer],
        "the overlay": [ours, "overlay"],
        f"the answers of {older}": [ours, "record", *columns],
        f"the answers of {newer}": ["tests.oracle", "record"],
        "what is left": [ours, "news"],
    }


def prepare() -> int:
    """Do all of it; the first step that fails ends it."""
    for name, arguments in steps(*last_two()).items():
        print(f"\n== {name}: python -m {' '.join(arguments)}", flush=True)
        if status := subprocess.run([sys.executable, "-m", *arguments], check=False).returncode:
            return status
    return 0
