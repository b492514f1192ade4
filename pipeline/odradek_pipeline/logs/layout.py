"""What lies in a Kafka log directory: topics, partitions, and the files of each by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from odradek_pipeline.logs import files

__all__ = [
    "CLUSTER_METADATA",
    "FileKind",
    "LogFile",
    "OFFSET_MAX",
    "PARTITION_MAX",
    "Problem",
    "TRANSACTION_STATE",
    "Tree",
    "find_files",
    "number_of",
    "one_replica_each",
    "problem",
    "topic_of",
]

TRANSACTION_STATE = "__transaction_state"
CLUSTER_METADATA = "__cluster_metadata"

_PARTITION = re.compile(r"(?P<topic>.+?)-(?P<partition>\d+)(?P<state>\.[0-9a-f]{32}-(?:delete|future|stray))?")
_FILE = re.compile(r"(?P<offset>\d{20})(?:-\d{10})?(?P<suffix>\.[a-z]+)(?P<state>\.deleted|\.cleaned|\.swap)?")
_CLEANED = "cleaner-offset-checkpoint"
_OF_BROKER = "meta.properties"
"""What every log directory of a broker has, also one that holds no partition yet."""


class FileKind(StrEnum):
    """A file of a partition, by its suffix."""

    SEGMENT = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"
    CHECKPOINT = ".checkpoint"


_KINDS = frozenset(FileKind)


PARTITION_MAX, OFFSET_MAX = (1 << 31) - 1, (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a partition."""

    path: str
    kind: FileKind
    topic: str
    partition: int
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, or not wholly."""

    path: str
    position: int
    problem: str
    detail: str
    severity: str = "bad"
    """`bad` where data cannot be trusted; `info` for what a live or killed broker leaves behind."""
    offset: int = -1
    """The first offset that it is about, where it is about batches and has no place in a file."""


def problem(
    path: str | Path, position: int, name: str, detail: str, *, severity: str = "bad", offset: int = -1
) -> Problem:
    """A problem, shorter to write."""
    return Problem(str(path), position, name, detail, severity, offset)


@dataclass(slots=True)
class Tree:
    """What was found below the directories that were named."""

    files: list[LogFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cleaned: dict[tuple[str, int], int] = field(default_factory=dict)
    """Up to which offset compaction has gone through a partition."""
    roots: list[str] = field(default_factory=list)
    """The log directories, also those without a partition."""

    def of(self, kind: FileKind, *, topic: str | None = None) -> list[LogFile]:
        """Files of one kind, in the order of their offsets within each partition."""
        return [file for file in self.files if file.kind is kind and (topic is None or file.topic == topic)]

    def of_topics(self, topics: Iterable[str]) -> Tree:
        """What is of these topics alone."""
        wanted = frozenset(topics)
        return Tree([file for file in self.files if file.topic in wanted], self.problems, self.cleaned, self.roots)

    def of_replicas(self, directories: Iterable[str]) -> Tree:
        """The segments of these directories of partitions alone."""
        wanted = frozenset(directories)
        segments = [file for file in self.of(FileKind.SEGMENT) if os.path.dirname(file.path) in wanted]
        return Tree(segments, cleaned=self.cleaned)

    def starts(self) -> dict[tuple[str, int], int]:
        """The first offset of each partition that is still there, as far as the names of segments say."""
        starts: dict[tuple[str, int], int] = {}
        for file in self.of(FileKind.SEGMENT):
            starts.setdefault((file.topic, file.partition), file.base_offset)
        return starts


def one_replica_each(tree: Tree, chosen: Iterable[str]) -> Tree:
    """Only the chosen replicas; the others are named in `problems`."""
    kept = frozenset(chosen)
    left_out = {os.path.dirname(file.path) for file in tree.of(FileKind.SEGMENT)} - kept
    notes = [
        problem(directory, -1, "other-replica", "compared with the one that is audited", severity="info")
        for directory in sorted(left_out)
    ]
    kept_files = [file for file in tree.files if os.path.dirname(file.path) not in left_out]
    return Tree(kept_files, [*tree.problems, *notes], tree.cleaned, tree.roots)


def find_files(directories: Iterable[str | Path], *, topics: Iterable[str] = ()) -> Tree:
    """Every file of every partition below log directories; a directory of one partition will do as well.

    What is named twice, by whatever path, is there once: as the log directory that it is, or in which it lies.
    """
    tree = Tree()
    wanted = frozenset(topics)
    roots: dict[str, Path] = {}
    partitions: dict[tuple[str, str], Path] = {}
    for directory in directories:
        root = Path(directory)
        files.look(root)
        if not files.is_dir(root):
            what = "not a directory" if files.exists(root) else "not there"
            tree.problems.append(problem(root, -1, "unreadable", what))
        elif _partition_of(root.name) and any(_FILE.fullmatch(name) for name in _names(root, tree)):
            partitions.setdefault((files.real(root.parent), root.name), root)
        else:
            roots.setdefault(files.real(root), root)
    for root in roots.values():
        _add_root(tree, root, wanted)
    parents: dict[str, Path] = {}
    for (parent, name), directory in partitions.items():
        if parent in roots:
            continue
        # One spelling of a log directory, so that two of its partitions are not taken to be of two.
        beside = parents.setdefault(parent, directory.parent)
        _add_partition(tree, beside / name, wanted)
        if files.is_file(beside / _CLEANED):
            _add_cleaned(tree, beside / _CLEANED)
    tree.files = _once(tree.files)
    tree.files.sort(key=lambda file: (file.topic, file.partition, file.base_offset, file.kind))
    return tree


def _once(listed: list[LogFile]) -> list[LogFile]:
    """Without those of directories that are links to others which are there too."""
    named: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}
    for file in listed:
        directory, _, _ = file.path.rpartition("/")
        if directory not in named:
            real = files.real(directory), os.path.basename(directory)
            named[directory] = first.setdefault(real, directory)
    return [file for file in listed if named[file.path.rpartition("/")[0]] == file.path.rpartition("/")[0]]


def _names(directory: Path, tree: Tree) -> list[str]:
    try:
        return files.names(directory)
    except OSError as error:
        tree.problems.append(problem(directory, -1, "unreadable", error.strerror or str(error)))
        return []


def topic_of(directory: str) -> str | None:
    """The topic of a partition's directory, by its name; None for what is none."""
    of = _partition_of(directory)
    return None if of is None else of[0]


def _partition_of(name: str) -> tuple[str, int] | None:
    matched = _PARTITION.fullmatch(name)
    if matched is None or matched["state"] is not None or int(matched["partition"]) > PARTITION_MAX:
        return None
    return matched["topic"], int(matched["partition"])


def _add_root(tree: Tree, root: Path, wanted: frozenset[str]) -> None:
    names = _names(root, tree)
    tree.roots.append(str(root))
    partitions = [name for name in names if _partition_of(name) and files.is_dir(root / name)]
    if names and not partitions and _OF_BROKER not in names:
        tree.problems.append(problem(root, -1, "no-partitions", "no directory here is that of a partition"))
    for name in names:
        if (of := _partition_of(name)) and (not wanted or of[0] in wanted) and _is_nowhere(root / name):
            tree.problems.append(_nowhere(root / name))
    for name in partitions:
        _add_partition(tree, root / name, wanted)
    if _CLEANED in names:
        _add_cleaned(tree, root / _CLEANED)


def _is_nowhere(path: Path) -> bool:
    """Whether it is a symbolic link to what is not there, or to itself."""
    return files.is_link(path) and not path.is_dir() and not path.is_file()


def _nowhere(path: Path) -> Problem:
    return problem(path, -1, "leads-nowhere", f"a link to {os.readlink(path)}, which is not there")


def _add_partition(tree: Tree, directory: Path, wanted: frozenset[str]) -> None:
    of = _partition_of(directory.name)
    assert of is not None, "only directories of partitions get here"
    topic, partition = of
    if wanted and topic not in wanted:
        return
    names = _names(directory, tree)
    swapped = _swapped(names)
    for name in names:
        matched = _FILE.fullmatch(name)
        if matched is None or matched["suffix"] not in _KINDS or matched["state"] not in (None, ".swap"):
            continue  # what Kafka deletes, or has not finished, is no part of the log
        is_swapped = matched["suffix"] == FileKind.SEGMENT and int(matched["offset"]) in swapped
        if (matched["state"] is None) == is_swapped:
            continue
        path = directory / name
        if int(matched["offset"]) > OFFSET_MAX:
            tree.problems.append(problem(path, -1, "unreadable", "no offset is as large as its name"))
            continue
        try:
            size = files.stat(path).size
        except OSError as error:
            if files.is_link(path):
                tree.problems.append(_nowhere(path))
                continue
            tree.problems.append(problem(path, -1, "vanished", error.strerror or str(error), severity="info"))
            continue
        tree.files.append(
            LogFile(str(path), FileKind(matched["suffix"]), topic, partition, int(matched["offset"]), size)
        )


def _swapped(names: Iterable[str]) -> frozenset[int]:
    """The segments that a killed broker was about to put into the place of others: its next start does so.

    The new segments have their last suffix but one by then; where some still have another, those behind are undone.
    """
    found: dict[str, set[int]] = {".swap": set(), ".cleaned": set()}
    there: set[int] = set()
    for name in names:
        matched = _FILE.fullmatch(name)
        if matched is not None and matched["suffix"] == FileKind.SEGMENT:
            offset = int(matched["offset"])
            found.get(matched["state"], set()).add(offset)
            if matched["state"] is None:
                there.add(offset)
    undone = min(found[".cleaned"], default=OFFSET_MAX + 1)
    return frozenset(offset for offset in found[".swap"] if offset < undone and offset not in there)


def _add_cleaned(tree: Tree, path: Path) -> None:
    try:
        for topic, partition, offset in _checkpoint(path):
            tree.cleaned[topic, partition] = offset
    except (OSError, ValueError) as error:
        tree.problems.append(problem(path, 0, "bad-checkpoint", str(error)))


def _checkpoint(path: Path) -> Iterator[tuple[str, int, int]]:
    for line in files.read_text(path).splitlines()[2:]:
        topic, partition, offset = line.split(" ")
        yield topic, number_of(partition, PARTITION_MAX), number_of(offset)


def number_of(text: str, most: int = OFFSET_MAX) -> int:
    """A number of a file of text; raises ValueError where it is none, or larger than there are any."""
    value = int(text)
    if not -1 <= value <= most:
        raise ValueError(f"{text} is out of range")
    return value
