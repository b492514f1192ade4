"""An admin that looks for hanging transactions and aborts them in their partitions (KIP-664).

It works like `kafka-transactions.sh`: a transaction that is open in a partition, and in no coordinator, is ended by a
marker that the admin sends as if it were the coordinator. By then the next transaction of the producer may be open
there, and the marker must leave it alone: each transaction has an epoch of its own (KIP-890), so a marker for the old
one does not fit the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.sim.schedules.schedule import PARTITIONS
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_producers_response import ProducerState
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_transactions_response import TransactionState
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

__all__ = ["Aborter"]

TOPIC = "t"
VERSION = 1
"""Version of WriteTxnMarkers: in it an admin does not give the transaction version of its marker."""
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Aborter:
    """Checks one partition after the other."""

    def __init__(
        self, world: World, *, random: Random, transactional_ids: Sequence[str], goes_on: Callable[[], bool]
    ) -> None:
        self.world = world
        self.aborted: list[tuple[int, int]] = []
        """(Virtual ms, error code) of each marker that it sent."""
        self._random = random
        self._transactional_ids = transactional_ids
        self._goes_on = goes_on

    def script(self) -> Script:
        while self._goes_on():
            index = self._random.randrange(PARTITIONS)
            for seen in (yield from self._open_in(index)):
                # Some admins take their time before they act.
                yield Sleep(self._random.choice((0, 0, 20, 200)))
                if (yield from self._hangs(index, seen)):
                    yield Sleep(self._random.choice((0, 5, 100, 600)))
                    yield from self._abort(index, seen)
            yield Sleep(self._random.randint(5, 80))

    def _leader(self, topic: str, index: int) -> int:
        return self.world.leader_known_to(self._random.choice(self.world.running), topic, index)

    def _open_in(self, index: int) -> Script:
        """The producers with an open transaction in this partition."""
        leader = self._leader(TOPIC, index)
        if leader < 0:
            return []
        wanted = TopicRequest(name=TOPIC, partition_indexes=[index])
        response = yield Ask(leader, DescribeProducersRequest(topics=[wanted]), 0)
        if response is None:
            return []
        producers: list[ProducerState] = response.topics[0].partitions[0].active_producers
        return [each for each in producers if each.current_txn_start_offset >= 0]

    def _hangs(self, index: int, seen: ProducerState) -> Script:
        """Whether all coordinators have answered, and none has an open transaction of the producer in the partition."""
        for name in self._transactional_ids:
            leader = self._leader(CoordinatorKind.TRANSACTION.topic, partition_for(name, 3))
            if leader < 0:
                return False
            response = yield Ask(leader, DescribeTransactionsRequest(transactional_ids=[name]), 0)
            if response is None:
                return False
            told: TransactionState = response.transaction_states[0]
            if told.error_code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                return False
            has_it = any(each.topic == TOPIC and index in each.partitions for each in told.topics)
            if told.producer_id == seen.producer_id and told.transaction_state in OPEN and has_it:
                return False
        return True

    def _abort(self, index: int, seen: ProducerState) -> Script:
        leader = self._leader(TOPIC, index)
        if leader < 0:
            return
        marker = WritableTxnMarker(
            producer_id=seen.producer_id,
            producer_epoch=seen.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[index])],
            coordinator_epoch=max(seen.coordinator_epoch, 0),
        )
        response = yield Ask(leader, WriteTxnMarkersRequest(markers=[marker]), VERSION)
        if response is not None:
            self.aborted.append((self.world.now, response.markers[0].topics[0].partitions[0].error_code))
