"""Idempotent producers without transactions: sequences alone keep their records complete, single and ordered (KIP-98).

After a timeout such a producer gives a batch up and goes on with the next epoch of its producer id (KIP-360). The batch
may still arrive, and must not be written behind later ones.
"""

from __future__ import annotations

from typing import Any

from odradek.records.record import Record, build_batch
from odradek.sim.clients.producers import AGAIN, NOBODY, TOPIC, Producer, Transaction
from odradek.sim.schedules.schedule import Send
from odradek.sim.world.actors import Ask, AskAll, Script, Sleep
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["Idempotent"]

ATTEMPTS = 20


class _Batch:
    """A batch of a producer; the checks treat it as a transaction of its own."""

    def __init__(self, transaction: Transaction, partition: int, sequence: int, request: ProduceRequest) -> None:
        self.transaction = transaction
        self.sequence = sequence
        self.request = request
        self.values = transaction.values[TOPIC, partition]


class Idempotent(Producer):
    """A producer without a transactional id."""

    def script(self) -> Script:
        yield Sleep(self.random.randrange(100))
        yield from self._begin_anew()
        for number, plan in enumerate(self.plan.transactions):
            yield Sleep(plan.pause_ms)
            for position, send in enumerate(plan.sends):
                if not self.goes_on():
                    return
                if not (yield from self._write(number, send, position)):
                    self._adopt((self.pair[0], self.pair[1] + 1))
                yield Sleep(send.pause_ms)

    def _begin_anew(self) -> Script:
        """Get a new producer id from any broker."""
        while self.pair == NOBODY:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            response = yield Ask(self.directory.anyone(), request, self.init_version)
            if response is not None and response.error_code == ErrorCode.NONE:
                self._adopt((response.producer_id, response.producer_epoch))
            else:
                yield Sleep(self.random.randint(5, 60))

    def _write(self, number: int, send: Send, position: int) -> Script:
        """Send the batches until all are acknowledged; False if one was given up."""
        partition = TOPIC, send.partition
        waiting = self._cut(number, send, position)
        for _ in range(ATTEMPTS):
            leader = yield from self.directory.leader(partition)
            if leader >= 0:
                requests = tuple(batch.request for batch in waiting)
                responses = yield AskAll(leader, requests, self.produce_version, send.patience_ms, send.hangs_up)
                self._note_leader(partition, leader, responses)
                if not self._take(waiting, partition, responses) or (None in responses and send.gives_up):
                    return False
                if not waiting:
                    return True
            yield Sleep(self.random.randint(5, 60))
        return False

    def _cut(self, number: int, send: Send, position: int) -> list[_Batch]:
        partition = TOPIC, send.partition
        batches = []
        for batch_number, records in enumerate(send.records):
            name = f"{self.name}/{number}/{send.partition}/{position}/{batch_number}"
            values = [f"{name}/{each}".encode() for each in range(records)]
            transaction = Transaction(self.name, number, "idempotent", self.pair, values={partition: values})
            self.journal.append(transaction)
            sequence = self.sequences.get(partition, 0)
            request = self._idempotent_request(partition, values, sequence)
            batches.append(_Batch(transaction, send.partition, sequence, request))
            self.sequences[partition] = sequence + records
        return batches

    def _idempotent_request(self, partition: tuple[str, int], values: list[bytes], sequence: int) -> ProduceRequest:
        records = build_batch(
            [Record(timestamp=self.world.now, value=value) for value in values],
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            base_sequence=sequence,
        )
        data = PartitionProduceData(index=partition[1], records=memoryview(records))
        topic = TopicProduceData(name=partition[0], partition_data=[data])
        return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=2_000, topic_data=[topic])

    def _take(self, waiting: list[_Batch], partition: tuple[str, int], responses: list[Any]) -> bool:
        """Remove the acknowledged batches; False if the others cannot be sent again."""
        written: list[_Batch] = []
        for position, (batch, response) in enumerate(zip(waiting, responses, strict=True)):
            answer = None if response is None else response.responses[0].partition_responses[0]
            error = None if answer is None else answer.error_code
            self._meet("PRODUCE", error)
            if answer is not None and error == ErrorCode.NONE:
                written.append(batch)
                batch.transaction.outcome = "committed"
                batch.transaction.told.append((partition, answer.base_offset, batch.values))
            elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and len(written) < position:
                continue
            elif error is not None and error not in AGAIN:
                return False
        waiting[:] = [batch for batch in waiting if batch not in written]
        return True
