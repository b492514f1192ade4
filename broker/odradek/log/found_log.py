"""A log as a start has found it in its folder: of a snapshot it is the same for all forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.log.aborted import AbortedIndex
    from odradek.log.files.marks import QuorumState
    from odradek.log.files.names import Folder
    from odradek.log.files.walk import SegmentIndex
    from odradek.log.producers import Snapshot

__all__ = ["FoundBefore", "FoundLog", "FoundSegment"]


class FoundSegment(Struct, frozen=True):
    """A sealed segment."""

    base_offset: int
    size: int
    next_offset: int


class FoundLog(Struct, frozen=True, kw_only=True):
    """What `FileLog.load` makes of a folder; it never changes."""

    topic_id: bytes
    folder: Folder
    start_offset: int
    end_offset: int
    first_dirty_offset: int
    recovery_point: int
    had: int
    leader_epoch: int
    epochs: list[tuple[int, int]]
    epochs_written: list[tuple[int, int]]
    aborted: AbortedIndex
    snapshots: list[Snapshot]
    segments: list[FoundSegment]
    last: tuple[int, SegmentIndex, memoryview]
    """The last segment: where it begins, its batches, its bytes."""
    has_empty_end: bool
    is_in_order: bool
    is_as_stopped: bool
    """Whether a clean stop would leave all files as they are."""
    quorum: QuorumState | None = None
    ended: int = 0
    """Of the metadata log; see `MetadataFileLog`."""


class FoundBefore:
    """The logs that the forks before have found."""

    def __init__(self, logs: dict[str, FoundLog], *, may_keep: Callable[[str], bool]) -> None:
        """`logs` are those of all forks, by folder; `may_keep` says whether the others would find the same."""
        self._logs = logs
        self._may_keep = may_keep

    def found(self, folder: str) -> FoundLog | None:
        """The log in this folder, if it is known."""
        return self._logs.get(folder)

    def keep(self, folder: str, found: FoundLog) -> None:
        """The log in this folder, for other forks."""
        if self._may_keep(folder):
            self._logs[folder] = found
