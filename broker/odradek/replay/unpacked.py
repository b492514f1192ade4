"""The beginning of a recording, for its replay: a data directory, or a snapshot to fork."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.net.beginning import Began, read_pieces, store_of
from odradek.net.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.net.recording_file import Entry

__all__ = ["Unpacked"]


class Unpacked:
    """The beginning in a folder, which goes with this. Raises `UsageError` where it is not there, or was changed."""

    def __init__(
        self, path: Path, entries: Iterator[Entry], began: Began, *, config: Config, node_ids: tuple[int, ...]
    ) -> None:
        root = Path(tempfile.mkdtemp(prefix="odradek-replay-"))
        self.remove = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        """Remove the folder now."""
        content = root / "content"
        content.mkdir()
        read_pieces(entries, path, content)
        self.data_dir: Path | None = None
        self.snapshot: ClusterSnapshot | None = None
        if not began.is_fork:
            self.data_dir = content
            return
        in_memory = began.directory is None
        self.snapshot = ClusterSnapshot(
            config=config,
            cluster_id=began.cluster_id,
            node_ids=node_ids,
            controller_id=began.controller_id,
            taken_at_ms=began.taken_at_ms,
            is_frozen=began.is_frozen,
            cleanly=frozenset(began.cleanly),
            gone=frozenset(began.gone),
            store=store_of(content, bytes_max=config.odradek_log_memory_bytes_max) if in_memory else None,
            directory=None if in_memory else content,
        )
