"""An answer in which everything that was asked for has an error, for every version of every API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.faults.sample import sample

from odradek.host.call import Call
from odradek.host.failures import ERROR_FIELDS, OF_THE_WHOLE, can_refuse, refusal
from odradek.host.router import Router
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.registry import ApiKey

VERSIONS = [(api_key, version) for api_key, low, high in Router().ranges() for version in range(low, high + 1)]
ERROR = ErrorCode.POLICY_VIOLATION


def refused(
    api_key: ApiKey, version: int, request: msgspec.Struct, error: ErrorCode = ERROR, message: str | None = None
) -> Any:
    response = refusal(Call(api_key, version, 1, None, request, "host", False), error, message)
    assert response is not None
    registry.encode(response, version)
    return response


def innermost(value: Any) -> list[int]:
    """The error codes that have no others below them."""
    if isinstance(value, list):
        return [code for each in value for code in innermost(each)]
    if not isinstance(value, msgspec.Struct):
        return []
    below = [code for name in value.__struct_fields__ for code in innermost(getattr(value, name))]
    return below or [getattr(value, name) for name in value.__struct_fields__ if name in ERROR_FIELDS][:1]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS])
def test_every_version_says_it_of_everything(api_key: ApiKey, version: int) -> None:
    assert can_refuse(api_key, version) or api_key is ApiKey.DESCRIBE_LOG_DIRS
    answer = refused(api_key, version, sample(api_key, version))
    if api_key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
        return  # it has nothing that would answer an entry, and no code of its own yet
    assert {ERROR} == set(innermost(answer))


@pytest.mark.parametrize("error", sorted(OF_THE_WHOLE), ids=lambda error: error.name)
def test_an_error_of_the_whole_group_is_not_said_of_its_partitions(error: ErrorCode) -> None:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    [group] = refused(ApiKey.OFFSET_FETCH, 9, request, error).groups
    assert ("g", error, []) == (group.group_id, group.error_code, group.topics)


def test_an_error_of_a_partition_is_not_said_of_its_group() -> None:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    [group] = refused(ApiKey.OFFSET_FETCH, 9, request, ErrorCode.UNSTABLE_OFFSET_COMMIT).groups
    assert 0 == group.error_code
    assert [(0, 88), (1, 88)] == [(each.partition_index, each.error_code) for each in group.topics[0].partitions]


def test_each_transaction_of_a_batch_is_refused() -> None:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]
    asked = [AddPartitionsToTxnTransaction(transactional_id=tid, topics=topics) for tid in ("a", "b")]
    for error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NOT_COORDINATOR):
        answer = refused(ApiKey.ADD_PARTITIONS_TO_TXN, 4, AddPartitionsToTxnRequest(transactions=asked), error)
        assert 0 == answer.error_code
        assert ["a", "b"] == [each.transactional_id for each in answer.results_by_transaction]
        assert [error] * 4 == innermost(answer)


def test_a_fetch_that_names_nothing_is_refused_as_a_whole() -> None:
    assert (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
        == refused(ApiKey.FETCH, 12, FetchRequest(), ErrorCode.NOT_LEADER_OR_FOLLOWER).error_code
    )
    named = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    answer = refused(ApiKey.FETCH, 12, named, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert 0 == answer.error_code
    assert [ErrorCode.NOT_LEADER_OR_FOLLOWER] == innermost(answer)


def test_who_wants_no_answer_gets_none() -> None:
    call = Call(ApiKey.PRODUCE, 9, 1, None, ProduceRequest(acks=0), "host", False)
    assert refusal(call, ERROR) is None


def test_a_message_goes_with_the_error_where_there_is_a_place() -> None:
    answer = refused(ApiKey.FIND_COORDINATOR, 4, sample(ApiKey.FIND_COORDINATOR, 4), message="away for lunch")
    assert {"away for lunch"} == {each.error_message for each in answer.coordinators}
