"""A cluster as it was at one moment: forks begin with it, as often as wanted, each on its own.

Kept is what Kafka keeps over a restart of all brokers, which is what the logs say; leaders, epochs and the ISR stay as
they are, because no broker has gone. The clock goes on from that moment: otherwise a transaction that was prepared a
minute ago would be aborted by its timeout in each fork.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Self

from odradek.config.table import Config, ConfigError
from odradek.core.wording import counted
from odradek.metadata.controller_role import METADATA_TOPIC_ID
from odradek.net.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from odradek.log.log_store import LogStore
    from odradek.metadata.image import MetadataImage
    from odradek.net.beginning import Began, Piece
    from odradek.net.fork_dir import SnapshotFiles
    from odradek.releases.release import Release

__all__ = ["ClusterSnapshot", "settings_of_fork"]

AS_KAFKA = "odradek.as.kafka"
OF_NEW_CLUSTERS = frozenset(
    {
        AS_KAFKA,
        "odradek.metadata.version",
        "odradek.transaction.version",
        "odradek.group.version",
        "odradek.share.version",
        "odradek.streams.version",
        "odradek.kraft.version",
        "odradek.eligible.leader.replicas.version",
    }
)
"""Keys that only the start of a new cluster looks at: a fork has the levels of its snapshot."""


class ClusterSnapshot:
    """The shared state of a cluster's forks. It never changes, and outlives the cluster."""

    def __init__(
        self,
        *,
        config: Config,
        cluster_id: str,
        node_ids: tuple[int, ...],
        controller_id: int,
        taken_at_ms: int,
        is_frozen: bool,
        cleanly: frozenset[int] = frozenset(),
        gone: frozenset[int] = frozenset(),
        image: MetadataImage | None = None,
        store: LogStore | None = None,
        directory: Path | None = None,
    ) -> None:
        """The logs are in a `store` that nobody else has, or in a `directory` (`snapshot_dir`)."""
        self.config = config
        self.cluster_id = cluster_id
        self.node_ids = node_ids
        self.controller_id = controller_id
        self.taken_at_ms = taken_at_ms
        """The time of the brokers."""
        self.is_frozen = is_frozen
        """Whether the brokers' clock stood still."""
        self.cleanly = cleanly
        """The brokers that were stopped cleanly; see `ClusterSpec`."""
        self.gone = gone
        """The brokers that were stopped, cleanly or not."""
        self.image = image
        """The metadata; None: what the log says."""
        self.directory = directory
        self._store = store

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The snapshot that is this directory. Raises `UsageError` where it is none, or of another format."""
        from odradek.net.snapshot_dir import read_directory  # most snapshots are in memory

        mark, config, cluster_id, node_ids = read_directory(directory)
        return cls(
            config=config,
            cluster_id=cluster_id,
            node_ids=node_ids,
            controller_id=node_ids[0] if mark.controller_id is None else mark.controller_id,
            taken_at_ms=mark.taken_at_ms,
            is_frozen=mark.is_frozen,
            cleanly=mark.cleanly,
            gone=mark.gone,
            directory=directory,
        )

    @property
    def bytes_held(self) -> int:
        """Bytes of all batches, which forks share; in a directory those of each replica."""
        if self.directory is not None:
            return sum(log.stat().st_size for log in self.directory.rglob("*.log"))
        assert self._store is not None, "what is in no directory is in memory"
        return self._store.bytes_held

    def clock(self, machine: Callable[[], int]) -> Clock:
        """A clock that goes on from the moment of the snapshot, or stands still there."""
        return Clock(machine, at_ms=self.taken_at_ms, frozen=self.is_frozen)

    @cached_property
    def files(self) -> dict[str, SnapshotFiles]:
        """The files in its directory, for its forks; see `files_of`. Raises `UsageError`."""
        from odradek.net.fork_dir import files_of  # most snapshots are in memory

        assert self.directory is not None, "what is in memory has no files"
        return files_of(self.directory)

    def let_go(self) -> None:
        """The directory is about to be removed: running forks take from it what they have not taken yet."""
        for files in vars(self).get("files", {}).values():
            files.let_go()

    @cached_property
    def pieces(self) -> list[Piece]:
        """All of it, for the recordings of its forks. Raises `UsageError` if it is too large for one."""
        from odradek.net.beginning import pieces_of_folder, pieces_of_store  # few forks are recorded

        if self.directory is not None:
            return pieces_of_folder(self.directory)
        return pieces_of_store(self._recorded_store())

    def began(self, directory: str | None) -> Began:
        """What a recording says of the beginning of a fork, whose data directory is this one."""
        from odradek.net.beginning import Began  # few forks are recorded

        return Began(
            is_fork=True,
            directory=directory,
            taken_at_ms=self.taken_at_ms,
            is_frozen=self.is_frozen,
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            cleanly=tuple(sorted(self.cleanly)),
            gone=tuple(sorted(self.gone)),
        )

    def for_recording(self) -> ClusterSnapshot:
        """The same as it is in a recording: the metadata is read from its log, which is part of that."""
        recorded = copy(self)
        recorded.image = None
        recorded._store = None if self.directory is not None else self._recorded_store()
        return recorded

    def _recorded_store(self) -> LogStore:
        """The logs; a metadata log whose beginning is gone follows a snapshot of the metadata."""
        assert self._store is not None, "what is in no directory is in memory"
        store = self._store.fork()
        log = store.find(METADATA_TOPIC_ID, 0)
        if self.image is not None and log is not None and log.start_offset > 0:
            from odradek.metadata.features import KRAFT_VERSION
            from odradek.metadata.quorum import Controllers, encode_quorum, quorum_at
            from odradek.metadata.snapshot_file import write_snapshot  # few metadata logs were ever cut

            level = self.image.feature(KRAFT_VERSION)
            data = write_snapshot(
                self.image,
                epoch=self.image.epoch,
                last_timestamp=-1,
                now=self.taken_at_ms,
                quorum=encode_quorum(quorum_at(level, Controllers("", {}))) if level else (),
            )
            store.metadata_snapshot = self.image.offset + 1, self.image.epoch, data
        return store

    def store(self, *, bytes_max: int) -> LogStore:
        """The logs, for one fork."""
        assert self._store is not None, "what is in no directory is in memory"
        fork = self._store.fork(bytes_max=bytes_max)
        fork.metadata_snapshot = self._store.metadata_snapshot
        return fork


def settings_of_fork(
    snapshot: ClusterSnapshot,
    more: Mapping[str, str],
    *,
    release: Release | None,
    brokers: int | None,
    node_ids: Sequence[int] | None,
    security: str | None,
) -> Config:
    """The configuration of a fork: that of its snapshot, with these keys in addition.

    Raises ValueError (`ConfigError` for a key) for what contradicts the snapshot; the text is one sentence.
    """
    ids, config = snapshot.node_ids, snapshot.config
    if brokers not in (None, len(ids)):
        raise ValueError(f"A fork has the brokers of its snapshot, {counted(len(ids), 'broker')}, and not {brokers}.")
    if node_ids is not None and tuple(node_ids) != ids:
        raise ValueError(f"A fork has the node ids of its snapshot, {_listed(ids)}, and not {_listed(node_ids)}.")
    if release is not None and release.name != config.release.name:
        raise ValueError(f"A fork is the release of its snapshot, {config.release.name}, and not {release.name}.")
    if security is not None:
        raise ValueError("A fork has the listeners of its snapshot: make the origin with security, not the fork.")
    return _more_settings(config, more)


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _more_settings(config: Config, more: Mapping[str, str]) -> Config:
    if not more:
        return config
    type(config).parse({key: text for key, text in more.items() if key != AS_KAFKA}, config.release)
    before = {key: text for _, texts in config.layers for key, text in texts.items()}
    for key, text in more.items():
        if key in OF_NEW_CLUSTERS and before.get(key) != text:
            was = f"has {before[key]}" if key in before else "was made without it"
            raise ConfigError(
                f"{key} is settled when a cluster is new, and the snapshot {was}: a fork cannot be {text}."
            )
    return config.with_static(more)
