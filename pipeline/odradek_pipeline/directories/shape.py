"""Where logs should begin and end, and which there should be: what was read, against what a broker keeps beside it.

A harmless torn tail ends at or behind the high watermark: nobody was told that it was there. What ends before it has
lost records that were acknowledged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from odradek.metadata.image import PartitionImage
from odradek_pipeline.audit.result import Severity, anomaly
from odradek_pipeline.directories.cluster import Cluster
from odradek_pipeline.directories.proof import is_older_than
from odradek_pipeline.directories.remote import Remote
from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import CLUSTER_METADATA, TRANSACTION_STATE, FileKind, Problem, problem
from odradek_pipeline.logs.log_dirs import (
    CLEANED,
    EPOCHS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META,
    PARTITION,
    RECOVERY_POINTS,
    LogDir,
    PartitionDir,
    Surroundings,
)
from odradek_pipeline.wording import listed

__all__ = ["future_times", "same_batches", "shape_anomalies", "shape_problems", "unknown_producers"]

Partition = tuple[str, int]
BATCHES_SAME_MIN = 5
"""So many equal batches are no coincidence of short logs."""
AHEAD_MS = 86_400_000
"""Brokers take no record that is further ahead than an hour, unless they were told to; clocks differ by less."""


def shape_anomalies(
    audited: Iterable[PartitionDir], ends: Mapping[Partition, int], cluster: Cluster | None, remote: Remote
) -> list[dict[str, Any]]:
    """Logs that begin too late or end too early; `ends` are the last offsets that were read."""
    found: list[dict[str, Any]] = []
    for one in audited:
        if one.topic != CLUSTER_METADATA:
            if remote.knows(one) or (cluster is not None and cluster.is_tiered(one.topic)):
                found += _missing_in_store(one, remote)
            else:
                found += _missing_beginning(one, may_be_tiered=cluster is None and remote.is_noted)
            found += _lost_tail(one, max(ends.get(one.key, -1) + 1, one.last_segment))
    return found


_RUNNING = "its broker was not stopped"
"""Why checkpoints and logs that contradict each other prove nothing: they may be of different times."""


def _begins(one: PartitionDir) -> int:
    """Where the log begins, says what stands beside it: the first leader epoch begins there too, also after
    retention."""
    return max(one.log_dir.log_starts.get(one.key, 0), one.epochs[0][1] if one.epochs else 0)


def _missing_beginning(one: PartitionDir, *, may_be_tiered: bool) -> Iterator[dict[str, Any]]:
    start = _begins(one)
    if not one.epochs or one.first_segment <= start:
        return
    detail = f"the log begins at offset {start}, say its checkpoints; its first segment at {one.first_segment}"
    is_running = one.log_dir.is_running
    severity = Severity.INFO if may_be_tiered or is_running else Severity.BAD
    more = "; without the metadata log nobody knows whether they are in a store" if may_be_tiered else ""
    more += f"; {_RUNNING}, and retention may have removed them meanwhile" if is_running else ""
    yield anomaly("missing-segment", severity, detail + more, **_where(one, start, one.first_segment))


def _missing_in_store(one: PartitionDir, remote: Remote) -> Iterator[dict[str, Any]]:
    """What is no longer here has to be in the store: a segment is removed here only when its copy is noted as whole."""
    start = _begins(one)
    if not one.epochs or one.first_segment <= start:
        return
    gaps = remote.gaps(one, start, one.first_segment)
    if not gaps:
        return
    unknown = remote.why_unknown(one)
    is_running = one.log_dir.is_running
    named = ", ".join(f"{first} to {behind - 1}" for first, behind in gaps[:3])
    named += f" and {len(gaps) - 3} more gaps" if len(gaps) > 3 else ""
    detail = f"the log begins at offset {start}, its first segment here at {one.first_segment}; of offsets {named} "
    detail += "no segment in the store is noted" + (f"; {unknown}" if unknown else "")
    detail += f"; {_RUNNING}, and they may have been copied, or removed, meanwhile" if is_running else ""
    severity = Severity.INFO if unknown or is_running else Severity.BAD
    yield anomaly("missing-segment", severity, detail, **_where(one, gaps[0][0], gaps[-1][1]))


def _lost_tail(one: PartitionDir, end: int) -> Iterator[dict[str, Any]]:
    high = one.log_dir.high_watermarks.get(one.key, 0)
    recovered = one.log_dir.recovery_points.get(one.key, 0)
    if end >= max(high, recovered):
        return
    name = HIGH_WATERMARKS if high >= recovered else RECOVERY_POINTS
    detail = f"the log ends at offset {end}; up to {max(high, recovered)} it was written and acknowledged, says {name}"
    why = ""
    if one.log_dir.is_running and is_older_than(_last_segment(one), Path(one.log_dir.path) / name):
        why = f"; {_RUNNING}, and that file is newer than the segment"
    elif one.log_dir.is_running and _is_without_active(one):
        why = f"; {_RUNNING}, and the cleaner has been in the last segment here, so a later one was not copied"
    severity = Severity.INFO if why else Severity.BAD
    yield anomaly("lost-tail", severity, detail + why, **_where(one, end, max(high, recovered)))


def _is_without_active(one: PartitionDir) -> bool:
    """Whether the cleaner has gone through the last segment that is here: it never does through the one that is written
    to, which was begun after the directory had been listed for a copy."""
    return (one.log_dir.cleaned or {}).get(one.key, 0) > one.last_segment


def _last_segment(one: PartitionDir) -> Path:
    return Path(one.path) / f"{one.last_segment:020}{FileKind.SEGMENT}"


def _where(one: PartitionDir, offset: int, end: int) -> dict[str, Any]:
    return {"topic": one.topic, "partition": one.partition, "offset": offset, "end_offset": end, "path": one.path}


def shape_problems(
    around: Surroundings, ends: Mapping[str, int], cluster: Cluster | None, topics: Sequence[str] = ()
) -> list[Problem]:
    """Checkpoints that contradict themselves, and partitions that should be there, or should not.

    `ends` are the last offsets of the replicas that were read.
    """
    found: list[Problem] = [*_strangers(around), *_twins(around), *_clones(around)]
    if cluster is None or cluster.unreadable:
        found += _other_ids(around)
    if cluster is not None and cluster.unreadable:
        found.append(problem(cluster.unreadable, -1, "bad-records", "it holds what is no record of the metadata log"))
    with_metadata = {one.log_dir.path for one in around.replicas if one.topic == CLUSTER_METADATA}
    for one in around.replicas:
        if topics and one.topic not in topics:
            continue
        if one.path in ends:
            found += _checkpoints(one, max(ends[one.path] + 1, one.last_segment), cluster)
        if one.path in ends and one.log_dir.was_stopped_cleanly:
            found += _snapshots(one, max(ends[one.path] + 1, one.last_segment))
            found += _without_epochs(one, ends[one.path], around)
            if one.log_dir.path in with_metadata:
                found += _epochs(one, cluster)
        if cluster is not None:
            found += _known(one, cluster)
    if cluster is not None:
        for log_dir in around.log_dirs.values():
            here = {one.key for one in around.replicas if one.log_dir is log_dir}
            found += _absent(log_dir, here, cluster, topics)
    return found


def _strangers(around: Surroundings) -> Iterator[Problem]:
    """Directories of another cluster than most."""
    named = [one for one in around.log_dirs.values() if one.cluster_id]
    counts = Counter(one.cluster_id for one in named)
    if len(counts) < 2:
        return
    ((most, _),) = counts.most_common(1)
    for one in named:
        if one.cluster_id != most:
            detail = f"this directory is of the cluster {one.cluster_id}, the others are of {most}"
            yield problem(Path(one.path) / META, 0, "wrong-cluster", detail)


def _twins(around: Surroundings) -> Iterator[Problem]:
    """Two directories of one broker that both have a partition, or one that has it under two names: a broker has it
    once."""
    seen: dict[tuple[str, int, Partition], PartitionDir] = {}
    told: set[tuple[str, str]] = set()
    for one in around.replicas:
        if one.log_dir.node_id < 0 or one.topic == CLUSTER_METADATA:
            continue
        first = seen.setdefault((one.log_dir.cluster_id, one.log_dir.node_id, one.key), one)
        pair = first.log_dir.path, one.log_dir.path
        if Path(first.path).resolve() != Path(one.path).resolve() and pair not in told:
            told.add(pair)
            detail = f"broker {one.log_dir.node_id} has {one.name} here and in {first.log_dir.path}"
            name = "repeated-broker" if _are_alike(around, one.log_dir, first.log_dir) else "repeated-partition"
            yield problem(Path(one.log_dir.path) / META, 0, name, detail)


def _are_alike(around: Surroundings, one: LogDir, other: LogDir) -> bool:
    """Whether two directories of a broker are copies of each other, or of two brokers, and not two of its disks."""
    if one is other:  # `orders-00` is `orders-0` to a broker too
        return False
    ids = {one.directory_id, other.directory_id}
    if len(ids) == 1 or b"" in ids:
        return True
    here, there = ({of.key for of in around.replicas if of.log_dir is log_dir} for log_dir in (one, other))
    return 2 * len(here & there) > max(len(here), len(there))


def _clones(around: Surroundings) -> Iterator[Problem]:
    """Directories of different brokers with one id: the controller takes them for the same disk (KIP-858)."""
    seen: dict[bytes, LogDir] = {}
    for one in around.log_dirs.values():
        if not one.directory_id:
            continue
        first = seen.setdefault(one.directory_id, one)
        if first.node_id != one.node_id:
            detail = f"broker {one.node_id} has the directory.id of {first.path}, which is of broker {first.node_id}"
            yield problem(Path(one.path) / META, 0, "repeated-directory", detail)


def _other_ids(around: Surroundings) -> Iterator[Problem]:
    """Without the metadata log: directories of one topic that have another id than most.

    A topic that was deleted and made again while a broker was away looks the same, until the broker starts.
    """
    named: dict[tuple[str, str], list[PartitionDir]] = {}
    for one in around.replicas:
        if one.topic_id:
            named.setdefault((one.log_dir.cluster_id, one.topic), []).append(one)
    for of in named.values():
        ((most, _), *others) = Counter(one.topic_id for one in of).most_common()
        for one in of if others else ():
            if one.topic_id != most:
                detail = f"its topic has another id in {next(other.path for other in of if other.topic_id == most)}"
                yield problem(Path(one.path) / PARTITION, 0, "wrong-topic-id", detail, severity="info")


def _without_epochs(one: PartitionDir, last: int, around: Surroundings) -> Iterator[Problem]:
    """Whoever leads a partition notes its epoch before the first batch of it is written."""
    if one.epochs or last < 0 or one.topic == CLUSTER_METADATA:
        return
    path = Path(one.path) / EPOCHS
    others = any(other.epochs for other in around.replicas if other.log_dir is one.log_dir)
    try:
        content = files.read_text(path).split()
    except FileNotFoundError:
        content = []
    except (OSError, ValueError):
        return  # it has been told of already
    if others and content in ([], ["0", "0"]):
        detail = f"no leader epoch is noted, and the log has batches up to offset {last}"
        yield problem(path, 0, "bad-epoch-checkpoint", detail)


def _snapshots(one: PartitionDir, end: int) -> Iterator[Problem]:
    """A snapshot of producers is named after where the log ended when it was written."""
    for path in (Path(one.path) / name for name in files.names(one.path) if name.endswith(".snapshot")):
        if path.stem.isdigit() and int(path.stem) > end:
            detail = f"it was written when the log ended at offset {int(path.stem)}; now it ends at {end}"
            yield problem(path, 0, "bad-snapshot", detail)


def _epochs(one: PartitionDir, cluster: Cluster | None) -> Iterator[Problem]:
    """No leader had an epoch that the controller has not given out."""
    image = _image(one, cluster)
    if image is None or not one.epochs or one.topic == CLUSTER_METADATA:
        return
    newest, start = one.epochs[-1]
    if newest > image.leader_epoch:
        detail = (
            f"epoch {newest} from offset {start} on; the cluster's metadata have {image.leader_epoch} as the newest"
        )
        yield problem(Path(one.path) / EPOCHS, 0, "bad-epoch-checkpoint", detail)


def _checkpoints(one: PartitionDir, end: int, cluster: Cluster | None) -> Iterator[Problem]:
    log_dir = one.log_dir
    high, start = log_dir.high_watermarks.get(one.key), log_dir.log_starts.get(one.key, 0)
    path = Path(log_dir.path)
    if start > end:
        detail = f"{one.name} begins at {start}, and ends at {end}"
        yield problem(path / LOG_STARTS, 0, "bad-checkpoint", detail, severity=_severity(one, path / LOG_STARTS))
    if log_dir.cleaned and log_dir.cleaned.get(one.key, 0) > end:
        detail = f"{one.name} is compacted up to {log_dir.cleaned[one.key]}, and ends at {end}"
        yield problem(path / CLEANED, 0, "bad-checkpoint", detail, severity=_severity(one, path / CLEANED))
    if high is None or not log_dir.was_stopped_cleanly or one.topic == CLUSTER_METADATA:
        return
    replicas = _image(one, cluster)
    if replicas is not None and len(replicas.replicas) == 1 and high < end:
        detail = f"{one.name} has its high watermark at {high}; it is the only replica, ends at {end}, and was closed"
        yield problem(path / HIGH_WATERMARKS, 0, "bad-checkpoint", detail)


def _severity(one: PartitionDir, checkpoint: Path) -> str:
    """Info where a checkpoint may be of a later time than the log that it is held against."""
    is_newer = one.log_dir.is_running and is_older_than(_last_segment(one), checkpoint)
    return "info" if is_newer else "bad"


def _image(one: PartitionDir, cluster: Cluster | None) -> PartitionImage | None:
    return None if cluster is None else cluster.image.partition(one.topic, one.partition)


def _known(one: PartitionDir, cluster: Cluster) -> Iterator[Problem]:
    """A directory whose topic the cluster does not have, or has under another id."""
    if one.topic == CLUSTER_METADATA:
        return
    topic = cluster.image.topic(one.topic)
    path = Path(one.path) / PARTITION
    if one.topic_id in cluster.deleted or (topic is None and not one.topic_id):
        detail = "its topic was deleted; the broker removes it when it starts"
        yield problem(path, 0, "deleted-topic", detail, severity="info")
    elif topic is None:
        yield problem(path, 0, "stray-partition", "the cluster's metadata know no such topic", severity="info")
    elif one.topic_id and topic.id != one.topic_id:
        # A topic may be deleted and made again while directories are copied.
        is_older = one.log_dir.is_running or cluster.has_started_since(one.log_dir)
        severity = "info" if is_older else "bad"
        detail = "the cluster's metadata have this topic under another id"
        yield problem(path, 0, "wrong-topic-id", detail, severity=severity)
    elif one.partition not in topic.partitions:
        yield problem(path, 0, "stray-partition", "the cluster's metadata know no such partition", severity="info")
    elif one.log_dir.node_id >= 0 and one.log_dir.node_id not in topic.partitions[one.partition].replicas:
        detail = f"broker {one.log_dir.node_id} is no replica of it any more"
        yield problem(path, 0, "stray-partition", detail, severity="info")


def _absent(log_dir: LogDir, here: set[Partition], cluster: Cluster, topics: Sequence[str]) -> Iterator[Problem]:
    """Partitions that the metadata put into this very directory."""
    if not log_dir.directory_id:
        return
    unnamed: list[str] = []
    for topic in cluster.image.topics.values():
        if topics and topic.name not in topics:
            continue
        for number, partition in sorted(topic.partitions.items()):
            placed = dict(zip(partition.replicas, partition.directories, strict=False))
            if placed.get(log_dir.node_id) == log_dir.directory_id and (topic.name, number) not in here:
                if not log_dir.names((topic.name, number)):
                    unnamed.append(f"{topic.name}-{number}")
                    continue
                detail = f"broker {log_dir.node_id} has {topic.name}-{number} in this directory, say the metadata"
                # Copies often leave the coordinators' log out; then what hangs is info, and so is that it is not here.
                # A topic may be made, or moved, while the directories of a running broker are copied.
                is_told = topic.name == TRANSACTION_STATE or log_dir.is_running
                severity = "info" if is_told else "bad"
                path = Path(log_dir.path) / f"{topic.name}-{number}"
                yield problem(path, -1, "missing-partition", detail, severity=severity)
    if unnamed:
        # A clean stop names each log that there is. Odradek's snapshots and forks have none before its first record.
        them, was = ("them", "were") if len(unnamed) > 1 else ("it", "was")
        detail = (
            f"broker {log_dir.node_id} has {listed(unnamed)} in this directory, say the metadata; its checkpoints do "
            f"not name {them}, so there {was} none when it was closed"
        )
        path = Path(log_dir.path) / unnamed[0]
        yield problem(path, -1, "missing-partition", detail, severity="info")


def same_batches(audited: Iterable[PartitionDir], digests: Mapping[Partition, tuple[int, int]]) -> Iterator[Problem]:
    """Partitions that hold the very batches of another one.

    A batch has its time, producer and sequence under its checksum, but not its partition: whether somebody has put the
    segments of one into the directory of the other, or a producer writes the same to both, the logs do not say.
    """
    first: dict[tuple[int, int], PartitionDir] = {}
    for one in sorted(audited, key=lambda one: one.key):
        digest = digests.get(one.key, (0, 0))
        if digest[0] < BATCHES_SAME_MIN or one.topic.startswith("__"):
            continue
        other = first.setdefault(digest, one)
        if other is not one:
            detail = (
                f"all {digest[0]} batches of producers are those of {other.name}, at the same offsets: segments in the "
                "wrong directory, unless a producer writes everything to both"
            )
            yield problem(one.path, -1, "same-batches", detail, severity="info")


def unknown_producers(
    audited: Iterable[PartitionDir], producers: Mapping[Partition, int], cluster: Cluster | None
) -> Iterator[Problem]:
    """Batches of producer ids that the controller has not given out.

    Brokers are given ids by the thousand, and the record of that is written before; a directory that was not closed may
    have a metadata log that lags.
    """
    known = 0 if cluster is None or cluster.unreadable else cluster.image.next_producer_id
    for one in audited:
        highest = producers.get(one.key, -1)
        if known and highest >= known and one.log_dir.was_stopped_cleanly:
            detail = f"producer {highest} wrote to it; the cluster's metadata have given out ids up to {known - 1}"
            yield problem(one.path, -1, "unknown-producer", detail)


def future_times(audited: Iterable[PartitionDir], newest: Mapping[Partition, int], now: int) -> Iterator[Problem]:
    """Records of a time that has not come: retention by time keeps their segments until then."""
    for one in audited:
        ahead = newest.get(one.key, 0) - now
        if ahead > AHEAD_MS:
            detail = f"its newest record is {ahead // AHEAD_MS:,} days ahead; by time its segment is deleted only then"
            yield problem(one.path, -1, "future-timestamp", detail, severity="info")
