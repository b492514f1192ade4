"""What a broker keeps beside its partitions: checkpoints, the mark of a clean stop, who it is; and beside the segments.

None of it is needed to read a log, and all of it says what the log should be.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import PARTITION_MAX, FileKind, LogFile, Problem, Tree, number_of, problem

__all__ = ["LogDir", "PartitionDir", "Surroundings", "epochs_of", "read_log_dir", "read_surroundings"]

CLEAN_STOP = ".kafka_cleanshutdown"
META = "meta.properties"
HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
PARTITION = "partition.metadata"

Partition = tuple[str, int]
_NOTHING: Mapping[Partition, int] = {}


@dataclass(frozen=True, slots=True)
class LogDir:
    """One of a broker's log.dirs; only a path where nothing says that it is one."""

    path: str
    node_id: int = -1
    cluster_id: str = ""
    directory_id: bytes = b""
    is_of_broker: bool = False
    was_stopped_cleanly: bool = False
    broker_epoch: int = -1
    """Of the run of its broker that ended with the clean stop, -1 where that is not noted (KIP-966)."""
    high_watermarks: Mapping[Partition, int] = field(default_factory=dict)
    recovery_points: Mapping[Partition, int] = field(default_factory=dict)
    log_starts: Mapping[Partition, int] = field(default_factory=dict)
    cleaned: Mapping[Partition, int] | None = None
    """None where there is no such checkpoint: then compaction may have been anywhere."""
    problems: tuple[Problem, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether its broker had not closed it: it was running then, or had been killed."""
        return self.is_of_broker and not self.was_stopped_cleanly

    def names(self, key: Partition) -> bool:
        """Whether a checkpoint of the broker says that it had a log of this partition."""
        return key in self.high_watermarks or key in self.recovery_points

    def is_unflushed(self, file: LogFile, following: int | None) -> bool:
        """Whether a segment may have been written to when the broker ended otherwise than by a clean stop.

        `following` is where the next segment begins, None for the last one.
        """
        if not self.is_running:
            return False
        recovered = self.recovery_points.get((file.topic, file.partition), 0)
        return following is None or following > recovered

    def cleaned_upto(self, key: Partition, known: Mapping[Partition, int] | None = None) -> int:
        """The offset below which compaction may have removed records of a partition.

        `known` has offsets that were found otherwise, which may be higher than the checkpoint. The checkpoint of a
        running broker may be older than the segments, and then compaction may have been anywhere (1 << 62).
        """
        if self.cleaned is None or (self.is_running and key in self.cleaned):
            return 1 << 62
        return max(self.cleaned.get(key, 0), (known or _NOTHING).get(key, 0))


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """One replica of a partition."""

    path: str
    topic: str
    partition: int
    log_dir: LogDir
    first_segment: int
    last_segment: int
    epochs: tuple[tuple[int, int], ...]
    """Leader epochs and the offsets at which they began."""
    topic_id: bytes

    @property
    def key(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """As Kafka names its directory."""
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Surroundings:
    """All log directories and replicas."""

    log_dirs: dict[str, LogDir] = field(default_factory=dict)
    replicas: list[PartitionDir] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def of(self, key: Partition) -> list[PartitionDir]:
        """The replicas of a partition."""
        return [one for one in self.replicas if one.key == key]


def read_surroundings(tree: Tree, log_dirs: Mapping[str, LogDir] | None = None) -> Surroundings:
    """Everything beside the segments that were found; `log_dirs` are those that have been read already."""
    found = Surroundings(dict(log_dirs or {}))
    for known in found.log_dirs.values():
        found.problems += known.problems
    segments: dict[str, list[LogFile]] = {}
    for file in tree.of(FileKind.SEGMENT):
        segments.setdefault(str(Path(file.path).parent), []).append(file)
    for path, of in segments.items():
        root = str(Path(path).parent)
        if root not in found.log_dirs:
            found.log_dirs[root] = read_log_dir(root)
            found.problems += found.log_dirs[root].problems
        epochs = _epochs(Path(path), found.problems)
        first = of[0]
        topic_id = _topic_id(Path(path), found.problems)
        found.replicas.append(
            PartitionDir(
                path,
                first.topic,
                first.partition,
                found.log_dirs[root],
                first.base_offset,
                of[-1].base_offset,
                epochs,
                topic_id,
            )
        )
    for directory in tree.roots:
        if directory not in found.log_dirs:
            found.log_dirs[directory] = read_log_dir(directory)
    return found


@cache
def _dir_of(path: str, stamp: int) -> LogDir:
    return _read_log_dir(Path(path))


def read_log_dir(path: str) -> LogDir:
    """One log directory; read once for as long as nothing in it is replaced."""
    try:
        stamp = files.stamp(path)
    except OSError:
        return LogDir(path)
    return _dir_of(path, stamp)


def _read_log_dir(path: Path) -> LogDir:
    problems: list[Problem] = []
    settings = _settings(path / META)
    if "cluster.id" not in settings and files.exists(path / META):
        problems.append(problem(path / META, 0, "bad-meta-properties", "it names no cluster.id"))
    return LogDir(
        str(path),
        node_id=_node_id(path / META, settings, problems),
        cluster_id=settings.get("cluster.id", ""),
        directory_id=_uuid(settings.get("directory.id", "")),
        is_of_broker=files.exists(path / META),
        was_stopped_cleanly=files.exists(path / CLEAN_STOP),
        broker_epoch=_broker_epoch(path / CLEAN_STOP),
        high_watermarks=_checkpoint(path / HIGH_WATERMARKS, problems) or _NOTHING,
        recovery_points=_checkpoint(path / RECOVERY_POINTS, problems) or _NOTHING,
        log_starts=_checkpoint(path / LOG_STARTS, problems) or _NOTHING,
        cleaned=_checkpoint(path / CLEANED, []),
        problems=tuple(problems),
    )


def _broker_epoch(path: Path) -> int:
    try:
        found = json.loads(files.read_text(path))
    except (OSError, ValueError):
        return -1
    epoch = found.get("brokerEpoch") if isinstance(found, dict) else None
    return epoch if isinstance(epoch, int) else -1


def _settings(path: Path) -> dict[str, str]:
    try:
        lines = files.read_text(path).splitlines()
    except (OSError, ValueError):
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def _node_id(path: Path, settings: Mapping[str, str], problems: list[Problem]) -> int:
    text = settings.get("node.id") or settings.get("broker.id") or "-1"
    try:
        return number_of(text, PARTITION_MAX)
    except ValueError:
        problems.append(problem(path, 0, "bad-checkpoint", f"{text} is no id of a broker"))
        return -1


def _uuid(text: str) -> bytes:
    """Kafka writes its ids in base64 without padding."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def _checkpoint(path: Path, problems: list[Problem]) -> dict[Partition, int] | None:
    rows = _lines(path, problems)
    if rows is None:
        return None
    try:
        found = {(topic, number_of(number, PARTITION_MAX)): number_of(offset) for topic, number, offset in rows}
    except ValueError as error:
        problems.append(problem(path, 0, "bad-checkpoint", str(error)))
        return None
    if len(found) < len(rows):
        problems.append(problem(path, 0, "bad-checkpoint", "it names a partition more than once"))
    return found


def _lines(path: Path, problems: list[Problem]) -> list[list[str]] | None:
    """A checkpoint is a version, a count, and as many lines; or nothing yet."""
    try:
        lines = files.read_text(path).splitlines()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        problems.append(problem(path, 0, "bad-checkpoint", str(error)))
        return None
    if not lines:  # made when the broker started, and not written yet
        return []
    rows = [line.split(" ") for line in lines[2:]]
    if len(lines) < 2 or lines[0] != "0" or lines[1] != str(len(rows)):
        problems.append(
            problem(
                path, 0, "bad-checkpoint", f"{len(rows)} entries, where {' '.join(lines[1:2]) or 'none'} are announced"
            )
        )
        return None
    return rows


def _epochs(directory: Path, problems: list[Problem]) -> tuple[tuple[int, int], ...]:
    path = directory / EPOCHS
    rows = _lines(path, problems)
    try:
        epochs = tuple((number_of(epoch, PARTITION_MAX), number_of(start)) for epoch, start in rows or ())
    except ValueError as error:
        problems.append(problem(path, 0, "bad-checkpoint", str(error)))
        return ()
    falls = [(a, b) for a, b in _pairs(epochs) if b[0] <= a[0] or b[1] < a[1]]
    for before, after in falls[:1]:
        detail = f"epoch {after[0]} from offset {after[1]} on stands behind epoch {before[0]} from {before[1]} on"
        problems.append(problem(path, 0, "bad-epoch-checkpoint", detail))
    return () if falls else epochs


def epochs_of(directory: Path) -> tuple[tuple[int, int], ...]:
    """The leader epochs of one partition, or none where the file cannot be trusted."""
    return _epochs(directory, [])


def _pairs(rows: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    return pairwise(rows)


def _topic_id(directory: Path, problems: list[Problem]) -> bytes:
    path = directory / PARTITION
    try:
        text = files.read_text(path)
    except OSError:
        return b""
    except ValueError:
        text = "?"
    named = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("topic_id")]
    if text and not named:  # an empty one is of a broker that had no time to write it
        problems.append(problem(path, 0, "bad-partition-metadata", "it names no topic id"))
    return _uuid(named[0]) if named else b""
