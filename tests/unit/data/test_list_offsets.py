"""ListOffsets: partitions that one request names again and again."""

import pytest

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1


@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("in_one_topic", [True, False])
def test_a_partition_that_is_named_again_is_refused_once(times: int, in_one_topic: bool) -> None:
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=LATEST) for _ in range(times)]
    parts = [wanted] if in_one_topic else [[each] for each in wanted]
    topics = [ListOffsetsTopic(name="t", partitions=part) for part in parts]
    topics.append(ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1, timestamp=LATEST)]))
    response = World(topics=["t:2"]).client().ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    answered = {
        (each.partition_index, each.error_code, each.offset) for topic in response.topics for each in topic.partitions
    }
    assert {(0, ErrorCode.INVALID_REQUEST, -1), (1, ErrorCode.NONE, 0)} == answered
    assert 2 == sum(len(topic.partitions) for topic in response.topics)
