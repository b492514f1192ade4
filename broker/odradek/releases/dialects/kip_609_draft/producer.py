"""The producer of KIP-609's draft: partitions are registered beforehand, and stay so in a session."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from odradek.releases.dialects.producer import NOBODY, Pair, Producer, Steps, TopicPartition
from odradek.txn.partitions import by_topic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.registry import ApiKey

__all__ = ["PRODUCER", "SessionProducer"]

SESSIONS_SINCE = 3


class SessionProducer(Producer):
    """A producer of the draft, or a `careful` one.

    The draft's client begins a transaction in its session without a request. A careful one asks the coordinator at each
    beginning, which waits for the previous transaction. It also aborts by EndTxn 2, which ends the session, and takes
    another epoch, because an earlier request may still arrive.
    """

    older = MappingProxyType({ApiKey.END_TXN: SESSIONS_SINCE - 1})
    session: frozenset[TopicPartition] = frozenset()
    """The partitions that the coordinator keeps for it, without those of offsets."""
    groups: frozenset[str] = frozenset()
    """The groups whose offsets are in the session."""
    registered: frozenset[TopicPartition] | None = None
    """The partitions to which the transaction may write; None: any, registered at the first write."""
    begun = False

    def init(self, *, keep: bool = False, pair: Pair = NOBODY) -> Steps[InitProducerIdResponse]:
        """InitProducerId; it ends the session."""
        self.session, self.groups, self.registered = frozenset(), frozenset(), None
        self.begun = False
        return (yield from super().init(keep=keep, pair=pair))

    def begin(self, partitions: Iterable[TopicPartition] = ()) -> Steps[None]:
        """beginTransaction(outputPartitions): registers the partitions that are not in the session.

        Without partitions the transaction may write to any; each one is registered at its first write.
        """
        if self.pair == NOBODY:
            raise RuntimeError("beginTransaction: initTransactions comes first.")
        wanted = frozenset(partitions)
        self.begun = True
        self.registered = wanted or None
        missing = wanted - self.session
        if missing or (self.careful and (wanted or self.session)):
            yield from self._register((wanted or self.session) if self.careful else missing)

    def send(self, topic: str, index: int, *values: bytes, pair: Pair | None = None) -> Steps[int]:
        """One batch, to a registered partition."""
        partition = (topic, index)
        if not self.begun:
            yield from self.begin()
        if partition not in self.session:
            if self.registered is not None:
                raise ValueError(f"send: {topic}-{index} was not registered when the transaction began.")
            yield from self._register([partition])
        return (yield from self.produce(partition, values, pair=pair))

    def produce(self, partition: TopicPartition, values: Sequence[bytes], *, pair: Pair | None = None) -> Steps[int]:
        """One batch; it counts as written even without an answer, because it may be."""
        self.partitions.add(partition)
        return (yield from super().produce(partition, values, pair=pair))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """Offsets: "the only exception is that during the session the offset topic is still able to be added"."""
        if not self.begun:
            yield from self.begin()
        yield from super().commit_offsets(group, offsets)

    def add_offsets(self, group: str) -> Steps[None]:
        """AddOffsetsToTxn, once in a session."""
        if group not in self.groups:
            yield from super().add_offsets(group)
            self.groups |= {group}

    def end(self, *, commit: bool) -> Steps[EndTxnResponse]:
        """EndTxn with the partitions that were written; they are the session from then on."""
        keeps = self.end_version(commit=commit) >= SESSIONS_SINCE
        written = frozenset(self.partitions)
        answer = EndTxnResponse()
        if self.session or self.groups:
            answer = yield from super().end(commit=commit)
        self.partitions.clear()
        self.begun, self.registered = False, None
        self.session, self.groups = (written, self.groups) if keeps else (frozenset(), frozenset())
        if self.careful and not commit:
            yield from self.init(pair=self.pair)
        return answer

    def end_version(self, *, commit: bool) -> int:
        """EndTxn 3; for an abort of a careful producer EndTxn 2."""
        newest = super().end_version(commit=commit)
        return min(newest, SESSIONS_SINCE - 1) if self.careful and not commit else newest

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """EndTxn as the draft prints it."""
        request = super().end_request(commit=commit)
        if self.end_version(commit=commit) < SESSIONS_SINCE:
            return request
        kind = self.codecs.request_type(ApiKey.END_TXN)
        topic = sys.modules[kind.__module__].EndTxnTopic
        topics = [topic(name=name, partitions=each) for name, each in by_topic(sorted(self.partitions)).items()]
        return self.codecs.own(request, topics=topics)

    def gave_up(self) -> None:
        """A careful producer takes another epoch after each abort."""

    def _register(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        known, self.partitions = self.partitions, set()
        try:
            yield from self.add(partitions)
        finally:
            self.partitions = known
        self.session |= frozenset(partitions)


PRODUCER = SessionProducer
