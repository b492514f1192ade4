"""The first error in a response."""

from __future__ import annotations

import pytest
from msgspec import Struct

from odradek.wire import registry
from odradek.wire.error_fields import first_error
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from odradek.wire.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.messages.share_fetch_response import PartitionData, ShareFetchableTopicResponse, ShareFetchResponse
from odradek.wire.messages.update_features_response import UpdateFeaturesResponse


def test_of_the_whole() -> None:
    assert 0 == first_error(EndTxnResponse())
    assert 47 == first_error(EndTxnResponse(error_code=47))
    assert -1 == first_error(EndTxnResponse(error_code=-1))


def test_of_the_first_entry_that_has_one() -> None:
    partitions = [PartitionProduceResponse(index=index, error_code=code) for index, code in enumerate((0, 6, 3))]
    topics = [TopicProduceResponse(name="a"), TopicProduceResponse(name="b", partition_responses=partitions)]
    assert 6 == first_error(ProduceResponse(responses=topics))
    assert 0 == first_error(ProduceResponse(responses=topics[:1]))


def test_what_is_outside_comes_first() -> None:
    partition = MetadataResponsePartition(error_code=5)
    assert 5 == first_error(MetadataResponse(topics=[MetadataResponseTopic(partitions=[partition])]))
    assert 3 == first_error(MetadataResponse(topics=[MetadataResponseTopic(error_code=3, partitions=[partition])]))
    topic = ShareFetchableTopicResponse(partitions=[PartitionData(acknowledge_error_code=121)])
    assert 121 == first_error(ShareFetchResponse(responses=[topic]))
    assert 122 == first_error(ShareFetchResponse(error_code=122, responses=[topic]))


def test_where_there_is_no_list() -> None:
    assert 0 == first_error(UpdateFeaturesResponse(results=None))  # type: ignore[arg-type]


@pytest.mark.parametrize("api_key", registry.APIS)
def test_every_response_can_be_looked_through(api_key: int) -> None:
    cls: type[Struct] = registry.response_type(api_key)
    assert 0 == first_error(cls())
