"""Folds the metadata log into images, and publishes none from inside a metadata transaction (KIP-868).

Begin opens a delta that is not published, End publishes it, Abort drops it and changes only the offset. Controllers and
brokers run the same loader.

KIP-868 promises that the records of an aborted transaction are never seen, and so it is here. Kafka 4.4's
MetadataBatchLoader keeps the delta after an Abort, and publishes it when more records follow in the same commit; that
is not copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.metadata.delta import Delta
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.records.control import quorum_records
from odradek.records.record import iterate_records
from odradek.records.state import Unknown, decode_metadata, not_known
from odradek.wire.errors import DecodeError
from odradek.wire.messages.abort_transaction_record import AbortTransactionRecord
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.end_transaction_record import EndTransactionRecord

if TYPE_CHECKING:
    from odradek.records.batch import Batch

__all__ = ["NO_TRANSACTION", "MetadataLoader"]

NO_TRANSACTION = -1
"""Start of a metadata transaction when none is open."""


class MetadataLoader:
    """The position of a node in the metadata log, and its published image."""

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        """The published image."""
        self.last_offset = image.offset
        """The last offset that was folded; inside a transaction it is ahead of the image."""
        self.epoch = image.epoch
        self.transaction_start = NO_TRANSACTION
        """The offset of the open Begin."""
        self.facts: list[Fact] = []
        """Facts: transactions that began, ended and were aborted, and faults; the owner of the loader takes them."""
        self.fault: str | None = None
        """Where the log makes no sense, and why: the first record that was skipped."""
        self.removed: list[bytes] = []
        """Ids of the topics that published records have removed; the owner of the loader takes them."""
        self._delta = Delta(image)
        self._quorum: list[Struct] = []
        """Records of the quorum within the open transaction, of which they are no part."""

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open."""
        return self.transaction_start != NO_TRANSACTION

    def apply(self, batch: Batch) -> list[MetadataImage]:
        """Fold one committed batch; returns the images that it published, in order."""
        published: list[MetadataImage] = []
        self.epoch = max(self.epoch, batch.partition_leader_epoch)
        if batch.is_control:
            self._fold_quorum(batch)
        else:
            for record in iterate_records(batch):
                self._fold(record.offset, record.value, published)
        self.last_offset = max(self.last_offset, batch.last_offset)
        if not self.in_transaction:
            self._publish(self.last_offset, published)
        return published

    def load_snapshot(self, records: Iterable[Struct], *, offset: int, epoch: int) -> MetadataImage:
        """Start again from a snapshot; drop an open transaction, because the log behind the snapshot decides it."""
        delta = Delta(EMPTY)
        for record in records:
            delta.replay(record)
        if delta.fault is not None:
            self.fault = f"in its snapshot: {delta.fault}"
        self.image = delta.build(offset=offset, epoch=epoch)
        self.last_offset, self.epoch = offset, epoch
        self.transaction_start = NO_TRANSACTION
        self._delta = Delta(self.image)
        return self.image

    def begin_with(self, quorum: Iterable[Struct]) -> None:
        """The log has no records of its quorum; these, with which its directory was formatted, precede it."""
        for record in quorum:
            self._delta.replay(record)

    def _fold_quorum(self, batch: Batch) -> None:
        """The level of kraft.version is in control records, with the voters (KIP-853)."""
        found = quorum_records((batch,))
        if not found:
            return
        from odradek.metadata.quorum import decode_quorum  # most quorums have static voters

        try:
            records = decode_quorum(found)
        except DecodeError as error:
            self._fault(batch.base_offset, f"a record of the quorum cannot be read: {error}")
            return
        for record in records:
            self._delta.replay(record)
        if self.in_transaction:
            self._quorum += records

    def _fold(self, offset: int, value: bytes | None, published: list[MetadataImage]) -> None:
        try:
            record = decode_metadata(value or b"")
        except DecodeError as error:
            self._fault(offset, f"the record cannot be read: {error}")
        else:
            match record:
                case BeginTransactionRecord():
                    self._begin(offset, record, published)
                case EndTransactionRecord():
                    self._end(offset)
                case AbortTransactionRecord():
                    self._abort(offset, record)
                case Unknown():
                    self._fault(offset, not_known(record))
                case _:
                    self._delta.replay(record)
                    if self._delta.fault is not None:
                        self._fault(offset, self._delta.fault)
                        self._delta.fault = None
        self.last_offset = offset

    def _begin(self, offset: int, record: BeginTransactionRecord, published: list[MetadataImage]) -> None:
        if self.in_transaction:
            self._fault(offset, f"the transaction that began at {self.transaction_start} is still open")
            return
        # Records before Begin are not part of the transaction, so they are published first.
        self._publish(offset - 1, published)
        self.transaction_start = offset
        self._quorum = []
        self._fact("metadata_transaction_began", offset, name=record.name)

    def _end(self, offset: int) -> None:
        if not self.in_transaction:
            self._fault(offset, "no transaction is open that could end")
            return
        self.transaction_start = NO_TRANSACTION
        self._fact("metadata_transaction_ended", offset)

    def _abort(self, offset: int, record: AbortTransactionRecord) -> None:
        if not self.in_transaction:
            self._fault(offset, "no transaction is open that could be aborted")
            return
        self.transaction_start = NO_TRANSACTION
        self._delta = Delta(self.image)
        for of_quorum in self._quorum:
            self._delta.replay(of_quorum)
        self._fact("metadata_transaction_aborted", offset, reason=record.reason)

    def _publish(self, offset: int, published: list[MetadataImage]) -> None:
        if offset <= self.image.offset:
            return
        self.image = self._delta.build(offset=offset, epoch=self.epoch)
        self.removed += self._delta.removed
        self._delta = Delta(self.image)
        published.append(self.image)

    def _fact(self, kind: str, offset: int, **fields: object) -> None:
        self.facts.append(Fact(kind, {"offset": offset, **fields}))

    def _fault(self, offset: int, reason: str) -> None:
        """An invalid record is reported and skipped: folding must not fail. A start refuses it, as Kafka does."""
        if self.fault is None:
            self.fault = f"at offset {offset}: {reason}"
        self._fact("metadata_fault", offset, reason=reason)
