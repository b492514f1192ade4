"""Clients that look up who leads and coordinates what: what they keep, when they ask again, and whom they believe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import cache
from typing import Any

import pytest

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.sim.clients.directories import Directory, Known, Lookups
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Player
from odradek.sim.workloads.draw import Settings, draw
from odradek.sim.world.actors import Ask
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.produce_response import LeaderIdAndEpoch

PARTITION = "t", 0
TRANSACTIONS = CoordinatorKind.TRANSACTION
TOPIC_ID = b"t" * 16


class Asking:
    """A client's directory over a world of three brokers, and what it has asked."""

    def __init__(self, seed: str = "1") -> None:
        self.world = World(brokers=3, topics=["t:3:3"], config={"transaction.state.log.num.partitions": 3})
        self.world.advance(1_000)
        self.directory: Directory = Lookups(self.world, seed)
        self.asked: list[Ask] = []

    def leader(self, answer: object = ...) -> int:
        return self._look(self.directory.leader(PARTITION), answer)

    def coordinator(self, answer: object = ...) -> int:
        return self._look(self.directory.coordinator(TRANSACTIONS, "a"), answer)

    def _look(self, looks: Generator[Ask, Any, int], answer: object) -> int:
        """What it comes to; every question is answered by the broker that is asked, or by `answer`."""
        told = None
        while True:
            try:
                ask = looks.send(told)
            except StopIteration as done:
                return int(done.value)
            self.asked.append(ask)
            told = self._answer(ask) if answer is ... else answer

    def _answer(self, ask: Ask) -> object:
        try:
            return self.world.client(ask.node_id).ask(ask.request, ask.version)
        except ConnectionError:
            return None

    def move_the_coordinator(self) -> int:
        """Where it is then."""
        index = partition_for("a", 3)
        leader = self.world.leader_known_to(1, TRANSACTIONS.topic, index)
        self.world.move_leader(TRANSACTIONS.topic, index, leader % 3 + 1)
        return leader % 3 + 1


def metadata(leader: int, epoch: int, *, topic_id: bytes = TOPIC_ID, brokers: tuple[int, ...] = (1, 2, 3)) -> object:
    error = ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
    partition = MetadataResponsePartition(error, 0, leader, epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id, f"broker-{node_id}", 9092) for node_id in brokers],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])],
    )


# ---------------------------------------------------------------------- coordinators


@pytest.mark.parametrize("seed", [f"{number}" for number in range(6)])
def test_a_coordinator_is_asked_for_once_and_believed_until_it_says_that_it_is_none(seed: str) -> None:
    asking = Asking(seed)
    before = asking.coordinator()
    after = asking.move_the_coordinator()
    assert asking.coordinator() == before != after
    asking.directory.answered(TRANSACTIONS, "a", before, ErrorCode.NOT_COORDINATOR)
    assert asking.coordinator() == after
    assert len(asking.asked) == 2


def test_one_that_loads_is_asked_again_and_one_that_was_replaced_before_costs_nothing() -> None:
    asking = Asking()
    known = asking.coordinator()
    asking.directory.answered(TRANSACTIONS, "a", known, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    asking.directory.answered(TRANSACTIONS, "a", known, ErrorCode.NONE)
    asking.directory.answered(TRANSACTIONS, "a", known % 3 + 1, ErrorCode.NOT_COORDINATOR)
    assert asking.coordinator() == known
    assert len(asking.asked) == 1


def test_a_connection_that_is_lost_costs_its_coordinators_and_another_broker_is_asked() -> None:
    asking = Asking()
    known = asking.coordinator()
    asking.world.stop_broker(known)
    asking.directory.answered(TRANSACTIONS, "a", known, None)
    assert asking.coordinator() not in (known, -1)
    assert [each.node_id for each in asking.asked][1:] != [known]


def test_who_is_told_of_nobody_asks_again() -> None:
    asking = Asking()
    asking.world.stop_broker(2)
    asking.world.stop_broker(3)
    assert asking.coordinator(None) == -1
    assert asking.coordinator(None) == -1
    assert asking.coordinator(None) == -1
    # None of the three has answered: it begins with those that it was configured with (KIP-899).
    assert {each.node_id for each in asking.asked} == {1, 2, 3}
    assert asking.directory.anyone() in (1, 2, 3)


# ---------------------------------------------------------------------- leaders


def test_a_leader_is_asked_for_once_and_believed_until_it_says_that_it_is_none() -> None:
    asking = Asking()
    before = asking.leader()
    asking.world.move_leader("t", 0, before % 3 + 1)
    assert asking.leader() == before
    asking.directory.led(PARTITION, before, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert asking.leader() == before
    asking.directory.led(PARTITION, before, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert asking.leader() == before % 3 + 1
    assert len(asking.asked) == 2


def test_of_two_leaders_the_one_with_the_higher_epoch_is_believed() -> None:
    asking = Asking()
    assert asking.leader(metadata(2, 7)) == 2
    asking.directory.led(PARTITION, 2, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert asking.leader(metadata(1, 6)) == 2
    asking.directory.led(PARTITION, 2, None)
    assert asking.leader(metadata(3, 8)) == 3
    assert asking.directory.known(PARTITION) == Known(3, 8, TOPIC_ID)


def test_another_topic_of_the_name_begins_with_epochs_of_its_own() -> None:
    asking = Asking()
    assert asking.leader(metadata(2, 7)) == 2
    asking.directory.led(PARTITION, 2, ErrorCode.UNKNOWN_TOPIC_ID)
    assert asking.leader(metadata(1, 0, topic_id=b"u" * 16)) == 1


def test_a_topic_that_is_gone_is_led_by_nobody() -> None:
    asking = Asking()
    assert asking.leader(metadata(2, 7)) == 2
    asking.directory.led(PARTITION, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    gone = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="t")
    assert asking.leader(MetadataResponse(topics=[gone])) == -1


def test_who_knows_of_no_leader_asks_again_whatever_an_older_broker_has_said() -> None:
    asking = Asking()
    assert asking.leader(metadata(-1, 7)) == -1
    assert asking.leader(metadata(2, 6)) == -1
    assert asking.leader(metadata(2, 8)) == 2


def test_metadata_that_does_not_come_leaves_what_was_known() -> None:
    asking = Asking()
    assert asking.leader(metadata(2, 7)) == 2
    asking.directory.led(PARTITION, 2, None)
    assert asking.leader(None) == 2
    assert asking.leader(metadata(3, 8)) == 3
    assert 2 not in [each.node_id for each in asking.asked[1:]]


@pytest.mark.parametrize("seed", [f"{number}" for number in range(4)])
def test_whoever_is_sent_away_goes_to_a_newer_leader_and_to_no_older_one(seed: str) -> None:
    asking = Asking(seed)
    assert asking.leader(metadata(2, 7)) == 2
    asking.directory.led(PARTITION, 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderIdAndEpoch(3, 8))
    assert asking.leader(metadata(1, 6)) == 3
    asking.directory.led(PARTITION, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderIdAndEpoch(1, 8))
    assert asking.leader(metadata(2, 9)) == 2


def test_only_brokers_that_are_known_are_asked() -> None:
    asking = Asking()
    asking.leader(metadata(2, 7, brokers=(2,)))
    assert {asking.directory.anyone() for _ in range(20)} == {2}
    asking.directory.led(PARTITION, 2, None)
    assert {asking.directory.anyone() for _ in range(40)} == {1, 2, 3}


# ---------------------------------------------------------------------- in runs


def test_who_speaks_a_dialect_looks_nothing_up() -> None:
    with pytest.raises(ValueError, match="does not look up who leads"):
        Player(name="p", transactional_id="a", speaks=True, looks_up=True)


def test_producers_of_a_dialect_are_drawn_that_look_nothing_up_and_others_do() -> None:
    drawn = [draw(seed, "lookups", Settings(dialect="kip-890-text")) for seed in range(1, 5)]
    players = [each for schedule in drawn for each in schedule.players]
    assert any(each.speaks for each in players)
    assert any(each.looks_up for each in players)


@cache
def played(seed: int) -> Run:
    run = Run(draw(seed, "lookups"))
    run.play()
    return run


def test_some_look_up_and_in_no_other_workload() -> None:
    drawn = [draw(seed, "lookups") for seed in range(1, 5)]
    assert {each.looks_up for schedule in drawn for each in schedule.players} == {True, False}
    assert any(schedule.consumers_look_up for schedule in drawn)
    other = draw(1, "general")
    assert not any(each.looks_up for each in other.players)
    assert (other.consumers_look_up, other.lookers) == (False, 0)


@pytest.mark.slow
def test_clients_go_to_those_that_lead_no_more_and_are_sent_on() -> None:
    asked = [each for seed in range(1, 5) for each in played(seed).asked]
    lookups = [each for each in asked if isinstance(each.request, MetadataRequest | FindCoordinatorRequest)]
    assert any(each.response is None for each in lookups)
    assert any(each.ended_at - each.at >= 100 for each in lookups if each.ended_at is not None)
    hints = Counter(
        hint.leader_id == each.node_id
        for each in asked
        if isinstance(each.request, ProduceRequest) and each.response
        for topic in each.response.responses
        for hint in [partition.current_leader for partition in topic.partition_responses]
        if hint.leader_id >= 0
    )
    assert hints[False] > 10
    errors = {
        partition.error_code
        for each in asked
        if isinstance(each.request, FetchRequest) and each.response
        for topic in each.response.responses
        for partition in topic.partitions
    }
    assert errors >= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


@pytest.mark.slow
def test_every_broker_is_asked_once_more_after_the_trouble() -> None:
    run = played(1)
    told = {each.node_id for each in run.asked[-200:] if each.name == "looker-0" and each.response is not None}
    assert told == {1, 2, 3}
