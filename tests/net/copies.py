"""Copies of data directories that are in use."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["copy_while_it_runs"]


def copy_while_it_runs(path: Path, to: Path) -> None:
    """Copy a directory in use: a checkpoint may get its name between the look at the folder and the copy."""

    def copy(source: str, target: str) -> None:
        with suppress(FileNotFoundError):
            shutil.copy2(source, target)

    shutil.copytree(path, to, copy_function=copy)
