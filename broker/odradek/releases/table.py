"""The releases of Apache Kafka that a broker can be served as.

The newest has the versions of the schemas. Each older release is laid over the next newer one: what brokers tell of
themselves is recorded (`recorded.py`), and what they do is said here, in switches. The tests compare both with the
recordings of `tests/oracle/releases`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from odradek.releases.recorded import NEWEST, OLDER
from odradek.releases.release import ProducerRules, Release, Verification
from odradek.wire.messages import APIS, ApiKey

__all__ = ["FEATURES", "LATEST", "RELEASES", "WIDEST", "release_of"]

LATEST = NEWEST.name

FEATURES = (
    "metadata.version",
    "group.version",
    "share.version",
    "transaction.version",
    "eligible.leader.replicas.version",
    "kraft.version",
    "streams.version",
)
"""The features of Odradek: all those of Kafka 4.4."""

WIDEST = Release(
    name=NEWEST.name,
    apis=None,
    features=NEWEST.features,
    unstable_features=NEWEST.unstable_features,
    levels=NEWEST.levels,
)
"""The newest release, with the older versions that clients from 0.11 on use."""

_NEWEST = replace(
    WIDEST,
    apis={
        ApiKey(key).name: (NEWEST.lowest.get(ApiKey(key).name, api.lowest), api.highest - api.unstable)
        for key, api in APIS.items()
        if "broker" in api.listeners and not api.draft
    },
    unstable_apis=NEWEST.unstable_apis,
    # KAFKA-18659: the versions of Produce that KIP-896 removed are not served, but ApiVersions lists them.
    lowest_produce=3,
)

_SWITCHES: Mapping[str, Mapping[str, object]] = {
    "4.3": {"names_bounds": True, "tells_task_offset_intervals": False},
    "4.0": {
        # The configuration keys of 4.0 are not recorded: it has those of the newest release.
        "lacks": frozenset(),
        "names_bounds": False,
        "tells_task_offset_intervals": True,
        "first_group_epoch": 0,
        "commits_with_older_epochs": False,
        "offset_value_version": 3,
        "defaults": {"group.consumer.assignment.interval.ms": "0"},  # KIP-1263 came later
        "producers": ProducerRules(refuses_older_epochs=False, begins_at_zero=False),
    },
    "3.9": {
        "lowest_produce": 0,
        "updates_each_feature": True,
        "keeps_zstd_from_old_fetches": True,
        "fences_before_waiting": True,
        "first_group_epoch": 1,
        "commits_with_older_epochs": True,
        "defaults": {},
        "producers": ProducerRules(
            asks_by_epoch=False, refuses_older_epochs=False, begins_at_zero=False, stable_where_batch_begins=False
        ),
    },
    "3.6": {
        "names_directories": False,
        "fetch_session_shards": 1,
        "verification": Verification(offsets=False, answers_abortable=False, explains_errors=True),
    },
    "3.3": {"verification": Verification(records=False, offsets=False)},
    "2.8": {"tells_features": False},
}
"""By release: where its brokers do not act as those of the next newer one."""


def _releases() -> dict[str, Release]:
    release = _NEWEST
    found = [release]
    for before in OLDER:
        release = before.under(release, _SWITCHES.get(before.name, {}))
        found.append(release)
    return {each.name: each for each in reversed(found)}


RELEASES: Mapping[str, Release] = _releases()
"""Every release that can be asked for, by its name."""


def release_of(name: str | None) -> Release:
    """The release of this name; without one the newest, with the versions of old clients too."""
    return WIDEST if name is None else RELEASES[name]
