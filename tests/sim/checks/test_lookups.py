"""What brokers tell of leaders and coordinators is held against the metadata that they had."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.metadata.image import MetadataImage
from odradek.sim.checks.lookups import epoch_problems, lookup_problems, metadata_images
from odradek.sim.clients.directories import find_request, metadata_request
from odradek.sim.clients.lookup_clients import NEWS_MS
from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import ProduceResponse

TRANSACTIONS = CoordinatorKind.TRANSACTION
FAR = 1 << 50


class Cluster:
    """Three brokers, whom somebody asks; `before` is what they knew before a leader and a coordinator were moved."""

    def __init__(self) -> None:
        self.world = World(brokers=3, topics=["t:1:3"], config={"transaction.state.log.num.partitions": 1})
        self.world.advance(1_000)
        self.before = self.image
        for topic in ("t", TRANSACTIONS.topic):
            self.world.move_leader(topic, 0, self.leader(topic) % 3 + 1)

    @property
    def image(self) -> MetadataImage:
        return self.world.nodes[2].image

    def leader(self, topic: str) -> int:
        return self.world.leader_known_to(2, topic, 0)

    def ask(self, request: Struct, version: int, node_id: int = 2, *, since: int | None = None) -> Asked:
        """`since`: the metadata that it had when it was asked, if not what it has now."""
        response = self.world.client(node_id).ask(request, version)
        return self.asked(request, version, response, node_id, since=since)

    def asked(
        self, request: Struct, version: int, response: Struct | None, node_id: int = 2, *, since: int | None = None
    ) -> Asked:
        at, offset = self.world.now, self.image.offset
        self.world.advance(1)
        return Asked("c", at, node_id, request, version, at, response, offset if since is None else since, offset)

    def problems(self, *asked: Asked, calm_at: int = FAR, news: int = -1) -> list[str]:
        return names(lookup_problems(asked, metadata_images(self.world.store), calm_at=calm_at, news=news))


def names(problems: Iterable[Problem]) -> list[str]:
    return [each.name for each in problems]


def test_the_log_of_the_metadata_has_every_image_that_a_broker_has_had() -> None:
    cluster = Cluster()
    images = {image.offset: image for image in metadata_images(cluster.world.store)}
    for image in (cluster.before, cluster.image):
        assert images[image.offset].topics == image.topics
    assert cluster.leader("t") != cluster.before.topics["t"].partitions[0].leader


# ---------------------------------------------------------------------- FindCoordinator


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_the_coordinator_is_who_leads_its_partition(version: int) -> None:
    cluster = Cluster()
    asked = cluster.ask(find_request(TRANSACTIONS, ["a"], version), version)
    assert cluster.problems(asked) == []
    told = asked.response if version < 4 else asked.response.coordinators[0]
    told.node_id = cluster.before.topics[TRANSACTIONS.topic].partitions[partition_for("a", 1)].leader
    told.host = f"broker-{told.node_id}"
    assert cluster.problems(asked) == ["wrong lookup"]
    asked.knew = cluster.before.offset
    assert cluster.problems(asked) == []


@pytest.mark.parametrize("what", [{"host": "elsewhere"}, {"port": 1}])
def test_a_coordinator_is_where_it_is(what: dict[str, object]) -> None:
    cluster = Cluster()
    asked = cluster.ask(find_request(TRANSACTIONS, ["a"], 4), 4)
    asked.response.coordinators = [replace(each, **what) for each in asked.response.coordinators]
    assert cluster.problems(asked) == ["wrong lookup"]


def test_nobody_coordinates_what_is_led_by_nobody_and_only_that() -> None:
    cluster = Cluster()
    asked = cluster.ask(find_request(TRANSACTIONS, ["a"], 4), 4)
    [told] = asked.response.coordinators
    told.error_code, told.node_id = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1
    assert cluster.problems(asked) == ["wrong lookup"]
    told.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.problems(asked) == []
    told.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    led = cluster.image.topics[TRANSACTIONS.topic]
    nobody = replace(led, partitions={0: replace(led.partitions[0], leader=-1)})
    images = [replace(cluster.image, topics={TRANSACTIONS.topic: nobody})]
    assert names(lookup_problems([asked], images, calm_at=FAR, news=-1)) == []
    assert names(lookup_problems([asked], [replace(cluster.image, topics={})], calm_at=FAR, news=-1)) == []


# ---------------------------------------------------------------------- Metadata


def test_metadata_is_that_of_an_image_that_the_broker_has_had_meanwhile() -> None:
    cluster = Cluster()
    asked = cluster.ask(metadata_request(["t", TRANSACTIONS.topic]), 12)
    assert cluster.problems(asked) == []
    partition = asked.response.topics[0].partitions[0]
    partition.leader_id = partition.leader_id % 3 + 1
    assert cluster.problems(asked) == ["wrong lookup"]
    partition.leader_id = cluster.leader("t")
    partition.leader_epoch -= 1
    assert cluster.problems(asked) == ["wrong lookup"]
    partition.leader_id = cluster.before.topics["t"].partitions[0].leader
    assert cluster.problems(asked) == ["wrong lookup"]
    asked.knew = cluster.before.offset
    assert cluster.problems(asked) == []


def test_metadata_names_those_that_are_alive() -> None:
    cluster = Cluster()
    asked = cluster.ask(metadata_request(["t"]), 12)
    told: MetadataResponse = asked.response
    last = told.brokers.pop()
    assert cluster.problems(asked) == ["wrong lookup"]
    told.brokers.append(replace(last, port=1))
    assert cluster.problems(asked) == ["wrong lookup"]
    cluster.world.stop_broker(3)
    asked = cluster.ask(metadata_request(["t"]), 12)
    assert cluster.problems(asked) == []
    asked.response.brokers.append(replace(last, node_id=3, host="broker-3"))
    assert cluster.problems(asked) == ["wrong lookup"]


def test_after_the_trouble_only_what_has_been_so_since_is_told() -> None:
    cluster = Cluster()
    asked = cluster.ask(metadata_request(["t"]), 12, since=cluster.before.offset)
    told = asked.response.topics[0].partitions[0]
    before = cluster.before.topics["t"].partitions[0]
    told.leader_id, told.leader_epoch = before.leader, before.leader_epoch
    news = cluster.image.offset
    assert cluster.problems(asked, calm_at=asked.at - NEWS_MS + 1, news=news) == []
    assert cluster.problems(asked, calm_at=asked.at - NEWS_MS, news=news) == ["stale lookup"]
    assert cluster.problems(asked, calm_at=asked.at - NEWS_MS, news=cluster.before.offset) == []


def test_after_the_trouble_every_lookup_is_answered() -> None:
    cluster = Cluster()
    lost = [
        cluster.asked(request, 6, None)
        for request in (metadata_request(["t"]), find_request(TRANSACTIONS, ["a"], 6), FetchRequest())
    ]
    assert cluster.problems(*lost) == []
    assert cluster.problems(*lost, calm_at=0) == ["stale lookup", "stale lookup"]


# ---------------------------------------------------------------------- who names another leader


def wrong_place() -> ProduceRequest:
    data = PartitionProduceData(index=0, records=None)
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(epoch: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])])


def fenced(leader: int, epoch: int) -> FetchResponse:
    hint = LeaderIdAndEpoch(leader, epoch)
    data = PartitionData(0, ErrorCode.FENCED_LEADER_EPOCH, current_leader=hint)
    endpoint = NodeEndpoint(leader, f"broker-{leader}", 9092)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])], node_endpoints=[endpoint])


def test_who_is_sent_away_is_told_who_leads_and_where() -> None:
    cluster = Cluster()
    asked = cluster.ask(wrong_place(), 11, cluster.leader("t") % 3 + 1)
    response: ProduceResponse = asked.response
    assert cluster.problems(asked) == []
    hint = response.responses[0].partition_responses[0].current_leader
    assert hint.leader_id == cluster.leader("t")
    hint.leader_epoch -= 1
    assert cluster.problems(asked) == ["wrong lookup"]
    hint.leader_epoch += 1
    response.node_endpoints = []
    assert cluster.problems(asked) == ["wrong lookup"]


def test_a_leader_that_does_not_send_away_names_nobody() -> None:
    cluster = Cluster()
    assert cluster.problems(cluster.ask(fetch(-1), 12, cluster.leader("t"))) == []


def test_the_epochs_that_one_broker_tells_do_not_go_back() -> None:
    cluster = Cluster()
    first = cluster.ask(metadata_request(["t"]), 12)
    later = cluster.ask(metadata_request(["t"]), 12)
    assert names(epoch_problems([first, later])) == []
    later.response.topics[0].partitions[0].leader_epoch -= 1
    assert names(epoch_problems([first, later])) == ["older epoch"]
    # Another broker may lag, and who had asked before may be told later.
    assert names(epoch_problems([first, replace(later, node_id=3)])) == []
    assert names(epoch_problems([replace(first, ended_at=later.at), later])) == []
    told = first.response.topics[0].partitions[0].leader_epoch
    assert names(epoch_problems([first, cluster.asked(fetch(-1), 17, fenced(1, told))])) == []
    assert names(epoch_problems([first, cluster.asked(fetch(-1), 17, fenced(1, told - 1))])) == ["older epoch"]


def test_who_is_fenced_is_told_of_a_newer_leader() -> None:
    cluster = Cluster()
    assert names(epoch_problems([cluster.asked(fetch(4), 17, fenced(1, 5))])) == []
    assert names(epoch_problems([cluster.asked(fetch(5), 17, fenced(1, 5))])) == ["older epoch"]
    assert names(epoch_problems([cluster.asked(fetch(6), 17, fenced(1, 5))])) == ["older epoch"]
