"""What an audit of logs is about: directories, the replica of each partition that is audited, what stands around."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odradek_pipeline.directories.cluster import Cluster, read_cluster
from odradek_pipeline.directories.levels import Levels
from odradek_pipeline.directories.proof import Proof, closed_partitions
from odradek_pipeline.directories.remote import Remote, read_remote
from odradek_pipeline.directories.replicas import choose_replicas
from odradek_pipeline.logs.layout import (
    CLUSTER_METADATA,
    TRANSACTION_STATE,
    FileKind,
    Tree,
    find_files,
    one_replica_each,
)
from odradek_pipeline.logs.log_dirs import PartitionDir, Surroundings, read_surroundings
from odradek_pipeline.logs.remembered import SegmentMemory, open_memory
from odradek_pipeline.logs.times import Span

__all__ = ["Place"]

EVERYWHERE = 1 << 62


def _cleaned_meanwhile(tree: Tree, around: Surroundings, cluster: Cluster | None) -> dict[tuple[str, int], int]:
    """Partitions whose cleaner may have gone further than its checkpoint says, which was copied, or read, before them.

    Of the topics of coordinators it is enough that the cleaner has been there at all.
    """
    return {
        one.key: EVERYWHERE
        for one in around.replicas
        if one.log_dir.is_running
        and not one.topic.startswith("__")
        and (one.key in tree.cleaned or (cluster is not None and cluster.is_compacted(one.topic)))
    }


@dataclass(slots=True)
class Place:
    """What is audited, and what stands around it."""

    everything: Tree
    tree: Tree
    """One replica of each partition."""
    around: Surroundings
    cluster: Cluster | None
    remote: Remote
    """What is in a store, as brokers note it."""
    topics: tuple[str, ...] = ()
    memory: SegmentMemory | None = None
    span: Span = field(default_factory=Span)
    cut: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Of partitions that are not looked at up to their end, from which time on."""
    directories: tuple[str | Path, ...] = ()

    @classmethod
    def of(
        cls,
        directories: Iterable[str | Path],
        topics: Iterable[str],
        *,
        state: Path | None = None,
        span: Span | None = None,
        before: Place | None = None,
    ) -> Place:
        """List the directories, read what is beside the segments, and choose a replica of each partition.

        `state` is a folder of what earlier audits have read; `span` leaves out segments that lie before or behind it.
        `before` is an earlier listing, whose checkpoints and metadata are kept: what they speak of is there by now.
        """
        directories = tuple(directories)
        everything = find_files(directories)
        around = read_surroundings(everything, before.around.log_dirs if before is not None else None)
        cluster = read_cluster(everything) if before is None else before.cluster
        # Read behind the listing: what was removed here by then had been noted before.
        remote = read_remote(everything, cluster)
        everything.cleaned |= _cleaned_meanwhile(everything, around, cluster)
        wanted = tuple(topics)
        if wanted:
            everything = everything.of_topics(wanted)
        span = span or Span()
        everything, cut = span.applied(everything)
        chosen = choose_replicas(around.replicas, everything.files, cluster)
        tree = one_replica_each(everything, chosen)
        memory = None
        if state is not None:
            memory = open_memory(state, (one.cluster_id for one in around.log_dirs.values()))
        return cls(everything, tree, around, cluster, remote, wanted, memory, span, cut, directories)

    def behind_decisions(self, state: Path | None) -> Place:
        """The place as it is now that the coordinators' decisions have been read; the same where brokers are stopped.

        A running broker may have begun another segment since, and the marker of such a decision may be in that.
        """
        if all(one.log_dir.was_stopped_cleanly for one in self.around.replicas):
            return self
        return Place.of(self.directories, self.topics, state=state, span=self.span, before=self)

    def forget(self) -> None:
        """What was remembered of segments that are no more."""
        if self.memory is not None and self.span.is_all:
            self.memory.forget_others(self.everything.of(FileKind.SEGMENT))

    @property
    def created(self) -> Mapping[str, int]:
        """When topics were made, as far as the metadata log tells."""
        return {} if self.cluster is None else self.cluster.created

    @property
    def levels(self) -> Levels:
        """Which levels of transaction.version were finalized when."""
        return Levels() if self.cluster is None else self.cluster.levels

    @property
    def metadata_is_final(self) -> bool:
        """Whether no broker was writing to the metadata log when it was read, or copied."""
        return all(one.log_dir.was_stopped_cleanly for one in self.around.replicas if one.topic == CLUSTER_METADATA)

    def proof(self, written: Mapping[tuple[str, int], int]) -> Proof:
        """What the audited directories prove; for `written` see there."""
        audited = self.audited()
        coordinators = frozenset(one.partition for one in audited if one.topic == TRANSACTION_STATE)
        return Proof(closed_partitions(audited), written, coordinators)

    def audited(self) -> list[PartitionDir]:
        """The replicas that are audited."""
        paths = {str(Path(file.path).parent) for file in self.tree.of(FileKind.SEGMENT)}
        return [one for one in self.around.replicas if one.path in paths]

    def several(self) -> list[tuple[PartitionDir, list[PartitionDir]]]:
        """Each audited replica that is not alone, and the others."""
        listed = {str(Path(file.path).parent) for file in self.everything.of(FileKind.SEGMENT)}
        found = []
        for one in self.audited():
            others = [other for other in self.around.of(one.key) if other is not one and other.path in listed]
            if others and one.topic != CLUSTER_METADATA and one.key not in self.cut:
                found.append((one, others))
        return found
