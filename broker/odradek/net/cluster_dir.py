"""The data directory of a cluster: the folder itself for one broker, a folder `broker-N` in it for each of several.

Each of these is what a broker of Kafka has as its `log.dirs`: it has a lock and a `meta.properties` of its own, the
replicas of its broker, and the metadata log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek.core.wording import counted
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.file_store import FileStore
from odradek.log.files.names import META
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.log.replicated_store import ReplicatedStore
from odradek.metadata.image import NO_LEADER
from odradek.net.apart import BROKER, check_apart
from odradek.net.data_dir import DataDir

if TYPE_CHECKING:
    from odradek.broker import Logger, Node
    from odradek.metadata.image import MetadataImage
    from odradek.net.fork_dir import SnapshotFiles
    from odradek.net.outside import Calls, Handle, Outside

__all__ = ["ClusterDir"]

LOOK_S = 1.0
"""The interval of checkpoints, if they have changed."""
NAMED_MAX = 10
"""Of many partitions without a leader so many are named."""


class ClusterDir:
    """The directories of all brokers of a cluster, from their locks to their release."""

    def __init__(
        self,
        path: Path,
        *,
        node_ids: Sequence[int] | None,
        cluster_id: str | None,
        log: Logger,
        new_cluster_id: Callable[[], str],
        syncs: bool = False,
        names_directories: bool = True,
        made_of: Mapping[str, SnapshotFiles] | None = None,
        goes_with_cluster: bool = False,
        outside: Outside,
        new_id: Callable[[], bytes],
    ) -> None:
        """Open the directories, or make them. `node_ids` and `cluster_id` are None where any will do.

        The disk and the time come from `outside`; `new_id` gives each new directory its id. Those of a fork were
        `made_of` these files, by the broker's folder, or "". One that
        `goes_with_cluster` is removed at its end: nothing in it waits for the device, and it is not left in order.

        Raises `UsageError` where they cannot be used; then they are left as they were.
        """
        self.path = path
        self._log = log
        self._goes_with_cluster = goes_with_cluster
        places = _places(path, node_ids)
        if not any((place / META).exists() for place in places.values()):
            check_apart(path)
        self.dirs: dict[int, DataDir] = {}
        """By broker, in the order of the ids that were given."""
        opened: dict[int | None, DataDir] = {}
        try:
            # The cluster id of a directory that was replaced by an empty one is that of the others.
            for node_id in sorted(places, key=lambda each: not (places[each] / META).exists()):
                one = opened[node_id] = DataDir(
                    places[node_id],
                    node_id=node_id,
                    cluster_id=cluster_id,
                    log=log,
                    now=outside.clock.now,
                    new_cluster_id=new_cluster_id,
                    voters=tuple(sorted(each for each in places if each is not None)) if len(places) > 1 else (),
                    syncs=syncs,
                    names_directories=names_directories,
                    made_of=(made_of or {}).get("" if places[node_id] == path else places[node_id].name),
                    made_late=goes_with_cluster,
                    disk_of=outside.disk,
                    new_id=new_id,
                )
                cluster_id = one.meta.cluster_id
            self.dirs = {opened[node_id].meta.node_id: opened[node_id] for node_id in places}
            if outside.shown_directory is not None:
                for one in self.dirs.values():
                    one.store.path = os.path.join(
                        outside.shown_directory, os.path.relpath(one.path, path)
                    ).removesuffix("/.")
            stores = {node_id: one.store for node_id, one in self.dirs.items()}
            self.store: FileStore | ReplicatedStore
            self.store = ReplicatedStore(stores) if len(stores) > 1 else next(iter(stores.values()))
            metadata = self.store.find(METADATA_TOPIC, 0)
            self.was_new = metadata is None or metadata.end_offset == 0
            """Whether there was no metadata yet."""
            others = [log for log in self.store.logs() if log.topic_id != METADATA_TOPIC]
            if self.was_new and others:
                raise DamagedFile(f"it has {counted(len(others), 'log')}, and no metadata: half a copy")
            self.store.begin()
            for one in self.dirs.values():
                one.disk.begun()
        except (DamagedFile, DiskError) as error:
            self._release(opened.values())
            raise UsageError(f"The data directory {path} cannot be used: {error}.") from None
        except BaseException:
            self._release(opened.values())
            raise
        self._timer: Handle | None = None

    @property
    def node_ids(self) -> list[int]:
        """The brokers, the first controller first."""
        return list(self.dirs)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return next(iter(self.dirs.values())).meta.cluster_id

    @property
    def cleanly(self) -> frozenset[int]:
        """The brokers whose last process stopped cleanly."""
        return frozenset(node_id for node_id, one in self.dirs.items() if one.store.was_clean)

    def check(self) -> None:
        """Raises `UsageError` if a disk has failed since it was opened, or a folder is not what its name says."""
        for one in self.dirs.values():
            failure = one.disk.failure or one.store.failure
            if failure:
                raise UsageError(f"The data directory {self.path} cannot be used: {failure}.")

    def started(self, nodes: Callable[[], Mapping[int, Node]], calls: Calls) -> None:
        """Start checkpoints and snapshots of metadata: the brokers lead their partitions now.

        `nodes` are the brokers that run, whenever it is called.
        """
        self.check()
        image = _newest(nodes())
        for one in self.dirs.values():
            one.started(image)
        self._tell_missing(image)
        if isinstance(self.store, ReplicatedStore):
            for each in self.store.filled:
                self._log.warning(
                    "replica_filled",
                    broker=each.node_id,
                    folder=each.folder,
                    offsets=f"{each.first_offset} to {each.end_offset - 1}",
                    reason=f"they had gone from its directory, and are taken from that of broker {each.from_node_id}",
                )
            self.store.forget_strays(image.topics_by_id)
        if all(one.disk.waits_for_device for one in self.dirs.values()):
            self._look(nodes, calls)
            return
        self._timer = calls.call_later(LOOK_S, self._look, nodes, calls)

    def serves(self) -> None:
        """Clients may come: from now on a fork waits for the device as well, unless its directory goes with it."""
        for one in self.dirs.values():
            one.disk.waits_for_device = not self._goes_with_cluster

    def go_back(self, image: MetadataImage) -> None:
        """The metadata is that of an earlier time: lead logs in its leader epochs, though they know later ones.

        Kafka does so, too: it forgets the later epochs.
        """
        found = []
        for log in self.store.logs():
            topic = image.topic_by_id(log.topic_id)
            if topic is None or log.index not in topic.partitions:
                continue
            registered = topic.partitions[log.index]
            if log.leader_epoch > registered.leader_epoch:
                log.leader_epoch = registered.leader_epoch
                found.append(f"{topic.name}-{log.index}")
        if found:
            self._log.warning(
                "metadata_is_older",
                partitions=_some(sorted(found)),
                reason="their logs know later leader epochs, so that the metadata log has lost its end",
            )

    def _tell_missing(self, image: MetadataImage) -> None:
        """Report brokers of the cluster that have no directory here, and the partitions that miss them."""
        missing = sorted(image.brokers.keys() - self.dirs.keys())
        if not missing:
            return
        partitions = [
            (f"{topic.name}-{index}", partition)
            for topic in image.topics.values()
            for index, partition in sorted(topic.partitions.items())
        ]
        fewer = sum(not self.dirs.keys() >= set(partition.replicas) for _, partition in partitions)
        leaderless = [name for name, partition in partitions if partition.leader == NO_LEADER]
        self._log.warning(
            "directories_are_missing",
            brokers=missing,
            partitions_with_fewer_replicas=fewer,
            partitions_without_leader=_some(leaderless),
        )

    def _look(self, nodes: Callable[[], Mapping[int, Node]], calls: Calls) -> None:
        running = nodes()
        with suppress(DiskError):  # it is in the log
            for node_id in running:
                self.dirs[node_id].store.checkpoint_later()
            if running:
                self._tend_snapshots(running)
        self._timer = calls.call_later(LOOK_S, self._look, nodes, calls)

    def _tend_snapshots(self, running: Mapping[int, Node]) -> None:
        """Each broker that runs takes snapshots of the metadata, and forgets old ones."""
        image = _newest(running)
        for node_id, node in running.items():
            snapshots, config = self.dirs[node_id].snapshots, node.settings.at_start
            if snapshots.is_due(image, config):
                snapshots.write(image)
            snapshots.clean(config)

    def stop(self, node_id: int, *, broker_epoch: int) -> None:
        """One of several brokers has stopped cleanly: its directory is as its process leaves it."""
        self.dirs[node_id].finish(broker_epoch=broker_epoch)

    def resume(self, node_id: int) -> None:
        """A broker starts again in this process."""
        self.dirs[node_id].resume()

    def close(self, broker_epochs: Mapping[int, int]) -> None:
        """Stop: cleanly for the brokers that ran, with these epochs; the others have ended before."""
        if self._timer is not None:
            self._timer.cancel()
        for node_id, one in self.dirs.items():
            if node_id in broker_epochs and not self._goes_with_cluster:
                one.finish(broker_epoch=broker_epochs[node_id])
        self._release(self.dirs.values())

    def abandon(self) -> None:
        """The start has failed: close without writing."""
        if self._timer is not None:
            self._timer.cancel()
        self._release(self.dirs.values())

    def _release(self, dirs: Collection[DataDir]) -> None:
        for one in dirs:
            one.release()


def _newest(nodes: Mapping[int, Node]) -> MetadataImage:
    return max((node.controller.image for node in nodes.values()), key=lambda image: image.offset)


def _places(path: Path, node_ids: Sequence[int] | None) -> dict[int | None, Path]:
    """The directory of each broker; None is any one broker. Raises `UsageError` for other brokers than those there."""
    found: list[int] = []
    if path.is_dir() and not (path / META).exists():
        matches = ((each, BROKER.fullmatch(each.name)) for each in path.iterdir() if each.is_dir())
        found = sorted(int(match[1]) for _, match in matches if match is not None)
    if found:
        if node_ids is not None and sorted(node_ids) != found:
            new = [f"broker-{each}" for each in sorted(node_ids) if each not in found]
            hint = (
                f": an empty folder {new[0]} would be a new disk"
                if len(new) == 1 and set(found) < set(node_ids)
                else ""
            )
            raise UsageError(
                f"The data directory {path} is of {_named(found)}, not of {_named(sorted(node_ids))}{hint}."
            )
        return {node_id: path / f"broker-{node_id}" for node_id in node_ids or found}
    if node_ids is None or len(node_ids) == 1:
        return {None if node_ids is None else node_ids[0]: path}
    if (path / META).exists():
        raise UsageError(f"The data directory {path} is of one broker, not of {counted(len(node_ids), 'broker')}.")
    if path.is_dir() and any(path.iterdir()):
        raise UsageError(f"The data directory {path} has no folders of brokers, and is not empty.")
    return {node_id: path / f"broker-{node_id}" for node_id in node_ids}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}" or "none"


def _named(node_ids: Sequence[int]) -> str:
    if len(node_ids) == 1:
        return f"broker {node_ids[0]}"
    return f"brokers {', '.join(map(str, node_ids[:-1]))} and {node_ids[-1]}"
