"""The files of log directories, on this machine or in a store, by the same few questions.

A place in a store (`s3://BUCKET/PATH`, `hdfs://HOST/PATH`, …) becomes a path like any other, `s3:/BUCKET/PATH`; its
files are reached by Arrow's file systems, and by fsspec's where Arrow has none. Nothing is copied: what is small is
read whole, of segments the wanted ranges are (see `Segment`). A store that is busy, or whose keys have expired, is
asked again for a while, with keys that are looked for anew; then it is a `StoreError`, never a finding.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import mmap
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = [
    "FILES_VARIABLE",
    "Segment",
    "Stat",
    "StoreError",
    "absolute",
    "exists",
    "far_system",
    "first_line",
    "is_dir",
    "is_far",
    "is_file",
    "is_link",
    "is_stored",
    "look",
    "mapped_segment",
    "names",
    "opened",
    "path_of",
    "place_of",
    "read_bytes",
    "read_text",
    "real",
    "registered",
    "stamp",
    "stat",
    "system_of",
]

FILES_VARIABLE = "ODRADEK_STORES"
"""Where workers find how a store is reached: JSON, by `SCHEME:/AUTHORITY` the address with its options."""
PATIENCE_VARIABLE = "ODRADEK_STORE_PATIENCE_S"
PATIENCE_S = 120.0
"""How long a store may be busy, or refuse, before an audit gives up."""
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
WINDOW_BYTES = 8 << 20
"""What is asked for at once of a segment."""
STRIDE_BYTES = 64 << 20
"""What of a segment is held at once."""
BUFFER_BYTES = 1 << 20
READERS = 16
SMALL_BYTES = 64 << 10
"""What is smaller, and not beside a segment, is fetched with the listing."""

_FAR = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<authority>[^/]*)(?P<path>/.*)?")
_PLACE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://")
_IN_TEXT = re.compile(r"(?<![\w:/.-])(s3|s3a|s3n|gs|gcs|hdfs|viewfs|abfs|abfss|file|memory):/(?=[^/\s])")
_HERE = {"s3a": "s3", "s3n": "s3"}
"""Names that Hadoop has for a scheme, and Arrow's."""
_SMALL = re.compile(r".*-checkpoint|meta\.properties|partition\.metadata")
_NO_RETRY = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "NO_SUCH_BUCKET", "status 301")
"""What no patience helps against, when a store is asked for the first time."""

AnyPath = str | Path
Answer = TypeVar("Answer")


class StoreError(UsageError):
    """A store has not answered for as long as an audit waits."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What is known of a file or a directory without reading it; times in nanoseconds."""

    size: int
    mtime_ns: int
    is_dir: bool = False


# ---------------------------------------------------------------------- places


def is_far(place: AnyPath) -> bool:
    """Whether a place as users write it is in a store: `s3://BUCKET/PATH`, `hdfs://HOST/PATH`, `gs://…`."""
    return _PLACE.match(str(place)) is not None


def path_of(place: AnyPath) -> Path:
    """The path of a place; how its store is reached is kept for this process and those that it starts."""
    text = str(place)
    if not is_far(text):
        return Path(text)
    text, _, query = text.partition("?")
    found = _FAR.fullmatch(text.rstrip("/"))
    if found is None or ":///" in text or not found["authority"]:
        raise UsageError(f"{place} names no place that can be reached: it has no bucket and no host.")
    known = _stores()
    known[f"{found['scheme']}:/{found['authority']}"] = query
    os.environ[FILES_VARIABLE] = json.dumps(known)
    return Path(f"{found['scheme']}:/{found['authority']}{found['path'] or ''}")


def is_stored(path: AnyPath) -> bool:
    """Whether a path is in a store."""
    return _Far.of(path) is not None


def system_of(place: AnyPath) -> tuple[FileSystem, str]:
    """The file system of a place in a store, and the path in it."""
    far = _Far.of(path_of(place))
    assert far is not None, "only places in stores get here"
    return far.on()


def registered() -> dict[str, str]:
    """What workers need to reach the same stores, as variables of their environment."""
    return {name: os.environ[name] for name in (FILES_VARIABLE, PATIENCE_VARIABLE) if os.environ.get(name)}


def place_of(text: str) -> str:
    """A text with the paths in it as users write them."""
    return _IN_TEXT.sub(r"\1://", text)


def _stores() -> dict[str, str]:
    return dict(json.loads(os.environ.get(FILES_VARIABLE) or "{}"))


@dataclass(frozen=True, slots=True)
class _Far:
    """A path in a store."""

    store: str
    path: str
    """Below the root of the store's address."""

    @classmethod
    def of(cls, path: AnyPath) -> _Far | None:
        text = str(path)
        if ":/" not in text[:16] or text.startswith("/"):
            return None
        found = _FAR.fullmatch(text)
        if found is None:
            return None
        return cls(f"{found['scheme']}:/{found['authority']}", (found["path"] or "").strip("/"))

    @property
    def whole(self) -> str:
        """As a path."""
        return f"{self.store}/{self.path}" if self.path else self.store

    @property
    def address(self) -> str:
        """With the options of the store."""
        scheme, _, authority = self.store.partition(":/")
        query = _stores().get(self.store, "")
        return (
            f"{_HERE.get(scheme, scheme)}://{authority}{'/' if scheme == 'hdfs' else ''}{'?' + query if query else ''}"
        )

    def on(self) -> tuple[FileSystem, str]:
        """The file system, and the path in it."""
        system, root = far_system(self.address)
        return system, f"{root.rstrip('/')}/{self.path}" if self.path else root


@functools.lru_cache(maxsize=16)
def far_system(address: str) -> tuple[FileSystem, str]:
    """The file system of an address, and the path in it; made once, and anew after `far_system.cache_clear()`."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        found: tuple[FileSystem, str] = FileSystem.from_uri(address)
        return found
    except (pa.ArrowException, OSError, ValueError) as error:
        other = _of_fsspec(address)
        if other is not None:
            return other
        named = place_of(address)
        raise UsageError(f"{named} names no place that can be reached: {first_line(error)}") from None


def _of_fsspec(address: str) -> tuple[FileSystem, str] | None:
    """The same by fsspec, where it is installed and knows the scheme."""
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError, OSError):
        return None
    return PyFileSystem(FSSpecHandler(system)), path


def first_line(error: BaseException) -> str:
    """An error of a store as the end of a sentence."""
    text = next(iter(str(error).splitlines()), type(error).__name__)
    return text.strip().rstrip(".") + "."


def _patiently(far: _Far, ask: Callable[[FileSystem, str], Answer], *, first: bool = False) -> Answer:
    """Ask a store, again and again while it is busy; what is not there is a FileNotFoundError at once."""
    import pyarrow as pa

    until = time.monotonic() + float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_S)
    waits = iter(WAITS_S)
    while True:
        try:
            return ask(*far.on())
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            hopeless = first and any(one in str(error) for one in _NO_RETRY)
            wait = next(waits, WAITS_S[-1])
            if hopeless or time.monotonic() + wait > until:
                raise StoreError(f"{place_of(far.whole)} cannot be reached: {first_line(error)}") from None
            far_system.cache_clear()  # keys that have expired are looked for anew
            time.sleep(wait)


# ---------------------------------------------------------------------- listings


@dataclass(slots=True)
class _Listing:
    """Everything below a path in a store, as it was when it was asked for."""

    root: str
    directories: dict[str, dict[str, Stat]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    number: int = field(default_factory=itertools.count(1).__next__)

    def has(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def add(self, path: str, about: Stat | None) -> None:
        """A file, or a directory where nothing is said about it; with the directories above."""
        if about is None:
            self.directories.setdefault(path, {})
        while path != self.root:
            parent, _, name = path.rpartition("/")
            entries = self.directories.setdefault(parent, {})
            if name in entries:
                return
            entries[name] = about or Stat(0, 0, is_dir=True)
            path, about = parent, None

    def stat(self, path: str) -> Stat | None:
        if path in self.directories:
            return Stat(0, 0, is_dir=True)
        parent, _, name = path.rpartition("/")
        return self.directories.get(parent, {}).get(name)


_listings: dict[str, _Listing] = {}


def look(path: AnyPath) -> None:
    """List a path in a store anew, with all below it; what is on this machine is asked each time anyway."""
    far = _Far.of(path)
    if far is None:
        return
    from pyarrow.fs import FileSelector, FileType

    def ask(system: FileSystem, at: str) -> list[Any]:
        return list(system.get_file_info(FileSelector(at, recursive=True, allow_not_found=True)))

    found = _patiently(far, ask, first=True)
    _, root = far.on()
    listing = _Listing(far.whole)
    for info in found:
        name = f"{far.whole}/{info.path[len(root) :].strip('/')}"
        if info.type == FileType.Directory:
            listing.add(name, None)
        else:
            listing.add(name, Stat(info.size or 0, info.mtime_ns or 0))
    for one in [known for known in _listings if listing.has(known)]:
        del _listings[one]
    _listings[listing.root] = listing
    small = [
        f"{directory}/{name}"
        for directory, entries in listing.directories.items()
        for name, about in entries.items()
        if not about.is_dir and about.size <= SMALL_BYTES and _SMALL.fullmatch(name)
    ]
    with ThreadPoolExecutor(READERS) as readers:
        for name, content in zip(small, readers.map(_content, small), strict=True):
            if content is not None:
                listing.contents[name] = content


def _content(path: str) -> bytes | None:
    far = _Far.of(path)
    assert far is not None
    try:
        return _patiently(far, _whole)
    except FileNotFoundError:
        return None


def _whole(system: FileSystem, path: str) -> bytes:
    with system.open_input_file(path) as file:
        content: bytes = file.read()
        return content


def _listing(path: str) -> _Listing | None:
    of = [one for one in _listings.values() if one.has(path)]
    return max(of, key=lambda one: len(one.root), default=None)  # of a partition that was listed once more


# ---------------------------------------------------------------------- questions


def stat(path: AnyPath) -> Stat:
    """Size and time; a FileNotFoundError, or another OSError, where there is nothing."""
    far = _Far.of(path)
    if far is None:
        found = os.stat(path)
        return Stat(found.st_size, found.st_mtime_ns, os.path.isdir(path))
    listing = _listing(far.whole)
    about = listing.stat(far.whole) if listing is not None else _asked(far)
    if about is None:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return about


def _asked(far: _Far) -> Stat | None:
    from pyarrow.fs import FileType

    info = _patiently(far, lambda system, at: system.get_file_info(at))
    if info.type == FileType.NotFound:
        return None
    return Stat(info.size or 0, info.mtime_ns or 0, is_dir=info.type == FileType.Directory)


def stamp(path: AnyPath) -> int:
    """Another number as soon as files in a directory are replaced; of one in a store, when it is listed anew."""
    far = _Far.of(path)
    if far is None:
        return os.stat(path).st_mtime_ns
    listing = _listing(far.whole)
    return hash((far.address, 0 if listing is None else listing.number))


def exists(path: AnyPath) -> bool:
    """Whether there is something of this name."""
    try:
        stat(path)
    except (OSError, ValueError):
        return False
    return True


def is_dir(path: AnyPath) -> bool:
    """Whether it is a directory."""
    try:
        return stat(path).is_dir
    except (OSError, ValueError):
        return False


def is_file(path: AnyPath) -> bool:
    """Whether it is a file."""
    if _Far.of(path) is None:
        return os.path.isfile(path)
    return exists(path) and not is_dir(path)


def is_link(path: AnyPath) -> bool:
    """Whether it is a symbolic link; stores have none."""
    return _Far.of(path) is None and os.path.islink(path)


def real(path: AnyPath) -> str:
    """The path without symbolic links."""
    return os.path.realpath(path) if _Far.of(path) is None else str(path)


def absolute(path: AnyPath) -> Path:
    """The path, whatever the working directory is."""
    return Path(path).absolute() if _Far.of(path) is None else Path(path)


def names(directory: AnyPath) -> list[str]:
    """What is in a directory, in order."""
    far = _Far.of(directory)
    if far is None:
        return sorted(os.listdir(directory))
    listing = _listing(far.whole)
    if listing is None:
        look(directory)
        listing = _listings[far.whole]
    if far.whole not in listing.directories:
        raise FileNotFoundError(2, "No such file or directory", str(directory))
    return sorted(listing.directories[far.whole])


def read_bytes(path: AnyPath) -> bytes:
    """A whole file."""
    far = _Far.of(path)
    if far is None:
        return Path(path).read_bytes()
    listing = _listing(far.whole)
    if listing is not None:
        if far.whole in listing.contents:
            return listing.contents[far.whole]
        if listing.stat(far.whole) is None:
            raise FileNotFoundError(2, "No such file or directory", str(path))
    return _patiently(far, _whole)


def read_text(path: AnyPath) -> str:
    """A whole file of text."""
    return Path(path).read_text() if _Far.of(path) is None else read_bytes(path).decode()


class _Ranges(io.RawIOBase):
    """A file in a store, of which a range is fetched for each read."""

    def __init__(self, far: _Far) -> None:
        self.far, self.at = far, 0
        about = _asked(far)
        if about is None or about.is_dir:
            raise FileNotFoundError(2, "No such file or directory", far.whole)
        self.size = about.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + {0: 0, 1: self.at, 2: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, into: Any) -> int:
        count = max(0, min(len(into), self.size - self.at))
        if count:
            into[:count] = fetched_range(self.far, self.at, count)
        self.at += count
        return count


def fetched_range(far: _Far, start: int, count: int) -> bytes:
    """Bytes of a file in a store: all of them, or an OSError where it has become shorter."""

    def ask(system: FileSystem, path: str) -> bytes:
        with system.open_input_file(path) as file:
            return bytes(file.read_at(count, start))

    content = _patiently(far, ask)
    if len(content) < count:
        raise FileNotFoundError(2, "No longer as long as it was", far.whole)
    return content


@contextlib.contextmanager
def opened(path: AnyPath) -> Iterator[IO[bytes]]:
    """A file to be read here and there."""
    far = _Far.of(path)
    if far is None:
        with open(path, "rb") as file:
            yield file
    else:
        with io.BufferedReader(_Ranges(far), BUFFER_BYTES) as buffered:
            yield buffered


# ---------------------------------------------------------------------- segments


@dataclass(slots=True)
class Segment:
    """A segment in memory: mapped, or for one in a store as much memory as it has bytes, of which the part that is
    wanted is fetched, and the part that is done with given back."""

    mapped: mmap.mmap
    loaded: int
    """Up to where its bytes are there."""
    far: _Far | None = None
    freed: int = 0
    end: int = 0

    @property
    def stride(self) -> int:
        """How many bytes may be held at once."""
        return STRIDE_BYTES if self.far is not None else 1 << 62

    def load(self, upto: int) -> None:
        """Fetch what is missing up to a position, and some more."""
        if self.far is None or upto <= self.loaded:
            return
        upto = min(max(upto, self.loaded + WINDOW_BYTES), self.end)
        while self.loaded < upto:
            count = min(WINDOW_BYTES, upto - self.loaded)
            self.mapped[self.loaded : self.loaded + count] = fetched_range(self.far, self.loaded, count)
            self.loaded += count

    def free(self, upto: int) -> None:
        """Give back what is before a position."""
        if self.far is None:
            return
        page = mmap.PAGESIZE
        upto = min(upto, self.loaded) // page * page
        if upto > self.freed:
            self.mapped.madvise(mmap.MADV_DONTNEED, self.freed, upto - self.freed)
            self.freed = upto


@contextlib.contextmanager
def mapped_segment(path: AnyPath, size: int, start: int, end: int) -> Iterator[Segment | None]:
    """A range of a segment, `end` -1 for all behind `start`; None where there is nothing in it."""
    far = _Far.of(path)
    if far is None:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                yield None
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                mapped.madvise(mmap.MADV_SEQUENTIAL)
                end = size if end < 0 else min(end, size)
                yield Segment(mapped, end, end=end)
        return
    end = size if end < 0 else min(end, size)
    if end <= start:
        yield None
        return
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    with mmap.mmap(-1, end, flags=flags) as mapped:
        yield Segment(mapped, start, far, start // mmap.PAGESIZE * mmap.PAGESIZE, end)
