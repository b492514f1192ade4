"""What is handed over within a process is what the wire would have made of it, and nobody else's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.examples import examples
from tests.unit.wire.helpers import all_versions, messages, numbered_message

from odradek.host.router import SERVED as APIS_SERVED
from odradek.releases.dialects.load import load
from odradek.wire import registry
from odradek.wire.errors import EncodeError
from odradek.wire.handover import Hand, hand, through_bytes
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from odradek.wire.registry import ApiKey

SERVED = [served.api_key for served in APIS_SERVED]
"""Brokers pass on what they are asked, so that any API may be asked by a broker."""


@pytest.mark.parametrize("api_key", SERVED, ids=lambda each: ApiKey(each).name)
def test_any_message_of_an_api(api_key: ApiKey) -> None:
    compare(registry.request_type(api_key))
    compare(registry.response_type(api_key))


def compare(cls: type[Struct]) -> None:
    lowest, highest = registry.valid_versions(cls)

    @examples(12)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        # What is made for one version is handed over in another, which may lack a field of it.
        made_for, version = data.draw(st.integers(lowest, highest)), data.draw(st.integers(lowest, highest))
        message = data.draw(messages(cls, made_for))
        slow = through_bytes(registry.reader(cls, version), registry.writer(cls, version))
        assert outcome(slow, message) == outcome(hand(cls, version), message)

    check()


def outcome(pass_on: Hand, message: Struct) -> object:
    try:
        return pass_on(message)
    except EncodeError as error:
        return str(error)


def test_every_version_of_every_message() -> None:
    for cls, version in all_versions():
        message = numbered_message(cls, version)
        assert message == hand(cls, version)(message), (cls, version)


def test_it_is_nobody_elses() -> None:
    for cls, version in all_versions():
        message = numbered_message(cls, version)
        mine = {id(each) for each in changeable(message)}
        assert mine.isdisjoint(id(each) for each in changeable(hand(cls, version)(message))), (cls, version)


def changeable(value: object) -> Iterator[object]:
    """Every struct and every list in it; empty lists are let alone by nobody."""
    if isinstance(value, list):
        yield value
        for each in value:
            yield from changeable(each)
    elif isinstance(value, Struct):
        yield value
        for name in value.__struct_fields__:
            yield from changeable(getattr(value, name))


def test_what_the_version_does_not_have_is_not_handed_over() -> None:
    with pytest.raises(EncodeError, match="v3_and_below"):
        hand(AddPartitionsToTxnRequest, 5)(AddPartitionsToTxnRequest(v3_and_below_transactional_id="x"))


def test_what_may_be_left_out_is_left_out() -> None:
    topic = CreatableTopicResult(name="t", topic_id=bytes([1] * 16), num_partitions=3)
    response: Any = hand(CreateTopicsResponse, 4)(CreateTopicsResponse(topics=[topic]))
    [after] = response.topics
    assert bytes(16) == after.topic_id
    assert -1 == after.num_partitions
    marker = WritableTxnMarker(producer_id=1, transaction_version=2)
    request: Any = hand(WriteTxnMarkersRequest, 1)(WriteTxnMarkersRequest(markers=[marker]))
    [marked] = request.markers
    assert (1, 0) == (marked.producer_id, marked.transaction_version)


@pytest.mark.parametrize(("text", "fits"), [("x" * 32_767, True), ("x" * 32_768, False), ("ß" * 16_384, False)])
def test_a_string_that_is_too_long_for_the_wire_is_too_long(text: str, fits: bool) -> None:
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=text)])
    if fits:
        assert response == hand(CreateTopicsResponse, 7)(response)
    else:
        with pytest.raises(EncodeError):
            hand(CreateTopicsResponse, 7)(response)


def test_a_message_of_the_dialects_own_class_is_handed_over_whole() -> None:
    """As a client of the dialect has it; so is one of the ordinary class, as a machine has it."""
    codecs = load("kip-609-draft").codecs
    assert codecs is not None
    kind = codecs.request_type(ApiKey.END_TXN)
    topic = sys.modules[kind.__module__].EndTxnTopic
    asked = codecs.own(EndTxnRequest(transactional_id="x", committed=True), topics=[topic(name="t", partitions=[1])])
    for cls in (kind, EndTxnRequest):
        assert codecs.hand(cls, 3)(asked) == asked
