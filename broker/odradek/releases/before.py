"""The recorded part of a release: its versions, features and configuration keys, in place of the next newer one's.

`odradek.releases.recorded` has the values; they are derived from the answers and the jars of real releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.releases.release import Range, Release

__all__ = ["Before", "Newest"]

T = TypeVar("T")


class Newest(Struct, frozen=True, kw_only=True):
    """The newest release: all of it, but for the versions that the schemas say."""

    name: str
    lowest: Mapping[str, int]
    """The lowest version of each API of which the schema has older ones."""
    features: Mapping[str, Range]
    levels: Mapping[str, int]
    unstable_apis: Mapping[str, int] = {}
    unstable_features: Mapping[str, Range] = {}


class Before(Struct, frozen=True, kw_only=True):
    """An older release: only what differs. None: there is no such API, no such feature, no finalized level."""

    name: str
    apis: Mapping[str, Range | None] = {}
    features: Mapping[str, Range | None] = {}
    levels: Mapping[str, int | None] = {}
    unstable_apis: Mapping[str, int | None] = {}
    unstable_features: Mapping[str, Range | None] = {}
    lacks: tuple[str, ...] = ()
    """Keys of brokers, topics and groups that only the newer release has."""
    defaults: Mapping[str, str] = {}
    """Defaults of broker keys that the newer release has changed."""

    def under(self, newer: Release, switches: Mapping[str, object]) -> Release:
        """The release, from the next newer one and from the switches that no answer to a question of versions tells."""
        release = replace(
            newer,
            name=self.name,
            apis=_changed(newer.apis or {}, self.apis),
            features=_changed(newer.features, self.features),
            levels=_changed(newer.levels, self.levels),
            unstable_apis=_changed(newer.unstable_apis, self.unstable_apis),
            unstable_features=_changed(newer.unstable_features, self.unstable_features),
            lacks=newer.lacks | frozenset(self.lacks),
            defaults={**newer.defaults, **self.defaults},
        )
        return replace(release, **switches)


def _changed(newer: Mapping[str, T], changes: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in {**newer, **changes}.items() if value is not None}
