"""The producer of KIP-1289: it sends a share consumer's acknowledgements as part of its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.releases.dialects.producer import Ask, Producer, Role, Steps, first_error
from odradek.releases.dialects.share_consumer import Acknowledgements, GroupMetadata, batches_of
from odradek.wire.messages.txn_share_acknowledge_request import (
    TxnAcknowledgementBatch,
    TxnShareAcknowledgePartition,
    TxnShareAcknowledgeRequest,
    TxnShareAcknowledgeTopic,
)

if TYPE_CHECKING:
    from odradek.wire.messages.txn_share_acknowledge_response import TxnShareAcknowledgeResponse

__all__ = ["PRODUCER", "SharingProducer"]

VERSION = 0


class SharingProducer(Producer):
    """A producer with `sendShareAcknowledgementsToTransaction`."""

    def acknowledge(self, said: Acknowledgements, member: GroupMetadata) -> Steps[None]:
        """TxnShareAcknowledge to the leader of each partition; the broker adds what has to be in the transaction.

        After a `Refusal` the transaction has to be aborted, as after any other part of it that was refused.
        """
        for (topic_id, partition), types in said.items():
            asked = [TxnAcknowledgementBatch(first, last, [kind]) for first, last, kind in batches_of(types)]
            request = TxnShareAcknowledgeRequest(
                transactional_id=self.tid,
                group_id=member.group_id,
                producer_id=self.pair[0],
                producer_epoch=self.pair[1],
                member_id=member.member_id,
                member_epoch=member.member_epoch,
                topics=[
                    TxnShareAcknowledgeTopic(
                        topic_id=topic_id,
                        partitions=[
                            TxnShareAcknowledgePartition(partition_index=partition[1], acknowledgement_batches=asked)
                        ],
                    )
                ],
            )
            yield from self.insist("TxnShareAcknowledge", Ask(Role.LEADER, partition, request, VERSION), _error)


def _error(answer: TxnShareAcknowledgeResponse) -> int:
    return answer.error_code or first_error(each.error_code for of in answer.responses for each in of.partitions)


PRODUCER = SharingProducer
