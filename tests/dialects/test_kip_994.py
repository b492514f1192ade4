"""The dialect kip-994: a test for each sentence of the half of KIP-994 that no broker has."""

from __future__ import annotations

from typing import Any

from odradek.releases.dialects.load import load
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.registry import ApiKey

TEXT = load("kip-994")


def described(world: World, tid: str = "tid", *, version: int = 1) -> Any:
    request = world.nodes[1].codecs.own(DescribeTransactionsRequest(transactional_ids=[tid]))
    [state] = world.client().ask(request, version).transaction_states
    return state


def test_version_1_is_offered() -> None:
    for dialect, newest in ((TEXT, 1), (None, 0)):
        answer = World(topics=["t"], dialect=dialect).client().ask(ApiVersionsRequest(), 0)
        [api] = [each for each in answer.api_keys if each.api_key == ApiKey.DESCRIBE_TRANSACTIONS]
        assert (0, newest) == (api.min_version, api.max_version)


def test_the_time_of_the_last_change_is_told_in_each_state() -> None:
    world = World(topics=["t"], dialect=TEXT)
    client = world.client()
    init = client.ask(InitProducerIdRequest(transactional_id="tid", transaction_timeout_ms=60_000), 4)
    began = world.now
    assert ("Empty", began) == told(described(world))
    world.advance(1_000)
    added = AddPartitionsToTxnTopic(name="t", partitions=[0])
    pair = {"producer_id": init.producer_id, "producer_epoch": init.producer_epoch}
    client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tid",
            v3_and_below_producer_id=init.producer_id,
            v3_and_below_producer_epoch=init.producer_epoch,
            v3_and_below_topics=[added],
        ),
        3,
    )
    assert ("Ongoing", began + 1_000) == told(described(world))
    world.advance(1_000)
    client.ask(EndTxnRequest(transactional_id="tid", committed=True, **pair), 4)
    world.advance(5_000)
    state = described(world)
    assert ("CompleteCommit", began + 2_000) == told(state)
    assert began + 1_000 == state.transaction_start_time_ms


def told(state: Any) -> tuple[str, int]:
    return state.transaction_state, state.transaction_last_update_time_ms


def test_a_transaction_that_is_not_there_has_no_time() -> None:
    state = described(World(topics=["t"], dialect=TEXT), "none")
    assert (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, -1) == (state.error_code, state.transaction_last_update_time_ms)


def test_version_0_is_kafkas() -> None:
    states = []
    for dialect in (TEXT, None):
        world = World(topics=["t"], dialect=dialect)
        world.client().ask(InitProducerIdRequest(transactional_id="tid", transaction_timeout_ms=60_000), 4)
        states.append(described(world, version=0))
    text, kafka = states
    assert (text.transaction_state, text.transaction_start_time_ms, text.producer_id) == (
        kafka.transaction_state,
        kafka.transaction_start_time_ms,
        kafka.producer_id,
    )
    assert -1 == text.transaction_last_update_time_ms
