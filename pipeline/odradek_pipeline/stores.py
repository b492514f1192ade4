"""Object stores and HDFS: log directories are copied here before an audit, and tables there behind it.

Everything that reads logs maps files, so what is far away is fetched first, as it is: names, sizes and times. A folder
that is kept makes that cheap the next time, since only what is new or has changed is fetched. The file systems are
Arrow's, which need no JVM; workers of Spark's Python could not use Hadoop's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek_pipeline.layout import CLUSTER_METADATA, topic_of

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

__all__ = ["fetched", "is_far", "placed"]

_FAR = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://")
_HERE = {"s3a": "s3", "s3n": "s3"}
"""Names that Hadoop has for a scheme, and Arrow's."""
FETCHERS = 8
_DEEP = 2
"""A log directory has files and partitions, and partitions have files."""


def is_far(place: str | Path) -> bool:
    """Whether a path names a place in a store: `s3://BUCKET/PATH`, `hdfs://HOST/PATH`, `gs://…`, `abfss://…`."""
    return _FAR.match(str(place)) is not None


@contextlib.contextmanager
def fetched(places: Iterable[str], topics: Sequence[str] = (), *, stage: Path | None = None) -> Iterator[list[Path]]:
    """The directories, those far away as copies below `stage`; without one these are removed at the end."""
    places = list(places)
    with contextlib.ExitStack() as exits:
        folder = stage
        if folder is None and any(map(is_far, places)):
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="odradek-stage-")))
        found: list[Path] = []
        for place in places:
            if not is_far(place):
                found.append(Path(place))
                continue
            assert folder is not None
            found.append(_Copy.of(place, folder, topics).fetch())
        yield found


@contextlib.contextmanager
def placed(out: str) -> Iterator[Path]:
    """A folder for tables; one far away gets what was written, when the audit has ended well or badly."""
    if not is_far(out):
        yield Path(out)
        return
    system, path = _system(out)
    with tempfile.TemporaryDirectory(prefix="odradek-out-") as folder:
        with _sentences(out):
            system.create_dir(path, recursive=True)  # before the work, so that a missing right is told at once
        try:
            yield Path(folder)
        except SystemExit:
            _send(Path(folder), system, path, out)
            raise
        _send(Path(folder), system, path, out)


def _send(folder: Path, system: FileSystem, path: str, out: str) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    with _sentences(out):
        copy_files(str(folder), path, source_filesystem=LocalFileSystem(), destination_filesystem=system)


def _system(place: str) -> tuple[FileSystem, str]:
    """The file system of a place, and the path in it."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    scheme = place.partition("://")[0]
    named = _HERE.get(scheme, scheme) + place[len(scheme) :]
    try:
        system, path = FileSystem.from_uri(named)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{place} names no place that can be reached: {_first_line(error)}") from None
    return system, path


@contextlib.contextmanager
def _sentences(place: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"There is no {place}.") from None
    except (OSError, pa.ArrowException) as error:
        if "allow_bucket_creation" in str(error):  # it asks for an option that nobody has here
            raise UsageError(f"The bucket of {place} does not exist.") from None
        raise UsageError(f"{place} cannot be reached: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    text = next(iter(str(error).splitlines()), type(error).__name__)
    return text.strip().rstrip(".") + "."


@dataclass(frozen=True, slots=True)
class _Copy:
    """A log directory far away, and where its copy lies."""

    place: str
    system: FileSystem
    path: str
    here: Path
    topics: frozenset[str]

    @classmethod
    def of(cls, place: str, stage: Path, topics: Sequence[str]) -> _Copy:
        system, path = _system(place)
        path = path.rstrip("/")
        # A directory of one partition is known by its name, so the copy has the same.
        name = hashlib.sha256(place.partition("?")[0].rstrip("/").encode()).hexdigest()[:16]
        return cls(place, system, path, stage / name / path.rpartition("/")[2], frozenset(topics))

    def fetch(self) -> Path:
        """Make the copy what the original is; gives where it lies."""
        there = {relative: info for relative, info in self.listed() if self.is_wanted(relative)}
        if not any(self.topic_of(relative) for relative in there) and "meta.properties" not in there:
            raise UsageError(f"There is no partition in {self.place}.")
        with self.writing():
            self.here.mkdir(parents=True, exist_ok=True)
            self.remove_others(there)
        missing = [(relative, info) for relative, info in there.items() if not self.is_same(relative, info)]
        with _sentences(self.place), ThreadPoolExecutor(FETCHERS) as fetchers:
            for _ in fetchers.map(lambda one: self.fetch_one(*one), missing):
                pass
        return self.here

    def listed(self) -> Iterator[tuple[str, FileInfo]]:
        from pyarrow.fs import FileSelector, FileType

        with _sentences(self.place):
            if self.system.get_file_info(self.path).type == FileType.NotFound:
                raise UsageError(f"There is no {self.place}.")
            found = self.system.get_file_info(FileSelector(self.path, recursive=True))
        for info in found:
            if info.type == FileType.File:
                yield info.path[len(self.path) :].lstrip("/"), info

    def is_wanted(self, relative: str) -> bool:
        """Files of the broker, and those of wanted topics; the metadata log says what there should be of them."""
        topic = self.topic_of(relative)
        if relative.count("/") >= _DEEP:
            return False
        return topic is None or not self.topics or topic in self.topics or topic == CLUSTER_METADATA

    def topic_of(self, relative: str) -> str | None:
        """The topic of a file's partition; None for what is of the broker."""
        directory, of_partition, _ = relative.partition("/")
        return topic_of(directory if of_partition else self.here.name)

    def remove_others(self, there: dict[str, FileInfo]) -> None:
        """What is no longer in the original."""
        for path in [one for one in self.here.rglob("*") if one.is_file()]:
            if str(path.relative_to(self.here)) not in there:
                path.unlink()
        for path in self.here.iterdir():
            if path.is_dir() and not any(path.iterdir()):
                shutil.rmtree(path)

    def is_same(self, relative: str, info: FileInfo) -> bool:
        try:
            found = (self.here / relative).stat()
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == (info.size, info.mtime_ns)

    def fetch_one(self, relative: str, info: FileInfo) -> None:
        """One file, whole or not at all; what has been deleted since it was listed is left out."""
        path = self.here / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.fetched")
        try:
            with self.system.open_input_stream(info.path) as source, beside.open("wb") as target:
                shutil.copyfileobj(source, target, 4 << 20)
            if info.mtime_ns is not None:
                os.utime(beside, ns=(info.mtime_ns, info.mtime_ns))
            os.replace(beside, path)
        except FileNotFoundError:
            beside.unlink(missing_ok=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"{self.here} cannot be written to: {error.strerror}.") from None
