"""A partition on a broker that has a replica of it and does not lead it: its view of the log.

There is one copy of each log: a replica has the records that it has acknowledged.
The state of the producers is that of the log's last leader, asked for as a snapshot is: a fold over the same batches.
"""

from __future__ import annotations

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.log.answers import ProducerDescription, ReadResult
from odradek.log.epochs import NO_EPOCH, NO_OFFSET, EpochEnd
from odradek.log.log import NO_REPLICA, Log
from odradek.log.offsets import UNKNOWN, OffsetAnswer, find_offset
from odradek.log.producers import described
from odradek.wire.errors import ErrorCode

__all__ = ["Replica", "check_leader_epoch"]


_NOTHING = ReadResult(memoryview(b""), 0, 0, 0, None)


class Replica(Struct, frozen=True):
    """A replica, as of the metadata that its broker knows."""

    log: Log | None
    """None: the partition never had a leader, so it has no records."""
    leader_epoch: int
    broker_id: int = NO_REPLICA

    def check_leader_epoch(self, leader_epoch: int) -> ErrorCode:
        """The error for a client with this leader epoch (KIP-320); -1 is not checked."""
        return check_leader_epoch(leader_epoch, self.leader_epoch)

    @property
    def _end(self) -> int:
        """The end of this replica's records."""
        log = self.log
        return 0 if log is None else log.behind.get(self.broker_id, log.end_offset)

    @property
    def high_watermark(self) -> int:
        """The end of the committed records that this replica has."""
        log = self.log
        return self._end if log is None or log.mark is None else min(log.mark, self._end)

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided, and this replica has it."""
        log = self.log
        return 0 if log is None or log.leader is None else min(log.leader.last_stable_offset, self._end)

    @property
    def log_start_offset(self) -> int:
        return 0 if self.log is None else self.log.start_offset

    def read(
        self, offset: int, *, max_bytes: int, read_committed: bool = False, min_one: bool = True
    ) -> ReadResult | Refused:
        """Batches, as from the leader, up to the committed records that this replica has (KIP-392).

        A replica that lacks committed records refuses: it is not known which transactions had ended at its position,
        and a reader finds the leader by another request.
        """
        log = self.log
        if log is None:
            return _NOTHING if offset == 0 else Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        end = self._end
        if log.leader is None or (log.mark is not None and end < log.mark):
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not log.start_offset <= offset <= end:
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        mark, stable = self.high_watermark, self.last_stable_offset
        until = stable if read_committed else mark
        records = log.read(offset, max_bytes=max_bytes, until=until, min_one=min_one)
        aborted = log.aborted_in(offset, len(records)) if read_committed else None
        return ReadResult(records, mark, stable, log.start_offset, aborted)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        log = self.log
        return EpochEnd(NO_EPOCH, NO_OFFSET) if log is None else log.epochs.end_of(epoch, log_end_offset=self._end)

    def list_offset(self, timestamp: int) -> OffsetAnswer:
        """The offset for a timestamp, or for one of the special timestamps of ListOffsets, up to the end of the log."""
        log = self.log
        if log is None:
            return UNKNOWN
        return find_offset(log, timestamp, visible_end=self._end, leader_epoch=self.leader_epoch)

    def describe_producers(self) -> list[ProducerDescription]:
        log = self.log
        if log is None or log.leader is None:
            return []
        return [described(producer) for producer in log.leader.snapshot().producers]


def check_leader_epoch(believed: int, actual: int) -> ErrorCode:
    """The error if a client's leader epoch is behind the actual one, or ahead of it."""
    if believed in (NO_EPOCH, actual):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if believed < actual else ErrorCode.UNKNOWN_LEADER_EPOCH
