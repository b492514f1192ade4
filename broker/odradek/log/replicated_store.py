"""The logs of a cluster whose brokers have a directory each: every replica is a folder of its broker's.

Each directory is a `FileStore` of its own, as if its broker were alone. Of the replicas of a partition the one with the
most records of the newest epoch is the log at first; when the brokers have elected a leader, its replica is
(`replicated_log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.log.file_log import FileLog
from odradek.log.file_store import UNBOUNDED, FileStore
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.log.replicated_log import Copies, ReplicatedLog, agreed_end

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.log import Log

__all__ = ["Filled", "ReplicatedStore"]


class Filled(Struct, frozen=True):
    """A replica whose records have gone from its directory, and are taken from another one."""

    node_id: int
    folder: str
    first_offset: int
    end_offset: int
    from_node_id: int


class ReplicatedStore(LogStore):
    """All logs of a cluster in the directories of its brokers."""

    def __init__(self, stores: Mapping[int, FileStore]) -> None:
        """By broker: the directories, opened, and nothing written there."""
        super().__init__(bytes_max=UNBOUNDED)
        self.stores = stores
        self.bootstrap = next((each.bootstrap for each in stores.values() if each.bootstrap is not None), None)
        self.first_quorum = next((each.first_quorum for each in stores.values() if each.first_quorum is not None), None)
        self.voters = tuple(sorted(stores))
        self.settles_late = all(each.settles_late for each in stores.values())
        self._absent: set[int] = set()
        self.filled: list[Filled] = []
        keys = dict.fromkeys((log.topic_id, log.index) for store in stores.values() for log in store.logs())
        for topic_id, index in keys:
            self._unite(topic_id, index)
        metadata = self.find(METADATA_TOPIC, 0)
        if isinstance(metadata, ReplicatedLog) and metadata.copies is not None:
            self.metadata_snapshot = stores[metadata.copies.home].metadata_snapshot

    def _unite(self, topic_id: bytes, index: int) -> None:
        """Find the log among the replicas, and how far each of the others has followed it."""
        found: dict[int, ReplicatedLog] = {}
        for node_id, store in self.stores.items():
            replica = store.find(topic_id, index)
            if isinstance(replica, ReplicatedLog):
                found[node_id] = replica
        home = max(found, key=lambda node_id: (found[node_id].epochs.latest, found[node_id].end_offset, -node_id))
        origin = found.pop(home)
        was_led = topic_id == METADATA_TOPIC
        origin.copies = Copies(origin, home, self.stores, self._absent, was_led=was_led)
        for node_id, copy in found.items():
            end = agreed_end(origin, copy)
            if end < copy.end_offset:
                copy.diverges_at = end
            elif end < (had := min(copy.had, origin.end_offset)):
                # A leader that lost its files would let the others lose theirs (KIP-101), and they have what it had.
                self.filled.append(Filled(node_id, copy.folder, end, had, home))
                end = had
            if end < origin.end_offset:
                origin.behind[node_id] = end
            origin.copies.add(node_id, copy)
            origin.leader_epoch = max(origin.leader_epoch, copy.leader_epoch)
        self._logs.setdefault(topic_id, {})[index] = origin

    def begin(self) -> None:
        """From now on the directories are not as a clean stop has left them; all voters have all metadata."""
        for store in self.stores.values():
            store.begin()
        log = self.find(METADATA_TOPIC, 0)
        if isinstance(log, ReplicatedLog) and log.copies is not None:
            log.place(self.stores)
            for node_id in self.stores:
                log.catch_up(node_id)

    @property
    def bytes_held(self) -> int:
        """The bytes of each log once."""
        return sum(log.size_bytes for log in self.logs())

    def path_of(self, node_id: int) -> str:
        return self.stores[node_id].path

    def directories_of(self, node_id: int) -> tuple[bytes, ...]:
        return self.stores[node_id].directories

    def volume(self) -> tuple[int, int]:
        """See `LogStore`: the directories lie in one folder."""
        return next(iter(self.stores.values())).volume()

    def shed(self, size: int) -> bool:
        return True

    def open(self, topic_id: bytes, index: int, config: TopicConfig) -> Log:
        """See `LogStore`. A new log lies with the first broker that runs, until it has a leader."""
        log = self.find(topic_id, index)
        if log is not None:
            log.configure(config)
            return log
        home = next((each for each in self.stores if each not in self._absent), next(iter(self.stores)))
        origin = self.stores[home].place(topic_id, index, config)
        assert isinstance(origin, ReplicatedLog), "the directory is of one broker of several"
        origin.copies = Copies(origin, home, self.stores, self._absent)
        self._logs.setdefault(topic_id, {})[index] = origin
        return origin

    def drop(self, topic_id: bytes) -> None:
        super().drop(topic_id)
        for store in self.stores.values():
            store.forget(topic_id)

    def absent(self, node_id: int) -> None:
        self._absent.add(node_id)

    def back(self, node_id: int) -> None:
        """See `LogStore`. Logs that its replicas have everything of go on there at once."""
        self._absent.discard(node_id)
        for log in self.logs():
            if node_id not in log.behind:
                log.catch_up(node_id)

    def forget_strays(self, topics: Mapping[bytes, object]) -> None:
        """The directories have set aside what belongs to none of these topics, or to none of their partitions."""
        for topic_id in [each for each in self._logs if each != METADATA_TOPIC and each not in topics]:
            del self._logs[topic_id]
        for logs in self._logs.values():
            for index in [index for index, log in logs.items() if isinstance(log, FileLog) and log.is_gone]:
                del logs[index]
