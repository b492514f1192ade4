"""WriteTxnMarkers with several markers: the answer groups what became of them by producer id."""

from tests.kips.cluster import COMMIT, Cluster
from tests.kips.helpers import P, Q
from tests.kips.producer import Producer

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Told = dict[int, list[tuple[str, int, ErrorCode]]]


def told(cluster: Cluster, *markers: WritableTxnMarker) -> Told:
    """What a request is answered: topic, partition and error, by producer id."""
    response = cluster.ask(1, WriteTxnMarkersRequest(markers=list(markers)), 1)
    return {
        marker.producer_id: [
            (topic.name, partition.partition_index, ErrorCode(partition.error_code))
            for topic in marker.topics
            for partition in topic.partitions
        ]
        for marker in response.markers
    }


def marker(producer: Producer, index: int, *, producer_id: int | None = None) -> WritableTxnMarker:
    producer_id = producer.pair[0] if producer_id is None else producer_id
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[index])
    return WritableTxnMarker(
        producer_id=producer_id, producer_epoch=producer.epoch, transaction_result=COMMIT, topics=[topic]
    )


def test_markers_of_one_producer_are_answered_together() -> None:
    cluster = Cluster()
    one, two = Producer.started(cluster, tid="one"), Producer.started(cluster, tid="two")
    for producer in (one, two):
        producer.send(P)
    one.send(Q)
    answered = told(cluster, marker(one, 0), marker(two, 0), marker(one, 1), marker(two, 9))
    written, unknown = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answered == {
        one.pair[0]: [("t", 0, written), ("t", 1, written)],
        two.pair[0]: [("t", 0, written), ("t", 9, unknown)],
    }


def test_with_a_marker_of_nobody_every_producer_is_told_of_its_last_one() -> None:
    cluster = Cluster()
    one = Producer.started(cluster, tid="one")
    answered = told(cluster, marker(one, 0), marker(one, 1), marker(one, 2, producer_id=-1))
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert answered == {one.pair[0]: [("t", 1, failed)], -1: [("t", 2, failed)]}
