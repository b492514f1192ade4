"""Tables in object stores and HDFS: written here, and sent there when an audit has ended."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek_pipeline.logs.files import first_line, is_far, system_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["placed"]


@contextlib.contextmanager
def placed(out: str) -> Iterator[Path]:
    """A folder for tables; one far away gets what was written, when the audit has ended well or badly."""
    if not is_far(out):
        yield Path(out)
        return
    system, path = system_of(out)
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
        raise UsageError(f"{place} cannot be reached: {first_line(error)}") from None
