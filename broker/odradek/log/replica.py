"""A partition on a broker that has a replica of it and does not lead it: what it answers of the log.

There is one copy of each log: a replica has of it what it has acknowledged.
The state of the producers is that of the log's last leader, asked for as a snapshot is: a fold over the same batches.
"""

from __future__ import annotations

from msgspec import Struct

from odradek.log.answers import ProducerDescription
from odradek.log.log import NO_REPLICA, Log
from odradek.log.offsets import UNKNOWN, OffsetAnswer, find_offset
from odradek.log.producers import described
from odradek.wire.errors import ErrorCode

__all__ = ["Replica", "check_leader_epoch"]


class Replica(Struct, frozen=True):
    """A replica, as of the metadata that its broker knows."""

    log: Log | None
    """None: nobody has led the partition yet, so nothing was written."""
    leader_epoch: int
    broker_id: int = NO_REPLICA

    def check_leader_epoch(self, leader_epoch: int) -> ErrorCode:
        """What to answer who believes that this epoch is the current one (KIP-320); -1 believes nothing."""
        return check_leader_epoch(leader_epoch, self.leader_epoch)

    def list_offset(self, timestamp: int) -> OffsetAnswer:
        """The offset for a timestamp, or for one of the special timestamps of ListOffsets, up to the end of the log."""
        log = self.log
        if log is None:
            return UNKNOWN
        end = log.behind.get(self.broker_id, log.end_offset)
        return find_offset(log, timestamp, visible_end=end, leader_epoch=self.leader_epoch)

    def describe_producers(self) -> list[ProducerDescription]:
        """Every producer that the log still knows."""
        log = self.log
        if log is None or log.take_snapshot is None:
            return []
        return [described(producer) for producer in log.take_snapshot().producers]


def check_leader_epoch(believed: int, actual: int) -> ErrorCode:
    """Whether the leader epoch that a client names is behind the actual one, or ahead of it."""
    if believed < 0 or believed == actual:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if believed < actual else ErrorCode.UNKNOWN_LEADER_EPOCH
