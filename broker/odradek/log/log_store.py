"""All logs of a cluster, in memory, once: they outlive a move of leadership and the death of a node.

The memory for their batches is bounded (the index of a segment takes 20 bytes more for each batch).
When it is used up, the oldest segments go first, those of topics that retention may delete from; each is reported.
"""

from __future__ import annotations

from odradek.config.table import TopicConfig
from odradek.core.machine import Fact
from odradek.core.spare_pages import SparePages
from odradek.log.log import Log
from odradek.log.segment import SEGMENT_BYTES, Segment

__all__ = ["LogStore"]

_SEGMENT_SHARE = 16
"""A segment is at most this fraction of all memory, so that dropping one does not empty the store."""
_SEGMENT_BYTES_MIN = 64 * 1024
_SPARE_SHARE = 4
_LASTING_SPARE_SHARE = 16
"""At most these fractions of all memory are kept, beside it, for the next segments: while they are used, and longer."""


class LogStore:
    """The disk of the cluster."""

    def __init__(self, *, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.room = bytes_max
        """Bytes left; kept by the logs. Appends of coordinators are never refused, so it may fall below zero."""
        self.segment_bytes = min(SEGMENT_BYTES, max(_SEGMENT_BYTES_MIN, bytes_max // _SEGMENT_SHARE))
        self.spare = SparePages(bytes_max // _SPARE_SHARE, bytes_lasting=bytes_max // _LASTING_SPARE_SHARE)
        self.facts: list[Fact] = []
        """Facts about segments that were dropped to stay within the bound, for the node that takes them."""
        self.path = "memory"
        """The directory of the logs, as clients see it."""
        self.directories: tuple[bytes, ...] = ()
        """Ids of the directories in which the logs are files (KIP-858)."""
        self.clients_ahead_ms = 0
        """The limit by which timestamps of clients may be ahead of the brokers' clock, besides those of topics."""
        self.metadata_snapshot: tuple[int, int, bytes] | None = None
        """The snapshot that precedes the metadata log: its end offset, epoch and file; None: the log is complete."""
        self.bootstrap: bytes | None = None
        """The file with the first metadata records of a formatted directory; None: the configuration has them."""
        self.first_quorum: bytes | None = None
        """The file of a formatted directory that names the voters of its quorum; None: its voters are static."""
        self.voters: tuple[int, ...] = ()
        """The brokers with the metadata log in their directories; none where the logs are in memory."""
        self.settles_late = False
        """Whether a log is made with its first use, and has a folder with its first batch, as in a fork."""
        self._logs: dict[bytes, dict[int, Log]] = {}
        self._numbers = 0

    @property
    def bytes_held(self) -> int:
        """Bytes of all batches of all logs."""
        return self.bytes_max - self.room

    def path_of(self, node_id: int) -> str:
        """The directory of a broker's logs, as clients see it."""
        return self.path

    def directories_of(self, node_id: int) -> tuple[bytes, ...]:
        """Ids of the directories in which a broker's logs are files (KIP-858)."""
        return self.directories

    def absent(self, node_id: int) -> None:
        """A broker is stopped or paused: until it is back nothing is written in its directory."""

    def back(self, node_id: int) -> None:
        """A broker that was absent runs again."""

    def volume(self) -> tuple[int, int]:
        """The size of where the logs lie, and how much of it can still be used (bytes)."""
        return self.bytes_max, max(0, self.room)

    def open(self, topic_id: bytes, index: int, config: TopicConfig) -> Log:
        """The log of this partition; it is made if necessary."""
        logs = self._logs.setdefault(topic_id, {})
        log = logs.get(index)
        if log is None:
            log = logs[index] = Log(self, topic_id=topic_id, index=index, config=config)
        else:
            log.configure(config)
        return log

    def find(self, topic_id: bytes, index: int) -> Log | None:
        """The log of this partition; None if it was never opened."""
        return self._logs.get(topic_id, {}).get(index)

    def fork(self, *, bytes_max: int | None = None) -> LogStore:
        """All logs as they are now, in a store of their own; see `Log.fork`. `bytes_max`: the same unless it is given.

        A log that nothing was ever appended to is as good as none.
        """
        copy = LogStore(bytes_max=self.bytes_max if bytes_max is None else bytes_max)
        copy._numbers = self._numbers
        copy.settles_late = True
        for topic_id, logs in self._logs.items():
            written = {index: log.fork(copy) for index, log in logs.items() if log.end_offset}
            if written:
                copy._logs[topic_id] = written
        return copy

    def take_in(self, log: Log) -> None:
        """A log that was made elsewhere lies here from now on."""
        self._logs.setdefault(log.topic_id, {})[log.index] = log
        self._numbers = max(self._numbers, *(segment.number for segment in log.segments), 0)

    def drop(self, topic_id: bytes) -> None:
        """The topic was deleted: give back the memory of all its partitions.

        Every broker calls this when it learns of the deletion; the first call does the work.
        """
        for log in self._logs.pop(topic_id, {}).values():
            log.end()

    def logs(self) -> list[Log]:
        return [log for logs in self._logs.values() for log in logs.values()]

    def next_number(self) -> int:
        """Number of the next segment, in the order in which segments are begun."""
        self._numbers += 1
        return self._numbers

    def shed(self, size: int) -> bool:
        """Drop the oldest segments until this many bytes fit; False if no more segments may be dropped.

        Sealed segments go before active ones, so that the newest records go last.
        """
        while self.room < size:
            oldest = self._oldest(sealed=True) or self._oldest(sealed=False)
            if oldest is None:
                return False
            self._drop_segment(*oldest)
        return True

    def _oldest(self, *, sealed: bool) -> tuple[Log, Segment] | None:
        candidates = [
            (log, log.segments[0])
            for log in self.logs()
            if log.segments and log.config.deletes and (len(log.segments) > 1) is sealed
        ]
        return min(candidates, key=lambda candidate: candidate[1].number, default=None)

    def _drop_segment(self, log: Log, segment: Segment) -> None:
        start = log.start_offset
        log.advance_start(segment.next_offset)
        self.facts.append(
            Fact(
                "log_segment_dropped",
                {
                    "topic": log.topic,
                    "partition": log.index,
                    "bytes": segment.size,
                    "from_offset": start,
                    "log_start_offset": log.start_offset,
                    "bytes_max": self.bytes_max,
                },
            )
        )
