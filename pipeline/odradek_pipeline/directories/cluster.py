"""What `__cluster_metadata` says of a cluster: topics and their partitions, those that were deleted, configs, levels.

Every broker has a copy of this log, so a log directory tells what there should be beside what there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from odradek.metadata.image import EMPTY, MetadataImage, ResourceType
from odradek.metadata.loader import MetadataLoader
from odradek.records.batch import Batch, InvalidBatch, batches
from odradek.records.record import iterate_records
from odradek.records.state import decode_metadata
from odradek.wire.errors import DecodeError
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.partition_change_record import PartitionChangeRecord
from odradek.wire.messages.remove_topic_record import RemoveTopicRecord
from odradek.wire.messages.topic_record import TopicRecord
from odradek_pipeline.directories.levels import LevelChange, Levels
from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import CLUSTER_METADATA, FileKind, LogFile, Tree
from odradek_pipeline.logs.log_dirs import LogDir

__all__ = ["Cluster", "read_cluster"]

TRANSACTION_VERSION = "transaction.version"


@dataclass(slots=True)
class Cluster:
    """The metadata log, folded."""

    image: MetadataImage = EMPTY
    deleted: dict[bytes, str] = field(default_factory=dict)
    """Topics that were removed, by id."""
    created: dict[str, int] = field(default_factory=dict)
    """When the topic that has this name now was made, ms; only of those that are in the log, not in a snapshot."""
    changes: list[LevelChange] = field(default_factory=list)
    """Of the level of transaction.version."""
    compacted: set[str] = field(default_factory=set)
    """Topics whose own config asks for compaction, or has asked for it."""
    holders: dict[tuple[bytes, int], set[int]] = field(default_factory=dict)
    """Of partitions that have moved the brokers that have, or had, a replica; by topic id."""
    is_whole: bool = False
    """Whether the log was read from its beginning, and not from a snapshot on."""
    unreadable: str = ""
    """The file in which something could not be read; what stands behind that is not known."""

    @property
    def levels(self) -> Levels:
        """What was finalized when."""
        return Levels(tuple(sorted(self.changes, key=lambda change: change.timestamp)), self.is_whole)

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions a topic has; None if the log does not know it."""
        found = self.image.topic(topic)
        return None if found is None else len(found.partitions)

    def is_compacted(self, topic: str) -> bool:
        """Whether the topic's own config asks for compaction."""
        return "compact" in self.image.config(ResourceType.TOPIC, topic).get("cleanup.policy", "")

    def held_by(self, topic: str, partition: int) -> frozenset[int]:
        """The brokers that have a replica, or had one; none if the log does not know the partition."""
        found = self.image.topic(topic)
        image = self.image.partition(topic, partition)
        if found is None or image is None:
            return frozenset()
        return frozenset((*image.replicas, *self.holders.get((found.id, partition), ())))

    def has_started_since(self, log_dir: LogDir) -> bool:
        """Whether a broker was started again after it had closed this directory, which is a copy then: what the others
        have may be of later."""
        broker = self.image.brokers.get(log_dir.node_id)
        return broker is not None and 0 <= log_dir.broker_epoch < broker.epoch

    def is_tiered(self, topic: str) -> bool:
        """Whether the topic's segments go to a store, and are removed here before the log begins later (KIP-405)."""
        return self.image.config(ResourceType.TOPIC, topic).get("remote.storage.enable", "") == "true"


def read_cluster(tree: Tree) -> Cluster | None:
    """Fold the newest snapshot and the log behind it, of the copy that reaches furthest; None where there is none.

    What cannot be read is left out here: the scan of the segments tells of it.
    """
    copies: dict[Path, list[LogFile]] = {}
    for file in tree.files:
        if file.topic == CLUSTER_METADATA:
            copies.setdefault(Path(file.path).parent, []).append(file)
    if not copies:
        return None
    listed = max(copies.values(), key=lambda of: max((one.base_offset, one.size) for one in of))
    segments = [file for file in listed if file.kind is FileKind.SEGMENT]
    snapshots = [file for file in listed if file.kind is FileKind.CHECKPOINT]
    cluster, loader, names = Cluster(), MetadataLoader(), dict[bytes, str]()
    for file in snapshots[-1:]:
        try:
            whole = [record for batch in _batches(file) for record in _records(batch, cluster, names, is_snapshot=True)]
            loader.load_snapshot(whole, offset=file.base_offset - 1, epoch=0)
        except _TROUBLES:
            cluster.unreadable = file.path
    # At offset 0 lies what the cluster was formatted with.
    cluster.is_whole = bool(segments) and not any(file.base_offset for file in [*snapshots, segments[0]])
    for file in segments:
        try:
            for batch in _batches(file, is_log=True):
                if batch.base_offset > loader.last_offset:
                    list(_records(batch, cluster, names))
                    loader.apply(batch)
        except _TROUBLES:
            cluster.unreadable = cluster.unreadable or file.path
            break
    cluster.image = loader.image
    return cluster


_TROUBLES = (InvalidBatch, DecodeError, ValueError, LookupError, ArithmeticError)
"""What bytes that are no records end with, wherever they are folded."""


def _batches(file: LogFile, *, is_log: bool = False) -> Iterator[Batch]:
    """The batches of a file; a log that is written to may end in the middle of one, a snapshot is there whole."""
    try:
        yield from batches(memoryview(files.read_bytes(file.path)))
    except OSError:
        return
    except InvalidBatch:
        if not is_log:
            raise


def _records(batch: Batch, cluster: Cluster, names: dict[bytes, str], *, is_snapshot: bool = False) -> Iterator[Struct]:
    """Every record of a batch; what an image forgets is noted on the way."""
    if batch.is_control:
        return
    for record in iterate_records(batch):
        try:
            message = decode_metadata(record.value or b"")
        except DecodeError:
            continue
        if isinstance(message, TopicRecord):
            names[message.topic_id] = message.name
            if not is_snapshot:
                cluster.created[message.name] = record.timestamp
        elif isinstance(message, RemoveTopicRecord):
            name = names.get(message.topic_id, "")
            cluster.deleted[message.topic_id] = name
            cluster.compacted.discard(name)
        elif isinstance(message, PartitionChangeRecord) and message.replicas is not None:
            held = cluster.holders.setdefault((message.topic_id, message.partition_id), set())
            held.update(message.replicas)
        elif isinstance(message, ConfigRecord) and _asks_for_compaction(message):
            cluster.compacted.add(message.resource_name)
        elif isinstance(message, FeatureLevelRecord) and message.name == TRANSACTION_VERSION:
            cluster.changes.append(LevelChange(record.offset, record.timestamp, message.feature_level))
        yield message


def _asks_for_compaction(record: ConfigRecord) -> bool:
    return (
        record.resource_type == ResourceType.TOPIC
        and record.name == "cleanup.policy"
        and "compact" in (record.value or "")
    )
