"""Snapshots that are directories: the files that a clean stop at that moment would have left, in Kafka's own format.

Segments that nobody writes to any more are hard links, where the file system has them; what is appended to is copied as
far as it was written. A fork links all of it again, so that it shares the disk's blocks until one of both removes them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from odradek import __version__
from odradek.cli.usage import UsageError
from odradek.config.keys import Kind
from odradek.config.security import key_of
from odradek.config.table import Config, ConfigError
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.file_log import FileLog
from odradek.log.file_segment import index_of
from odradek.log.files.checkpoints import write_epochs, write_offsets
from odradek.log.files.indexes import write_aborted, write_offset_index, write_time_index
from odradek.log.files.marks import read_meta, write_clean_stop, write_partition_metadata
from odradek.log.files.names import (
    CLEAN_STOP,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOCK,
    LOG_STARTS,
    META,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINTS,
    read_checkpoint_file,
    segment_file,
)
from odradek.log.files.producer_snapshot import write_producers
from odradek.log.files.walk import index_of_segment
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.net.apart import MARK, check_apart
from odradek.net.fork_dir import link_file, make_empty

if TYPE_CHECKING:
    from odradek.log.segment import Segment
    from odradek.net.cluster_dir import ClusterDir
    from odradek.net.data_dir import DataDir
    from odradek.releases.release import Release

__all__ = ["MARK", "Mark", "read_directory", "write_directory"]

FORMAT = 1
CUT_BYTES = 64 * 1024
"""From this size on the last segment of a log ends with the snapshot, so that forks need not copy it."""
LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
OF_SEGMENT = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)
WRITTEN_HERE = frozenset({LOCK, CLEAN_STOP, RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_OFFSETS, MARK})


class Mark(Struct, frozen=True, kw_only=True):
    """The content of `odradek-snapshot.json`."""

    format: int
    odradek: str
    """The version that wrote it."""
    taken_at_ms: int
    is_frozen: bool
    settings: dict[str, str]
    """The configuration of the origin, without its secrets."""
    dialect: str | None = None
    node_ids: tuple[int, ...] = ()
    """The brokers, if there are several: each has a folder `broker-N`."""
    controller_id: int | None = None
    """None: the only broker."""
    cleanly: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    """See `ClusterSnapshot`."""


def write_directory(
    target: Path,
    data_dir: ClusterDir,
    config: Config,
    *,
    taken_at_ms: int,
    is_frozen: bool,
    controller_id: int,
    cleanly: frozenset[int],
    gone: frozenset[int],
) -> None:
    """Write a snapshot of a cluster's directory to another one, whole or not at all. Raises `UsageError`."""
    check_apart(target, data_dir=data_dir.path)
    make_empty(target, "A snapshot is written to a directory of its own, and {} is not empty.")
    mark = Mark(
        format=FORMAT,
        odradek=__version__,
        taken_at_ms=taken_at_ms,
        is_frozen=is_frozen,
        settings={
            key: text for _, texts in reversed(config.layers) for key, text in texts.items() if not _is_secret(key)
        },
        dialect=None if config.release.base is None else config.release.name,
        node_ids=tuple(data_dir.dirs) if len(data_dir.dirs) > 1 else (),
        controller_id=controller_id,
        cleanly=cleanly,
        gone=gone,
    )
    try:
        for one in data_dir.dirs.values():
            place = target / os.path.relpath(one.path, data_dir.path)
            place.mkdir(exist_ok=True)
            _write(place, one)
        (target / MARK).write_bytes(msgspec.json.format(msgspec.json.encode(mark)))
    except (OSError, DiskError) as error:
        shutil.rmtree(target, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The snapshot cannot be written to {target}: {reason}.") from None


def _write(target: Path, data_dir: DataDir) -> None:
    """The directory of one broker: its replicas, as far as it has them."""
    source = data_dir.path
    data_dir.disk.make_rest()
    every = [log for log in data_dir.store.logs() if isinstance(log, FileLog) and log.folder and not log.is_gone]
    logs = [log for log in every if log.end_offset]
    for log in logs:
        _write_log(log, source / log.folder, target / log.folder)
    keys = {(log.topic, log.index): log for log in logs if log.topic_id != METADATA_TOPIC}
    offsets: dict[str, dict[tuple[str, int], int]] = {
        RECOVERY_POINTS: {key: log.end_offset for key, log in keys.items()},
        HIGH_WATERMARKS: {key: log.committed for key, log in keys.items()},
        LOG_STARTS: {key: log.start_offset for key, log in keys.items() if log.start_offset > 0},
        CLEANED_OFFSETS: {key: log.first_dirty_offset for key, log in keys.items() if log.first_dirty_offset > 0},
    }
    for name, values in offsets.items():
        (target / name).write_bytes(write_offsets(values))
    for entry in os.scandir(source):
        if entry.is_file() and entry.name not in WRITTEN_HERE and not entry.name.endswith(".tmp"):
            shutil.copyfile(entry.path, target / entry.name)
    (target / CLEAN_STOP).write_bytes(write_clean_stop(-1))


def _is_secret(name: str) -> bool:
    key = key_of(name)
    return key is not None and key.rule.kind is Kind.PASSWORD


def _write_log(log: FileLog, source: Path, target: Path) -> None:
    target.mkdir()
    last = log.segments[-1] if log.segments else None
    for segment in log.segments:
        if segment is not last:
            for suffix in OF_SEGMENT:
                _link_if_there(source, target, segment_file(segment.base_offset, suffix))
    if last is not None:
        _link_if_there(source, target, segment_file(last.base_offset, SNAPSHOT))
        _write_segment(log, last, target)
    if last is None or last.size >= CUT_BYTES:
        for suffix in (LOG, INDEX, TIME_INDEX):
            (target / segment_file(log.end_offset, suffix)).write_bytes(b"")
    producers = () if log.leader is None else log.leader.snapshot().producers
    (target / segment_file(log.end_offset, SNAPSHOT)).write_bytes(write_producers(producers))
    (target / LEADER_EPOCHS).write_bytes(write_epochs(log.epochs.entries()))
    (target / PARTITION_METADATA).write_bytes(write_partition_metadata(log.topic_id))
    if log.folder == METADATA_FOLDER:
        for name in os.listdir(source):
            if name == QUORUM_STATE or read_checkpoint_file(name) is not None:
                shutil.copyfile(source / name, target / name)


def _write_segment(log: FileLog, segment: Segment, target: Path) -> None:
    base = segment.base_offset
    by_offset, by_time = index_of_segment(
        segment.buffer, index_of(segment), interval_bytes=log.config.index_interval_bytes
    )
    aborted = [each for each in log.known_aborted.entries if base <= each.last_offset < segment.next_offset]
    (target / segment_file(base, LOG)).write_bytes(segment.buffer[: segment.size])
    (target / segment_file(base, INDEX)).write_bytes(write_offset_index(base, by_offset))
    (target / segment_file(base, TIME_INDEX)).write_bytes(write_time_index(base, by_time))
    if aborted:
        (target / segment_file(base, TXN_INDEX)).write_bytes(write_aborted(aborted))


def read_directory(path: Path) -> tuple[Mark, Config, str, tuple[int, ...]]:
    """A snapshot that is a directory: its mark, configuration, cluster id and node ids. Raises `UsageError`."""
    try:
        mark = msgspec.json.decode((path / MARK).read_bytes(), type=Mark)
        places = [path / f"broker-{node_id}" for node_id in mark.node_ids] or [path]
        metas = [read_meta((place / META).read_bytes()) for place in places]
    except FileNotFoundError:
        raise UsageError(
            f"The directory {path} is no snapshot of a cluster: it has no {MARK}. A data directory is gone on with, or"
            " copied first."
        ) from None
    except (OSError, msgspec.MsgspecError, DamagedFile) as error:
        raise UsageError(f"The snapshot {path} cannot be read: {error}.") from None
    if mark.format != FORMAT:
        raise UsageError(
            f"The snapshot {path} is of Odradek {mark.odradek} (format {mark.format}), and this is {__version__}, "
            f"which reads format {FORMAT}: take it anew."
        )
    try:
        config = Config.parse(mark.settings, _dialect(mark.dialect))
    except ConfigError as error:
        raise UsageError(f"The snapshot {path} cannot be forked here: {error}") from None
    return mark, config, metas[0].cluster_id, tuple(meta.node_id for meta in metas)


def _dialect(name: str | None) -> Release | None:
    if name is None:
        return None
    from odradek.releases.dialects.load import load  # few clusters are of a dialect

    return load(name)


def _link_if_there(source: Path, target: Path, name: str) -> None:
    try:
        link_file(os.path.join(source, name), os.path.join(target, name))
    except FileNotFoundError:
        return
