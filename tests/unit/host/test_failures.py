"""What fails in the broker itself: the request is told, its step goes on, and nobody else notices."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from tests.unit.host.helpers import batch, produce_request

from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.host.events import Command, Received
from odradek.host.failures import error_response
from odradek.host.router import SERVED, Router
from odradek.net.clock import Clock
from odradek.net.driver import Driver
from odradek.net.post import Post
from odradek.sim import World
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.registry import ApiKey

LONGEST = "x" * 32_767
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
TOPIC, BROKER = 2, 4


def codes(value: Any) -> list[int]:
    """Every error code in an answer."""
    if isinstance(value, list):
        return [code for each in value for code in codes(each)]
    if not isinstance(value, msgspec.Struct):
        return []
    found: list[int] = []
    for name in value.__struct_fields__:
        each = getattr(value, name)
        found += [each] if name.endswith("error_code") and name != "topic_config_error_code" else codes(each)
    return found


NAMED_TOO_LONG: list[tuple[str, msgspec.Struct, int]] = [
    (
        "create a topic",
        CreateTopicsRequest(topics=[CreatableTopic(LONGEST, num_partitions=1, replication_factor=1)], timeout_ms=9),
        7,
    ),
    ("producers", DescribeProducersRequest(topics=[TopicRequest(name=LONGEST, partition_indexes=[0])]), 0),
    ("configs of a topic", DescribeConfigsRequest(resources=[DescribeConfigsResource(TOPIC, LONGEST)]), 4),
    ("configs of a broker", DescribeConfigsRequest(resources=[DescribeConfigsResource(BROKER, LONGEST)]), 4),
    ("alter a topic", AlterConfigsRequest(resources=[AlterConfigsResource(TOPIC, LONGEST)]), 2),
    ("alter a broker", AlterConfigsRequest(resources=[AlterConfigsResource(BROKER, LONGEST)]), 0),
    ("features", UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=LONGEST, max_version_level=1)]), 1),
    ("groups", DescribeGroupsRequest(groups=[LONGEST]), 6),
]


@pytest.mark.parametrize("node_id", [1, 2], ids=["controller", "other"])
@pytest.mark.parametrize(
    ("request_", "version"), [case[1:] for case in NAMED_TOO_LONG], ids=lambda each: str(each)[:20]
)
def test_an_answer_too_long_to_write_is_an_error(request_: msgspec.Struct, version: int, node_id: int) -> None:
    # A real broker of 4.4.0 answers each of these so.
    world = World(brokers=2, config={"offsets.topic.num.partitions": 1})
    client = world.client(node_id)
    asked = codes(client.ask(request_, version))
    moved = isinstance(request_, DescribeGroupsRequest) and asked == [ErrorCode.NOT_COORDINATOR]
    if not moved:
        assert {FAILED} - set(asked) == set()
        assert "answer_unwritable" in {event for _, event, _ in world.log.lines}
    assert client.ask(ApiVersionsRequest(), 0).api_keys


def test_what_stood_in_the_same_step_is_answered() -> None:
    world = World(topics=["t"])
    client = world.client()
    before = client.send(produce_request(batch(b"a")), 9)
    broken = client.send(DescribeProducersRequest(topics=[TopicRequest(name=LONGEST, partition_indexes=[0])]), 0)
    after = client.send(produce_request(batch(b"b")), 9)
    world.run()
    assert [0] == codes(before.response)
    assert [FAILED] == codes(broken.response)
    assert 1 == after.response.responses[0].partition_responses[0].base_offset


def test_the_largest_retention_ends_in_the_past_as_in_kafka() -> None:
    world = World(topics=["t"])
    client = world.client()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", retention_time_ms=2**63 - 1, topics=[topic])
    assert [ErrorCode.NONE] == codes(client.ask(request, 3))
    fetch = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    assert 1 == client.ask(fetch, 5).topics[0].partitions[0].committed_offset


@pytest.mark.parametrize(("resource_type", "name", "key", "error"), [
    (TOPIC, "t", "retention.ms", ErrorCode.INVALID_CONFIG),
    (BROKER, "1", "log.retention.ms", ErrorCode.INVALID_REQUEST),
])  # fmt: skip
def test_a_number_of_five_thousand_digits_is_no_number(
    resource_type: int, name: str, key: str, error: ErrorCode
) -> None:
    world = World(topics=["t"])
    config = AlterableConfig(name=key, value="9" * 5_000)
    request = AlterConfigsRequest(resources=[AlterConfigsResource(resource_type, name, [config])])
    assert [error] == codes(world.client().ask(request, 2))


@pytest.mark.parametrize(("value", "error"), [
    ("0.5", ErrorCode.NONE),
    ("5e-1d", ErrorCode.NONE),
    ("inf", ErrorCode.INVALID_CONFIG),
    ("0_0.5", ErrorCode.INVALID_CONFIG),
    ("", ErrorCode.INVALID_CONFIG),
])  # fmt: skip
def test_a_ratio_is_what_java_reads_as_a_double(value: str, error: ErrorCode) -> None:
    world = World(topics=["t"])
    config = AlterableConfig(name="min.cleanable.dirty.ratio", value=value)
    assert [error] == codes(world.client().ask(AlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [config])]), 2))


@pytest.mark.parametrize("name", ["1_0", " 1", "99999999999", "9" * 5_000])
def test_a_broker_id_is_what_java_reads_as_an_integer(name: str) -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(BROKER, name)])
    [result] = World().client().ask(request, 4).results
    assert f"Broker id must be an integer, but it is: {name}" == result.error_message


def test_an_exception_in_a_route_is_answered_and_logged() -> None:
    world = World(topics=["t"])
    world.log.raises = False

    def fail(call: Call) -> None:
        raise ZeroDivisionError("a bug")

    world.arm(rule(ApiKey.METADATA, reply=fail))
    client = world.client()
    assert [FAILED] == codes(client.ask(MetadataRequest(topics=None), 13))
    assert "request_failed" in {event for _, event, _ in world.log.lines}
    assert client.ask(MetadataRequest(topics=None), 13).topics


def test_an_error_that_cannot_be_told_ends_the_connection() -> None:
    world = World(topics=["t"])
    world.log.raises = False
    world.arm(rule(ApiKey.PRODUCE, reply=lambda _: MetadataRequest()))
    client = world.client()
    client.send(produce_request(batch(b"a"), acks=0), 9)
    world.run()
    assert client.closed
    assert "internal_error" in [fields.get("reason") for _, _, fields in world.log.lines]


def _break() -> None:
    raise ZeroDivisionError("a bug")


def test_a_timer_that_fails_keeps_no_other_from_running() -> None:
    world = World()
    world.log.raises = False
    node, ran = world.nodes[1], []
    node.timers.set("bad", world.now + 10, _break)
    node.timers.set("good", world.now + 10, lambda: ran.append(True))
    world.advance(50)
    assert [True] == ran
    assert "step_failed" in {event for _, event, _ in world.log.lines}


def test_a_connection_that_fails_ends_and_no_exception_leaves_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.log.raises = False
    client, other = world.client(), world.client()
    world.run()
    node = world.nodes[1]
    monkeypatch.setattr(node.router, "handler", lambda *_, **__: _break())
    effects = node.step(Received(client.conn, bytes([0, 0, 0, 10]) + bytes(10)), world.now)
    assert ["Hangup"] == [type(effect).__name__ for effect in effects]
    monkeypatch.undo()
    assert other.ask(ApiVersionsRequest(), 0).api_keys


def test_a_flow_of_the_nodes_own_that_fails_is_logged() -> None:
    world = World()
    world.log.raises = False

    async def fail() -> None:
        _break()

    world.post(1, Command(partial(world.nodes[1].kernel.spawn, fail())))
    world.run()
    assert "flow_failed" in {event for _, event, _ in world.log.lines}


def test_who_acts_on_a_node_is_told_what_went_wrong() -> None:
    world = World()
    driver = Driver(world.nodes[1], peers={}, clock=Clock(), post=Post(None), loop=None)  # type: ignore[arg-type]
    driver._timer_at = world.nodes[1].wake_at()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        driver.act(_break)


# ---------------------------------------------------------------------- Kafka's getErrorResponse

RANGES = Router(tells_all=True).ranges()
VERSIONS = [(api_key, version) for api_key, low, high in RANGES for version in range(low, high + 1)]


def failure(api_key: ApiKey, version: int, request: msgspec.Struct) -> Any:
    """The answer to a request that failed; it can be written."""
    response = error_response(Call(api_key, version, 1, None, request, "host", False))
    assert response is not None
    registry.encode(response, version)
    return response


@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS])
def test_every_version_has_an_answer(api_key: ApiKey, version: int) -> None:
    request: Any = registry.request_type(api_key)()
    if api_key is ApiKey.PRODUCE:
        request.acks = 1
    assert isinstance(failure(api_key, version, request), registry.response_type(api_key))


def test_every_route_is_covered() -> None:
    offered = {served.api_key for served in SERVED if served.is_for_clients and not served.is_draft}
    assert offered == {api_key for api_key, _ in VERSIONS}


@pytest.mark.parametrize(("request_", "api_key", "version", "said"), [
    (
        FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])]),
        ApiKey.FETCH, 4, "topic='t', topic_id=bytes, partitions=[PartitionData(partition_index=3, error_code=-1",
    ),
    (FetchRequest(), ApiKey.FETCH, 12, "error_code=-1"),
    (FindCoordinatorRequest(coordinator_keys=["a"]), ApiKey.FIND_COORDINATOR, 4, "Coordinator(key='a'"),
    (
        WriteTxnMarkersRequest(
            markers=[WritableTxnMarker(producer_id=7, topics=[WritableTxnMarkerTopic("t", partition_indexes=[5])])]
        ),
        ApiKey.WRITE_TXN_MARKERS, 1, ("producer_id=7, topics=[WritableTxnMarkerTopicResult(name='t', "
        "partitions=[WritableTxnMarkerPartitionResult(partition_index=5, error_code=-1"),
    ),
])  # fmt: skip
def test_each_entry_of_the_request_is_answered(
    request_: msgspec.Struct, api_key: ApiKey, version: int, said: str
) -> None:
    told = repr(failure(api_key, version, request_)).replace(repr(bytes(16)), "bytes")
    assert said in told.replace("<ErrorCode.UNKNOWN_SERVER_ERROR: -1>", "-1")
