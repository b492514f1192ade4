"""The contracts of the rooms, on imports that were made up."""

from __future__ import annotations

import pytest
from tests.contracts import Rooms, violations

ROOMS = Rooms(
    host="host",
    subjects=("txn", "group", "metadata"),
    hosted=("txn.api", "group.api", "metadata.api"),
    doors=("metadata.image",),
)


@pytest.mark.parametrize(
    ("importer", "imported", "found"),
    [
        ("txn.coordinator", "host.peers", ["txn.coordinator is a machine and imports host.peers"]),
        ("txn.coordinator", "txn.api", ["txn.coordinator is a machine and imports txn.api"]),
        ("txn.coordinator", "metadata.api.topics", ["txn.coordinator is a machine and imports metadata.api.topics"]),
        ("txn.coordinator", "group.offsets", ["txn.coordinator imports group.offsets, of another subject"]),
        ("txn.api", "group.api", ["txn.api imports group.api, of another subject"]),
        ("host.replicas", "group.shard", ["host.replicas carries any subject and imports group.shard"]),
        ("txn.coordinator", "txn.entry", []),
        ("txn.coordinator", "metadata.image", []),
        ("txn.coordinator", "core.machine", []),
        ("metadata.api.topics", "host.forwarding", []),
        ("metadata.api.topics", "metadata.controller", []),
        ("host.replicas", "metadata.image", []),
        ("hosted", "group.shard", []),
        ("broker", "group.api", []),
    ],
)
def test_the_imports_that_the_rooms_forbid(importer: str, imported: str, found: list[str]) -> None:
    assert found == list(violations(ROOMS, [(importer, imported)]))
