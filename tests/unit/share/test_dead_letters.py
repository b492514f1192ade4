"""Dead letter queues of share groups (KIP-1191): what goes there, what an error or a leader that moves does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from tests.unit.host.helpers import batch, fetch_request, only_fetched, produce_request, topic_id

from odradek.core.internal_topics import partition_for
from odradek.faults.model import Rule
from odradek.faults.one_line import rule
from odradek.metadata.image import ResourceType
from odradek.records.batch import batches
from odradek.records.record import Record, iterate_records
from odradek.share import dead_letters
from odradek.share.dead_letters import DeadLetterQueues
from odradek.share.partition import Change, DeadLetters, SharePartition
from odradek.share.state import ShareKey, coordinator_key
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch_response import PartitionData
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.read_share_group_state_request import PartitionData as PartitionOfState
from odradek.wire.messages.read_share_group_state_request import ReadShareGroupStateRequest, ReadStateData
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.registry import ApiKey

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
ARCHIVING, ARCHIVED = 3, 4
QUEUE = "dlq.t"


class Group:
    """A share group with a member, a topic `t` with five records, and a dead letter queue."""

    def __init__(self, *, brokers: int = 1, queue: bool = True, calls_itself: bool = True, **config: object) -> None:
        self.world = World(
            brokers=brokers,
            topics=[f"t:1:{brokers}"],
            calls_itself=calls_itself,
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        if brokers > 1:
            self.world.move_leader("t", 0, 1)
        self.client = self.world.client()
        if queue:
            self.create(QUEUE)
        self.configure("g", {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": QUEUE})
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        assert ErrorCode.NONE in {self.world.client(node).ask(beat, 1).error_code for node in self.world.nodes}
        self.world.advance(5_000)
        self.epoch = 0
        self.world.client().ask(produce_request(batch(*[b"v%d" % n for n in range(5)])), 9)

    def create(self, name: str, **configs: str) -> None:
        wanted = {"errors.deadletterqueue.group.enable": "true"} | configs
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()],
        )
        answer = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert ErrorCode.NONE == answer.topics[0].error_code
        self.world.run()

    def configure(self, group: str, configs: Mapping[str, str]) -> None:
        wanted = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs.items()]
        resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=group, configs=wanted)
        response = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert ErrorCode.NONE == response.responses[0].error_code, response.responses[0].error_message
        self.world.run()

    def fetch(self) -> list[tuple[int, int, int]]:
        request = ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=self.epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_records=100,
            batch_size=100,
            topics=[FetchTopic(topic_id=topic_id(self.world), partitions=[FetchPartition(partition_index=0)])],
        )
        self.epoch += 1
        answer = self.client.send(request, 1)
        self.world.advance(100)
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for topic in answer.response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]

    def acknowledge(self, *said: tuple[int, int, int], waits: bool = True) -> int:
        accepted = [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[c]) for a, b, c in said]
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=accepted)
        topic = AcknowledgeTopic(topic_id=topic_id(self.world), partitions=[partition])
        request = ShareAcknowledgeRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=self.epoch,
            is_renew_ack=any(each[2] == RENEW for each in said),
            topics=[topic],
        )
        self.epoch += 1
        answer = self.client.send(request, 2)
        if not waits:
            return ErrorCode.NONE
        self.world.advance(100)
        return int(answer.response.responses[0].partitions[0].error_code)

    def lost(self) -> list[str]:
        """The reasons for which records are lost to the queue."""
        return [str(fact.fields["reason"]) for _, fact in self.world.facts if fact.kind == "dead_letters_lost"]

    def states(self) -> list[tuple[int, int, int]]:
        """The records that the share coordinator has, with their delivery state."""
        asked = ReadStateData(
            topic_id=topic_id(self.world), partitions=[PartitionOfState(leader_epoch=self.epoch_of_leader())]
        )
        request = ReadShareGroupStateRequest(group_id="g", topics=[asked])
        coordinator = self.world.leader_known_to(1, "__share_group_state", self.coordinator_index())
        [state] = self.world.client(coordinator).ask(request, 0).results[0].partitions
        return [(each.first_offset, each.last_offset, each.delivery_state) for each in state.state_batches]

    def epoch_of_leader(self) -> int:
        return self.world.nodes[1].metadata.image.topics["t"].partitions[0].leader_epoch

    def coordinator_index(self) -> int:
        topic = self.world.nodes[1].metadata.image.topics["__share_group_state"]
        return partition_for(coordinator_key(ShareKey("g", topic_id(self.world), 0)), len(topic.partitions))

    def letters(self) -> list[int]:
        """The source offsets of the records in the queue."""
        leader = self.world.leader_known_to(1, QUEUE, 0)
        got = only_fetched(self.world.client(leader).ask(fetch_request((0, 0), topic=QUEUE), 11))
        return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in self._records(got)]

    @staticmethod
    def _records(got: PartitionData) -> list[Record]:
        return [record for each in batches(memoryview(got.records or b"")) for record in iterate_records(each)]


@pytest.mark.parametrize("calls_itself", [True, False])
def test_rejected_records_are_in_the_queue_before_they_are_archived(calls_itself: bool) -> None:
    group = Group(calls_itself=calls_itself)
    assert [(0, 4, 1)] == group.fetch()
    held = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    assert ErrorCode.NONE == group.acknowledge((0, 4, REJECT))
    assert [(0, 4, ARCHIVING)] == group.states()
    assert [] == group.fetch()
    group.world.disarm(held)
    group.world.run()
    assert [0, 1, 2, 3, 4] == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()
    assert [] == group.lost()


def test_records_that_come_meanwhile_go_together() -> None:
    group = Group()
    group.fetch()
    seen = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    for offset in range(5):
        group.acknowledge((offset, offset, REJECT))
    assert 1 == seen.hits
    group.world.disarm(seen)
    group.world.run()
    assert [0, 1, 2, 3, 4] == group.letters()
    numbers = group.world.nodes[1].metrics.snapshot()
    assert (5, 2, 0) == (
        numbers["dead_letters_total"],
        numbers["dead_letter_produces_total"],
        numbers["dead_letter_produces_failed_total"],
    )


def test_an_error_that_passes_is_tried_again_behind_a_wait() -> None:
    group = Group()
    group.fetch()
    group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, error="NOT_LEADER_OR_FOLLOWER", times=2))
    group.acknowledge((0, 4, REJECT))
    group.world.advance(500)
    assert [] == group.letters()
    group.world.advance(4000)
    assert [0, 1, 2, 3, 4] == group.letters()
    assert [] == group.lost()


def test_a_letter_whose_answer_is_lost_is_written_again() -> None:
    """Its batch has no producer id, so that the log of the queue takes it twice."""
    group = Group(calls_itself=False)
    group.fetch()
    group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, disconnect="after"))
    group.acknowledge((0, 4, REJECT))
    group.world.advance(4000)
    assert [0, 1, 2, 3, 4] * 2 == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()
    assert [] == group.lost()


@pytest.mark.parametrize(
    ("back_ms", "lost"), [(3_000, []), (None, ["The records could not be written in 5 attempts."])]
)
def test_a_queue_whose_leader_is_away(back_ms: int | None, lost: list[str]) -> None:
    group = Group(brokers=2)
    group.world.move_leader(QUEUE, 0, 2)
    group.fetch()
    group.world.stop_broker(2)
    group.acknowledge((0, 4, REJECT))
    group.world.advance(back_ms or 60_000)
    group.world.start_broker(2)
    group.world.advance(10_000)
    assert lost == group.lost()
    assert ([] if lost else [0, 1, 2, 3, 4]) == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        ("", "The group has no dead letter queue any more."),
        ("other", "Topic other does not exist, and is not to be created."),
    ],
)
def test_the_name_of_the_queue_is_looked_at_before_each_attempt(meanwhile: str, reason: str) -> None:
    group = Group()
    group.fetch()
    group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, error="NOT_LEADER_OR_FOLLOWER"))
    group.acknowledge((0, 4, REJECT))
    group.configure("g", {"errors.deadletterqueue.topic.name": meanwhile})
    group.world.advance(4000)
    assert [reason] == group.lost()
    assert [] == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()


@pytest.mark.parametrize(
    ("error", "times", "reason"),
    [
        ("INVALID_RECORD", 1, f"Topic {QUEUE} refused the records: INVALID_RECORD."),
        ("NOT_LEADER_OR_FOLLOWER", 5, "The records could not be written in 5 attempts."),
    ],
)
def test_what_cannot_be_written_is_archived_all_the_same(error: str, times: int, reason: str) -> None:
    group = Group()
    group.fetch()
    group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, error=error, times=times))
    group.acknowledge((0, 4, REJECT))
    group.world.advance(60_000)
    assert [reason] == group.lost()
    assert [("warning", "dead_letters_lost")] == [each[:2] for each in group.world.log.lines if each[0] == "warning"]
    assert [] == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()


def test_a_refused_first_write_gives_nothing_up() -> None:
    group = Group()
    group.fetch()
    group.world.arm(rule(ApiKey.WRITE_SHARE_GROUP_STATE, error="UNKNOWN_SERVER_ERROR", times=1))
    assert ErrorCode.UNKNOWN_SERVER_ERROR == group.acknowledge((0, 4, REJECT))
    group.world.advance(1000)
    assert [] == group.letters()
    assert ErrorCode.NONE == group.acknowledge((0, 4, ACCEPT))


def test_a_refused_second_write_does_not_bring_records_back() -> None:
    group = Group()
    group.fetch()
    held = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    group.acknowledge((0, 4, REJECT))
    group.world.arm(rule(ApiKey.WRITE_SHARE_GROUP_STATE, error="UNKNOWN_SERVER_ERROR", times=1))
    group.world.disarm(held)
    group.world.run()
    assert [(0, 4, ARCHIVING)] == group.states()
    group.world.client().ask(produce_request(batch(b"next")), 9)
    assert [(5, 5, 1)] == group.fetch()
    group.acknowledge((5, 5, ACCEPT))
    assert [0, 1, 2, 3, 4] == group.letters()


def test_a_leader_that_takes_over_between_both_writes_writes_again() -> None:
    group = Group(brokers=2)
    group.fetch()
    held = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    group.acknowledge((0, 4, REJECT))
    group.world.move_leader("t", 0, 2)
    group.world.disarm(held)
    group.world.run()
    assert [0, 1, 2, 3, 4] == group.letters()
    group.client, group.epoch = group.world.client(2), 0
    assert [] == group.fetch()
    assert [0, 1, 2, 3, 4] * 2 == group.letters()
    assert [(0, 4, ARCHIVED)] == group.states()


def test_the_topic_is_created_once_for_records_that_come_together() -> None:
    group = Group(queue=False, errors_deadletterqueue_auto_create_topics_enable="true")
    group.fetch()
    created = group.world.arm(rule(ApiKey.CREATE_TOPICS, delay_ms=10))
    group.acknowledge((0, 0, REJECT), (1, 1, REJECT), (2, 4, ACCEPT))
    group.world.advance(5000)
    assert [0, 1] == sorted(group.letters())
    assert created.hits >= 1
    assert [] == group.lost()


@pytest.mark.parametrize(
    "hindering",
    [
        rule(ApiKey.CREATE_TOPICS, times=2, error="THROTTLING_QUOTA_EXCEEDED"),
        rule(ApiKey.CREATE_TOPICS, times=2, disconnect="before"),
    ],
    ids=["a quota", "no answer"],
)
def test_a_creation_that_fails_for_now_is_tried_again(hindering: Rule) -> None:
    group = Group(queue=False, calls_itself=False, errors_deadletterqueue_auto_create_topics_enable="true")
    group.fetch()
    hindered = group.world.arm(hindering)
    group.acknowledge((0, 4, REJECT))
    group.world.advance(500)
    assert (1, []) == (hindered.hits, group.lost())
    group.world.advance(10_000)
    assert 2 == hindered.hits
    assert [0, 1, 2, 3, 4] == group.letters()
    assert [] == group.lost()


def test_a_topic_that_the_controller_refuses_to_create() -> None:
    group = Group(queue=False, errors_deadletterqueue_auto_create_topics_enable="true")
    group.fetch()
    group.world.arm(rule(ApiKey.CREATE_TOPICS, error="POLICY_VIOLATION"))
    group.acknowledge((0, 4, REJECT))
    group.world.advance(1000)
    assert [f"Topic {QUEUE} could not be created: POLICY_VIOLATION."] == group.lost()
    assert [(0, 4, ARCHIVED)] == group.states()


def test_before_share_version_2_there_is_no_queue() -> None:
    group = Group(odradek_share_version="1")
    group.fetch()
    group.acknowledge((0, 4, REJECT))
    group.world.advance(1000)
    assert [] == group.letters()
    assert [] == group.lost()
    assert [(0, 4, ARCHIVED)] == group.states()


def test_a_released_record_goes_there_at_the_limit_alone() -> None:
    group = Group(group_share_delivery_count_limit="2", group_share_min_delivery_count_limit="2")
    assert [(0, 4, 1)] == group.fetch()
    group.acknowledge((0, 4, RELEASE))
    assert [] == group.letters()
    assert [(0, 4, 2)] == group.fetch()
    group.acknowledge((0, 4, RELEASE))
    assert [0, 1, 2, 3, 4] == group.letters()


def test_offsets_without_records_do_not_go_there() -> None:
    group = Group()
    group.fetch()
    group.acknowledge((0, 1, GAP), (2, 4, REJECT))
    group.world.run()
    assert [2, 3, 4] == group.letters()


def test_a_renewed_lock_gives_nothing_up() -> None:
    group = Group(group_share_delivery_count_limit="2", group_share_min_delivery_count_limit="2")
    group.fetch()
    group.acknowledge((0, 4, RELEASE))
    assert [(0, 4, 2)] == group.fetch()
    assert ErrorCode.NONE == group.acknowledge((0, 4, RENEW))
    assert [] == group.letters()
    assert ErrorCode.NONE == group.acknowledge((0, 4, ACCEPT))
    assert [] == group.letters()


MANY = 100


@pytest.mark.parametrize("calls_itself", [True, False])
def test_very_many_dead_letters_leave_room_for_others(calls_itself: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few begin or end between two requests of others, and none is measured again for every one beside it."""
    done: Counter[str] = Counter()

    def counts(kind: type | ModuleType, name: str) -> None:
        itself = getattr(kind, name)

        def counted(*args: Any, **how: Any) -> Any:
            done[name] += 1
            return itself(*args, **how)

        monkeypatch.setattr(kind, name, counted)

    group = Group(calls_itself=calls_itself)
    group.world.client().ask(produce_request(batch(*[b"v"] * (MANY - 5))), 9)
    while group.fetch():
        pass
    counts(dead_letters, "record_size")
    counts(DeadLetterQueues, "write")
    counts(SharePartition, "archive")
    group.acknowledge(*((offset, offset, REJECT) for offset in range(MANY)), waits=False)
    other, most = group.world.client(), Counter[str]()
    while done["archive"] < MANY:
        before = done.copy()
        between = other.send(ApiVersionsRequest(), 0)
        while not between.arrived:
            group.world._deliver()
        most |= done - before
    assert most["write"] < MANY // 2
    assert most["archive"] < MANY // 2
    group.world.advance(1000)
    assert list(range(MANY)) == sorted(group.letters())
    assert done["record_size"] <= 4 * MANY


def test_very_many_that_went_together_end_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group()
    group.world.client().ask(produce_request(batch(*[b"v"] * (MANY - 5))), 9)
    while group.fetch():
        pass
    held = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    group.acknowledge(*((offset, offset, REJECT) for offset in range(MANY)))
    archived: list[int] = []
    itself = SharePartition.archive

    def noted(share: SharePartition, letters: DeadLetters) -> Change | None:
        archived.append(letters.first)
        return itself(share, letters)

    monkeypatch.setattr(SharePartition, "archive", noted)
    group.world.rules.remove(held)
    other, most = group.world.client(), len(archived)
    while len(archived) < MANY:
        before = len(archived)
        between = other.send(ApiVersionsRequest(), 0)
        while not between.arrived:
            group.world._deliver()
        most = max(most, len(archived) - before)
    assert most < MANY // 2
    group.world.advance(1000)
    assert 2 == group.world.nodes[1].metrics.snapshot()["dead_letter_produces_total"]
    assert list(range(MANY)) == group.letters()


def test_records_that_do_not_fit_go_with_the_next_request_in_their_order() -> None:
    group = Group(queue=False)
    group.create(QUEUE, **{"max.message.bytes": "700"})
    group.configure("g", {"errors.deadletterqueue.copy.record.enable": "true"})
    group.world.client().ask(produce_request(batch(b"-", b"x" * 400, b"-", b"-")), 9)
    while group.fetch():
        pass
    held = group.world.arm(rule(ApiKey.PRODUCE, topic=QUEUE, hold=True))
    group.acknowledge(*((offset, offset, REJECT) for offset in (4, 5, 6, 7, 8)))
    group.world.disarm(held)
    group.world.advance(1000)
    assert [4, 5, 6, 7, 8] == group.letters()
    assert [] == group.lost()
