"""Endpoints: declared once, with what they need; what is derived from them is up to date."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed
from odradek.host.call import Call
from odradek.host.endpoint import EVERYBODY, ClashingEndpoints, Since, endpoint, endpoints_of
from odradek.host.served import SERVED
from odradek.sim import World
from odradek.tools import apis
from odradek.txn.api import TransactionApi
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import END_TXN, LIST_TRANSACTIONS
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.registry import ApiKey

WRITE, TRANSACTIONAL_ID = AclOperation.WRITE, AclResource.TRANSACTIONAL_ID


class One:
    @endpoint(END_TXN, needs=EVERYBODY)
    async def end_txn(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        return EndTxnResponse()


class Other:
    @endpoint(END_TXN, needs=EVERYBODY)
    async def ends_too(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        return EndTxnResponse()


class Wrong:
    """Mistakes that mypy finds: without one of these errors `make check` fails, for a comment that ignores nothing."""

    with pytest.raises(TypeError, match="needs"):

        @endpoint(END_TXN)  # type: ignore[call-arg]
        async def without_needs(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
            return EndTxnResponse()

    @endpoint(END_TXN, needs=allowed(WRITE, TRANSACTIONAL_ID, of=lambda request: request.group_id))  # type: ignore[attr-defined]
    async def of_no_field(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        return EndTxnResponse()

    @endpoint(END_TXN, needs=EVERYBODY)  # type: ignore[arg-type]
    async def of_another_request(self, call: Call[ListTransactionsRequest]) -> EndTxnResponse:
        return EndTxnResponse()

    @endpoint(LIST_TRANSACTIONS, needs=EVERYBODY)  # type: ignore[arg-type]
    async def with_another_answer(self, call: Call[ListTransactionsRequest]) -> EndTxnResponse:
        return EndTxnResponse()


def test_two_endpoints_of_one_api_are_refused_with_their_places() -> None:
    places = r"END_TXN is served twice: \S+test_endpoint\.py:\d+ One\.end_txn and \S+:\d+ Other\.ends_too"
    with pytest.raises(ClashingEndpoints, match=places):
        endpoints_of(One, Other)


def test_what_is_derived_from_the_endpoints_is_up_to_date() -> None:
    assert apis.SERVED.read_text(encoding="utf-8") == apis.served_source(), "run python -m odradek.tools.apis"
    assert apis.PAGE.read_text(encoding="utf-8") == apis.apis_page(), "run python -m odradek.tools.apis"


def test_every_family_is_made_from_parts_of_its_broker() -> None:
    node = World().nodes[1]
    assert {served.family for served in SERVED} == set(apis.families())
    for served in SERVED:
        assert served.api_key in endpoints_of(type(node.family(served.family)))


@pytest.mark.parametrize(
    ("api_key", "last_old"),
    [
        (ApiKey.INIT_PRODUCER_ID, 3),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 1),
        (ApiKey.ADD_OFFSETS_TO_TXN, 1),
        (ApiKey.END_TXN, 1),
    ],
)
def test_producer_fenced_is_news_to_old_clients(api_key: ApiKey, last_old: int) -> None:
    [since] = endpoints_of(TransactionApi)[api_key].errors
    assert since == Since(last_old + 1, ErrorCode.PRODUCER_FENCED, before=ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize(
    ("version", "error", "answered"),
    [
        (1, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (0, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_an_older_version_is_answered_with_an_error_that_it_knows(
    monkeypatch: pytest.MonkeyPatch, version: int, error: ErrorCode, answered: ErrorCode
) -> None:
    async def refused(self: TransactionApi, call: Call[EndTxnRequest]) -> EndTxnResponse:
        return EndTxnResponse(error_code=error)

    monkeypatch.setattr(TransactionApi, "end_txn", with_declaration(refused))
    answer = World().client().ask(EndTxnRequest(transactional_id="x"), version)
    assert answered == answer.error_code


def test_the_answer_for_an_older_version_has_no_newer_error_in_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.wire.error_fields import replace_errors
    from odradek.wire.messages.add_partitions_to_txn_response import (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTopicResult,
    )

    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        for index, error in enumerate((ErrorCode.PRODUCER_FENCED, ErrorCode.NONE))
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    replace_errors(response, {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH})
    assert [47, 0] == [each.partition_error_code for each in results]


def with_declaration(method: object) -> object:
    """The method, declared as the one that it stands for."""
    vars(method)["endpoint"] = replace(endpoints_of(TransactionApi)[ApiKey.END_TXN], method=method)
    return method
