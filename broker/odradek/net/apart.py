"""Directories that are Kafka's alone: nothing else is written into a data directory or a snapshot."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from odradek.cli.usage import UsageError
from odradek.log.disk import DamagedFile
from odradek.log.files.marks import read_meta
from odradek.log.files.names import META

__all__ = ["BROKER", "MARK", "check_apart"]

MARK = "odradek-snapshot.json"
"""The file of a snapshot with further data for forks; Kafka reads only folders and its own files."""
BROKER = re.compile(r"broker-(0|[1-9]\d*)")
"""The folder of one of several brokers."""


def check_apart(path: Path, *, data_dir: Path | None = None) -> None:
    """Raises `UsageError` where a new file or folder would lie in a data directory (this or any) or a snapshot."""
    whole = path.resolve()
    if data_dir is not None and whole.is_relative_to(data_dir.resolve()):
        raise UsageError(_in_data_directory(path, data_dir))
    for parent in whole.parents:
        if (parent / MARK).exists():
            raise UsageError(f"{path} lies in the snapshot {parent}, which never changes: name a place beside it.")
        if (parent / META).exists() or _is_of_several(parent):
            raise UsageError(_in_data_directory(path, parent))


def _in_data_directory(path: Path, directory: Path) -> str:
    return f"{path} lies in the data directory {directory}, where folders are partitions: name a place beside it."


def _is_of_several(directory: Path) -> bool:
    """Whether several brokers have their folders there; folders that only happen to be called so are of other ids."""
    found = 0
    with suppress(OSError, DamagedFile):
        for name in os.listdir(directory):
            match = BROKER.fullmatch(name)
            if match is not None and (meta := directory / name / META).exists():
                found += read_meta(meta.read_bytes()).node_id == int(match[1])
    return found > 1
