"""Blocks of producer ids."""

from tests.unit.metadata.helpers import broker, image_of

from odradek.metadata.producer_ids import BLOCK, next_block
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord


def test_the_first_block_begins_at_zero() -> None:
    change = next_block(AllocateProducerIdsRequest(broker_id=1, broker_epoch=101), image_of(broker(1)))

    assert (0, 0, BLOCK) == (change.reply.error_code, change.reply.producer_id_start, change.reply.producer_id_len)
    assert [ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=1000)] == change.records


def test_the_next_one_begins_where_it_ended() -> None:
    image = image_of(broker(1), ProducerIdsRecord(broker_id=2, next_producer_id=7000))

    assert 7000 == next_block(AllocateProducerIdsRequest(broker_id=1, broker_epoch=101), image).reply.producer_id_start


def test_strangers_get_none() -> None:
    changes = [
        next_block(AllocateProducerIdsRequest(broker_id=who, broker_epoch=epoch), image_of(broker(1)))
        for who, epoch in ((9, 101), (1, 100))
    ]

    assert [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH] == [c.reply.error_code for c in changes]
    assert [[], []] == [change.records for change in changes]
