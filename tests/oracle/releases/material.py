"""The part of a release that is read from its jars, without a broker: schemas, configuration keys, error codes.

It is kept in the repository (`jars/4.4.json.gz`), so that the tests compare releases without jars.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode
from tests.clients.toolchain import JAVA, java_classes
from tests.oracle.releases.real import jars_of

__all__ = ["KINDS", "ConfigKey", "Json", "Material", "has_material", "read_jars", "recorded_material", "write_material"]

Json = object
"""A value of JSON."""
KINDS = ("broker", "topic", "group")

FOLDER = Path(__file__).parent / "jars"
PROGRAM = FOLDER / "ReleaseTables.java"
SCHEMAS = re.compile(r"(common/)?(message|metadata)/(?P<name>\w+)\.json")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
KAFKAS_JARS = "kafka*.jar"


class ConfigKey(Struct, frozen=True, omit_defaults=True):
    """Type, scope and default of one configuration key, in Kafka's words; without a default the value is None."""

    kind: str
    scope: str = "read-only"
    internal: bool = False
    default: str | None = None


class Material(Struct, frozen=True):
    """The schemas by the name of the message, without the sentences about fields, and the keys by their kind."""

    version: str
    schemas: Mapping[str, dict[str, Json]]
    configs: Mapping[str, Mapping[str, ConfigKey]]
    errors: Mapping[str, int]


def read_jars(release: str, version: str) -> Material:
    """Read the jars of a release; Maven brings them the first time."""
    folder = jars_of(release)
    configs, errors = _tables(folder)
    return Material(version, dict(sorted(_schemas(folder))), configs, errors)


def recorded_material(release: str) -> Material:
    """The recorded part of a release that its jars hold."""
    return decode(gzip.decompress(_path(release).read_bytes()), type=Material)


def has_material(release: str) -> bool:
    """Whether its jars were read; of older releases the recorded names are enough."""
    return _path(release).exists()


def write_material(release: str, material: Material) -> None:
    """Keep it; the same material makes the same bytes."""
    _path(release).write_bytes(gzip.compress(encode(material), mtime=0))


def _path(release: str) -> Path:
    return FOLDER / f"{release}.json.gz"


def _schemas(folder: Path) -> Iterator[tuple[str, dict[str, Json]]]:
    for jar in sorted(folder.glob(KAFKAS_JARS)):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if found := SCHEMAS.fullmatch(name):
                    text = archive.read(name).decode()
                    yield found["name"], _unexplained(json.loads(COMMENT.sub("", text)))


def _unexplained(value: dict[str, Json]) -> dict[str, Json]:
    """The schema without the sentences about its fields: those of Odradek are its own."""

    def strip(each: Json) -> Json:
        if isinstance(each, list):
            return [strip(item) for item in each]
        if isinstance(each, dict):
            return {key: strip(item) for key, item in each.items() if key != "about"}
        return each

    return {key: strip(each) for key, each in value.items()}


def _tables(folder: Path) -> tuple[dict[str, dict[str, ConfigKey]], dict[str, int]]:
    classes = java_classes("release-tables", [PROGRAM], folder)
    done = subprocess.run([*JAVA, "-cp", classes, PROGRAM.stem], capture_output=True, text=True, check=True)
    keys: dict[str, dict[str, ConfigKey]] = {kind: {} for kind in KINDS}
    errors: dict[str, int] = {}
    for line in done.stdout.splitlines():
        kind, name, *words = line.split("\t")
        if kind == "error":
            errors[name] = int(words[0])
        else:
            type_, shown, scope, *default = words
            keys[kind][name] = ConfigKey(type_.lower(), scope, shown == "internal", default[0] if default else None)
    return keys, errors
