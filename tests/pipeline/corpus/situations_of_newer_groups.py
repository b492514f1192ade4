"""Groups whose members share partitions or run tasks: what their coordinators keep beside the data of clients."""

from __future__ import annotations

import base64
import time
from typing import Any

from tests.oracle.client import Client
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requests import build_request
from tests.pipeline.corpus.kafkas import create, plain, started, stopped
from tests.pipeline.corpus.situations_of_groups import asked
from tests.pipeline.record_logs import java_transactions

from odradek.wire.registry import ApiKey

__all__ = ["OF_NEWER_GROUPS"]

_OF_GROUP = 32
"""The type of a group's configs."""


def coordinated(kafka: RealKafka, group: str) -> None:
    """Wait until the group has a coordinator."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = asked(kafka, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
        beat = asked(kafka, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=[group])
        if answer.coordinators[0].error_code == 0 and beat.groups[0].error_code not in (14, 15, 16):
            return
        time.sleep(0.3)


def share_groups() -> list[RealKafka]:
    """A share group (KIP-932) that has read all there is, with what its coordinator keeps of it."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    java_transactions(kafka, "shop", 4, leave_open=False)
    plain(kafka, "plain", 20)
    configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    resources = [{"resource_type": _OF_GROUP, "resource_name": "sharers", "configs": configs}]
    answer = asked(kafka, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    assert 0 == answer.responses[0].error_code, answer
    coordinated(kafka, "sharers")
    client = Client(("127.0.0.1", kafka.port))
    try:
        member = Sharer(client)
        member.join("plain", "orders")
        member.read(20)
        member.leave()
    finally:
        client.close()
    return stopped(kafka)


class Sharer:
    """A member of a share group, as far as a recording needs one: it accepts all it gets."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.member = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
        self.epoch = 0
        self.places: list[tuple[bytes, int]] = []

    def ask(self, api: ApiKey, **fields: Any) -> Any:
        of = {"group_id": "sharers", "member_id": self.member, **fields}
        self.client.send(api, 1, build_request(api, of))
        return self.client.receive()

    def join(self, *topics: str) -> None:
        """Heartbeats until there are partitions."""
        deadline = time.monotonic() + 60
        while not self.places and time.monotonic() < deadline:
            answer = self.ask(
                ApiKey.SHARE_GROUP_HEARTBEAT, member_epoch=self.epoch, subscribed_topic_names=list(topics)
            )
            assert 0 == answer.error_code, answer
            self.epoch = answer.member_epoch
            given = answer.assignment.topic_partitions if answer.assignment else []
            self.places = [(one.topic_id, number) for one in given for number in one.partitions]
            time.sleep(0.3)

    def read(self, count: int) -> None:
        """Until so many records were accepted."""
        accepted, turn = 0, 0
        due: dict[tuple[bytes, int], list[dict[str, Any]]] = {}
        deadline = time.monotonic() + 60
        while (accepted < count or due) and time.monotonic() < deadline:
            topics = [
                {
                    "topic_id": topic,
                    "partitions": [
                        {"partition_index": number, "acknowledgement_batches": due.get((topic, number), [])}
                    ],
                }
                for topic, number in self.places
            ]
            limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 100, "batch_size": 100}
            answer = self.ask(ApiKey.SHARE_FETCH, share_session_epoch=turn, topics=topics, **limits)
            assert 0 == answer.error_code, answer
            turn, due = turn + 1, {}
            for topic in answer.responses:
                for one in topic.partitions:
                    got = [(batch.first_offset, batch.last_offset) for batch in one.acquired_records]
                    accepted += sum(last - first + 1 for first, last in got)
                    if got:
                        due[topic.topic_id, one.partition_index] = [
                            {"first_offset": first, "last_offset": last, "acknowledge_types": [1]}
                            for first, last in got
                        ]
        assert accepted >= count, accepted

    def leave(self) -> None:
        assert 0 == self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, member_epoch=-1).error_code


def streams_groups() -> list[RealKafka]:
    """A streams group (KIP-1071) of two members, one of which leaves; the coordinator has made its topics."""
    kafka = started(2)
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 4, leave_open=False)
    subtopology = {
        "subtopology_id": "0",
        "source_topics": ["orders"],
        "state_changelog_topics": [{"name": "store-changelog", "partitions": 0, "replication_factor": 1}],
    }
    coordinated(kafka, "streamers")
    topology = {"epoch": 0, "subtopologies": [subtopology]}
    epochs: dict[str, int] = {}
    for turn in range(8):
        for member in ("one", "two"):
            nothing: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            joining = {"topology": topology, "process_id": member, "rebalance_timeout_ms": 9000, **nothing}
            answer = asked(
                kafka,
                ApiKey.STREAMS_GROUP_HEARTBEAT,
                0,
                group_id="streamers",
                member_id=member,
                member_epoch=epochs.get(member, 0),
                **(joining if member not in epochs else nothing),
            )
            assert 0 == answer.error_code, answer
            epochs[member] = answer.member_epoch
        time.sleep(0.5 + turn / 10)
    left = asked(kafka, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, group_id="streamers", member_id="two", member_epoch=-1)
    assert 0 == left.error_code, left
    plain(kafka, "streamers-store-changelog", 5)
    return stopped(kafka)


OF_NEWER_GROUPS = (share_groups, streams_groups)
