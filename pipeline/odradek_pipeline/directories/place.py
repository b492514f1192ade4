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

__all__ = ["Place", "cleaned_somewhere", "cleaned_upto"]

EVERYWHERE = 1 << 62


def cleaned_upto(
    tree: Tree, around: Surroundings, cluster: Cluster | None, audited: Iterable[PartitionDir]
) -> dict[tuple[str, int], int]:
    """Up to where compaction may have gone through the audited replica of each partition.

    The checkpoint beside a replica is of the cleaner of its own broker. Where that broker was running the checkpoint
    was copied, or read, before the log was, and the cleaner may have gone further, or there for the first time. And a
    broker that copies a log copies the gaps that the cleaners of others have made by then, of which its own checkpoint
    says nothing.
    """
    named = {key for log_dir in around.log_dirs.values() for key in log_dir.cleaned or ()} | tree.cleaned.keys()
    compacted = frozenset() if cluster is None else cluster.compacted
    found: dict[tuple[str, int], int] = {}
    for one in audited:
        own = (one.log_dir.cleaned or {}).get(one.key)
        if own is not None:
            found[one.key] = own
        if one.key not in named and one.topic not in compacted:
            continue
        # What is missing in the coordinators' log says more than what may be: see `find_gaps_of_cleaners`.
        goes_on = one.log_dir.is_running and (own is not None or one.topic != TRANSACTION_STATE)
        if goes_on or _may_be_a_copy(one, len(around.of(one.key)), cluster):
            found[one.key] = EVERYWHERE
    return found


def cleaned_somewhere(tree: Tree) -> dict[tuple[str, int], int]:
    """The same of all replicas that there are."""
    metadata = find_files(tree.roots, topics=[CLUSTER_METADATA])
    around, cluster = read_surroundings(tree), read_cluster(metadata)
    # Of a partition with several replicas each is as far as any.
    return cleaned_upto(tree, around, cluster, around.replicas)


def _may_be_a_copy(one: PartitionDir, replicas: int, cluster: Cluster | None) -> bool:
    """Whether some of a replica may have come from another broker."""
    has_had_leaders = bool(one.epochs) and one.epochs[-1][0] > 0
    if replicas > 1:
        return True
    if cluster is None:
        return has_had_leaders
    holders = cluster.held_by(one.topic, one.partition)
    others = holders - {one.log_dir.node_id}
    if not holders or len(holders) > 1 or (others and one.log_dir.node_id >= 0):
        return True
    return not cluster.is_whole and has_had_leaders and len(cluster.image.brokers) > 1


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
        wanted = tuple(topics)
        if wanted:
            everything = everything.of_topics(wanted)
        span = span or Span()
        everything, cut = span.applied(everything)
        chosen = choose_replicas(around.replicas, everything.files, cluster)
        listed = frozenset(chosen)
        audited = (one for one in around.replicas if one.path in listed)
        everything.cleaned = cleaned_upto(everything, around, cluster, audited)
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

    def find_gaps_of_cleaners(self, gaps: Iterable[tuple[str, int]]) -> None:
        """Partitions with gaps of a running broker's coordinators' log: its cleaner has been there for the first time
        while it was copied, or read. A log without a gap has whatever its coordinator has written."""
        running = {one.key for one in self.audited() if one.log_dir.is_running}
        self.tree.cleaned |= {key: EVERYWHERE for key in gaps if key[0] == TRANSACTION_STATE and key in running}

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
        return Proof(closed_partitions(audited, self.cluster), written, coordinators)

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
