"""Markers as requests, and what their answers mean."""

import pytest
from tests.unit.txn.helpers import FIRST_ID, OFFSETS, P, Q, Shard

from odradek.txn.works import MARKED, MARKER_FATES, MarkerFate, marker_results, markers_request
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from odradek.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

X = FIRST_ID


def test_request() -> None:
    shard = Shard()
    shard.init()
    shard.add5((X, 0), P, Q, OFFSETS)
    shard.commit5((X, 0))
    shard.fail_over()
    (marker,) = markers_request(shard.markers()).markers
    assert marker == WritableTxnMarker(
        producer_id=X,
        producer_epoch=1,
        transaction_result=True,
        topics=[
            WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[7]),
            WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1]),
        ],
        coordinator_epoch=1,
        transaction_version=2,
    )


def test_results_of_one_producer() -> None:
    def result(producer_id: int, *codes: int) -> WritableTxnMarkerResult:
        partitions = [
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code) for index, code in enumerate(codes)
        ]
        topics = [WritableTxnMarkerTopicResult(name="t", partitions=partitions)]
        return WritableTxnMarkerResult(producer_id=producer_id, topics=topics)

    response = WriteTxnMarkersResponse(markers=[result(X, 0, 6), result(99, 47)])
    assert {P: ErrorCode.NONE, Q: ErrorCode.NOT_LEADER_OR_FOLLOWER} == marker_results(response, X)


DONE = {0, 43, 35, 47}


@pytest.mark.parametrize("code", list(ErrorCode))
def test_fates(code: ErrorCode) -> None:
    expected = MarkerFate.DONE if code in DONE else MarkerFate.AGAIN
    assert (expected is MarkerFate.DONE) == (code in MARKED)


def test_no_answer_leaves_the_marker_owed() -> None:
    assert None not in MARKED
    assert {0, 43, 35, 47, 52, 3, 6, 19, 20, 7, 56} == set(MARKER_FATES)
