"""The output of `odradek dialects`: the list of dialects, and the changes of one against its base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.releases.dialects.load import Dialect, names, read
from odradek.releases.dialects.tables import changes_of
from odradek.txn.decision_tables import rules_of
from odradek.wire.codecs import PLAIN

if TYPE_CHECKING:
    from odradek.releases.release import Range

__all__ = ["listed", "shown"]

RENAMED = "kip-868-page", "names only: BeginMarkerRecord, EndMarkerRecord, AbortMarkerRecord; Kafka's names are served"
"""KIP-868's comparison page. Every broker here has its metadata transactions, so there is nothing to switch."""


def listed() -> list[str]:
    """A line for each dialect."""
    found = [read(name) for name in names()]
    rows = [(each.release.name, f"over {each.release.base}", each.release.title) for each in found]
    rows.append((RENAMED[0], "no dialect", RENAMED[1]))
    widths = [max(len(row[column]) for row in rows) + 2 for column in (0, 1)]
    return [f"{name:{widths[0]}}{base:{widths[1]}}{title}" for name, base, title in rows]


def shown(name: str) -> list[str]:
    """The changes of a dialect: `what: before -> after`."""
    dialect = read(name)
    release = dialect.release
    lines = [f"{release.name}, over {release.base}: {release.title}", ""]
    for what, before, after in _changes(dialect):
        lines.append(f"  {what}: {before} -> {after}")
    readme = dialect.folder / "README.md"
    if readme.is_file():
        lines += ["", f"{readme} goes through the text."]
    return lines


def _changes(dialect: Dialect) -> Iterator[tuple[str, str, str]]:
    below, release = dialect.below, dialect.release
    before, after = below.apis or {}, release.apis or {}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield f"versions of {key}", _range(before.get(key)), _range(after.get(key))
    for name in sorted(below.features.keys() | release.features.keys()):
        if below.features.get(name) != release.features.get(name):
            yield f"levels of {name}", _range(below.features.get(name)), _range(release.features.get(name))
    for name, text in release.defaults.items():
        if below.defaults.get(name) != text:
            yield f"default of {name}", below.defaults.get(name, "Kafka's"), text
    for table in ("since", "verification", "producers", "switches"):
        for key, value in dialect.settings.get(table, {}).items():
            holder = {"since": rules_of(below).since, "switches": below}.get(table) or getattr(below, table)
            if getattr(holder, key) != value:
                yield f"{table}.{key}", str(getattr(holder, key)), str(value)
    codecs = below.codecs or PLAIN
    for cls in (release.codecs or PLAIN).changed:
        if codecs.type_of(cls) is not (release.codecs or PLAIN).type_of(cls):
            yield (
                f"schema of {cls.__name__}",
                _range(codecs.valid_versions(cls)),
                _range((release.codecs or PLAIN).valid_versions(cls)),
            )
    yield from changes_of(dialect.tables, rules_of(below))
    for each in dialect.overlays:
        yield f"endpoint of {each.api_key.name}", "Kafka's", f"with a step around it{_since(each.since)}"


def _since(version: int) -> str:
    return f" from version {version} on" if version else ""


def _range(versions: Range | None) -> str:
    return "none" if versions is None else f"{versions[0]}-{versions[1]}"
