"""The JSON form of a message. That it agrees with Kafka's is shown by the vectors."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.wire.jsonform import from_json, to_json
from odradek.wire.messages.fetch_request import FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest


def test_form() -> None:
    topic = FetchTopic(topic_id=bytes(15) + b"\xff")
    form = to_json(FetchRequest(max_wait_ms=5, topics=[topic], rack_id="r"), 13)
    assert [{"topicId": "AAAAAAAAAAAAAAAAAAAA_w", "partitions": []}] == form["topics"]
    assert 5 == form["maxWaitMs"]
    assert "clusterId" not in form


def test_records_are_base64() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=b"\xfb\xff")])])
    form = to_json(response, 4)
    match form["responses"]:
        case [{"partitions": [{"records": records, "abortedTransactions": aborted}]}]:
            assert ("+/8=", []) == (records, aborted)
        case other:
            pytest.fail(f"{other} is one partition of one topic")


def test_nulls() -> None:
    form = to_json(InitProducerIdRequest(None, 9), 1)
    assert {"transactionalId": None, "transactionTimeoutMs": 9} == form
    assert InitProducerIdRequest(None, 9) == from_json(InitProducerIdRequest, form, 1)


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"transactionalId": None}, "InitProducerIdRequest lacks transactionTimeoutMs"),
        (
            {"transactionalId": None, "transactionTimeoutMs": 9, "producerId": 1},
            "InitProducerIdRequest has no field producerId in version 1",
        ),
        ([], "is not a InitProducerIdRequest"),
    ],
)
def test_what_has_no_form(form: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json(InitProducerIdRequest, form, 1)
