"""Clients that commit and read offsets without a transaction, in groups for which transactions also hold offsets.

The groups have no members, so that any client may commit. The metadata of each commit is a unique name, by which a
reader of the group's offset knows the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from odradek.core.internal_topics import CoordinatorKind
from odradek.sim.clients.directories import Images, offered
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.registry import ApiKey

__all__ = ["Committer"]

TOPIC = "t"
COMMIT_VERSION, FETCH_VERSION = 8, 7
COMMITS = 0.4
"""Probability of a commit in place of a read."""


class Committer:
    """Commits and reads offsets of one group after the other, without retries."""

    def __init__(
        self, world: World, name: str, *, random: Random, groups: Sequence[str], goes_on: Callable[[], bool]
    ) -> None:
        self._name = name
        self._random = random
        self._groups = groups
        self._goes_on = goes_on
        self._directory = Images(world, lambda: self._random)
        self._commit_version = offered(world, ApiKey.OFFSET_COMMIT, COMMIT_VERSION)
        self._fetch_version = offered(world, ApiKey.OFFSET_FETCH, FETCH_VERSION)

    def script(self) -> Script:
        for number in count():
            if not (self._goes_on() and self._groups):
                return
            group = self._random.choice(self._groups)
            node_id = yield from self._directory.coordinator(CoordinatorKind.GROUP, group)
            if node_id >= 0 and self._random.random() < COMMITS:
                yield Ask(node_id, self._commit(group, number), self._commit_version)
            elif node_id >= 0:
                yield Ask(node_id, self._fetch(group), self._fetch_version)
            yield Sleep(self._random.randint(5, 80))

    def _commit(self, group: str, number: int) -> OffsetCommitRequest:
        committed = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=f"{self._name}/{number}"
        )
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[committed])
        return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])

    def _fetch(self, group: str) -> OffsetFetchRequest:
        wanted = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=self._random.random() < 0.5)
