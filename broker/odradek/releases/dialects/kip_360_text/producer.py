"""The producer of KIP-360's text: "Safe Epoch Incrementing" and "Simplified error handling" from the client's side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.releases.dialects.producer import NOBODY, Ask, Pair, Producer, Refusal, Role, Steps, TopicPartition
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.registry import ApiKey

__all__ = ["PRODUCER", "AbortableError", "TextProducer"]

BUMPS_SINCE = 3
"""The first version of InitProducerId with the producer id and epoch of its client."""
EXPIRED = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class AbortableError(Refusal):
    """The producer is in the state ABORTABLE_ERROR: "the only way to recover is for the user to abort"."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__("the transaction has to be aborted", error)

    @property
    def is_fatal(self) -> bool:
        """No version."""
        return False


class TextProducer(Producer):
    """A transactional producer; without a transactional id an idempotent one, which bumps its epoch itself."""

    error: ErrorCode | None = None
    """The error that led to the state ABORTABLE_ERROR; None: the producer is not in it."""

    def init(self, *, keep: bool = False, pair: Pair = NOBODY) -> Steps[InitProducerIdResponse]:
        """InitProducerId; without a transactional id any broker answers it."""
        if self.transactional_id is not None:
            return (yield from super().init(keep=keep, pair=pair))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self.timeout_ms)
        ask = Ask(Role.ANYBODY, "", request, self.version(ApiKey.INIT_PRODUCER_ID))
        response: InitProducerIdResponse = yield from self.insist(
            "InitProducerId", ask, lambda got: int(got.error_code)
        )
        self.adopt((response.producer_id, response.producer_epoch))
        return response

    def add(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """AddPartitionsToTxn; not in the state ABORTABLE_ERROR."""
        self._check()
        try:
            yield from super().add(partitions)
        except Refusal as refusal:
            raise self._met(refusal) from None

    def send(self, topic: str, index: int, *values: bytes, pair: Pair | None = None) -> Steps[int]:
        """One batch. Raises `AbortableError` for an error after which an abort helps."""
        [came] = yield from self.send_all(topic, index, values)
        if isinstance(came, ErrorCode):
            raise AbortableError(came)
        return came

    def send_all(self, topic: str, index: int, *batches: Sequence[bytes]) -> Steps[list[int | ErrorCode]]:
        """Batches of one partition, in order: the offset of each, or its error.

        "Assignment of the epoch/sequence number to a record batch is permanent"; "when we encounter a fatal error for a
        batch, we will fail all subsequent batches for that partition which have been assigned a sequence number".
        """
        partition = (topic, index)
        if self.transactional_id is not None:
            yield from self.add([partition])
        self._check()
        sequence = self.sequences.get(partition, 0)
        requests = []
        for values in batches:
            requests.append(self.batch_request(partition, values, sequence=sequence))
            sequence += len(values)
        self.sequences[partition] = sequence
        came: list[int | ErrorCode] = []
        for request in requests:
            if self.error is not None:
                came.append(self.error)
                continue
            try:
                answer = yield from self.insist(
                    "Produce",
                    Ask(Role.LEADER, partition, request, self.version(ApiKey.PRODUCE)),
                    lambda got: int(got.responses[0].partition_responses[0].error_code),
                )
                came.append(int(answer.responses[0].partition_responses[0].base_offset))
            except Refusal as refusal:
                met = self._met(refusal)
                if met.is_fatal:
                    raise met from None
                came.append(met.error)
        return came

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """The offsets of a group; not in the state ABORTABLE_ERROR."""
        self._check()
        try:
            yield from super().commit_offsets(group, offsets)
        except Refusal as refusal:
            raise self._met(refusal) from None

    def end(self, *, commit: bool) -> Steps[EndTxnResponse]:
        """EndTxn. An abort leaves the state ABORTABLE_ERROR by a bump of the epoch, and sequences begin at 0."""
        if commit:
            self._check()
        met = self.error
        answer = EndTxnResponse()
        try:
            # The coordinator has no transaction for an expired id, nor one in which no partition was added.
            if met is not EXPIRED and (commit or self.partitions):
                answer = yield from super().end(commit=commit)
        except Refusal as refusal:
            if refusal.error is not EXPIRED:
                raise
            met = EXPIRED
            if commit:
                raise self._met(refusal) from None
        self.partitions.clear()
        if met is not None:
            self.error = None
            yield from self._bump()
        return answer

    def gave_up(self) -> None:
        """A batch without an answer: abort the transaction; nobody knows whether its sequence was used."""
        self.error = self.error or ErrorCode.REQUEST_TIMED_OUT

    def go_on(self) -> None:
        """An idempotent producer that goes on after an error: "the epoch will be bumped locally"."""
        assert self.transactional_id is None, "who has a transactional id aborts"
        self.error = None
        self.adopt((self.pair[0], self.pair[1] + 1))

    def _bump(self) -> Steps[None]:
        if self.version(ApiKey.INIT_PRODUCER_ID) >= BUMPS_SINCE:
            yield from self.init(pair=self.pair)
        else:
            # "The only difference is that we skip the epoch bump."
            self.sequences.clear()

    def _check(self) -> None:
        if self.error is not None:
            raise AbortableError(self.error)

    def _met(self, refusal: Refusal) -> Refusal:
        """The meaning of an error for this producer: fatal, or abortable."""
        if refusal.is_fatal and refusal.error is not EXPIRED:
            return refusal
        self.revive()
        self.error = refusal.error
        return AbortableError(refusal.error)


PRODUCER = TextProducer
