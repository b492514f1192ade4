"""Share groups over sockets: locks that end when a test says so, leaders that move, members whose connection breaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.oracle.client import Client
from tests.oracle.player import wait_until
from tests.oracle.requests import build_request

from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

CONFIG = {
    "group.share.assignment.interval.ms": 0,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 1,
    "odradek.internal.topics.at.start": True,
}
ACCEPT, RELEASE, RENEW = 1, 2, 4
GROUP_RESOURCE = 32


class Member:
    """A member of the group `g` that reads t-0; its session goes on with each request."""

    def __init__(self, cluster: Cluster, member_id: str) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.epoch = 0
        self.clients: dict[int, Client] = {}

    def ask(self, api: ApiKey, version: int, fields: dict[str, Any], *, broker: int = 1) -> Any:
        if broker not in self.clients:
            addresses = self.cluster.bootstrap.split(",")
            host, port = addresses[self.cluster.broker_ids.index(broker)].rsplit(":", 1)
            self.clients[broker] = Client((host, int(port)))
        self.clients[broker].send(api, version, build_request(api, fields))
        return self.clients[broker].receive()

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    @property
    def topic_id(self) -> bytes:
        found = self.ask(ApiKey.METADATA, 12, {"topics": [{"name": "t"}]})
        topic_id: bytes = found.topics[0].topic_id
        return topic_id

    def join(self) -> None:
        coordinator = self.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
        broker = coordinator.coordinators[0].node_id
        fields = {"group_id": "g", "member_id": self.member_id, "member_epoch": 0, "subscribed_topic_names": ["t"]}
        epoch = 0

        def assigned() -> bool:
            nonlocal epoch
            beat = fields if epoch == 0 else {**fields, "member_epoch": epoch, "subscribed_topic_names": None}
            answer = self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat, broker=broker)
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        assert wait_until(assigned, limit_s=30.0), "nothing is assigned"

    def leave(self) -> None:
        coordinator = self.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
        fields = {"group_id": "g", "member_id": self.member_id, "member_epoch": -1}
        self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields, broker=coordinator.coordinators[0].node_id)

    def fetch(self, *, broker: int = 1, wait_ms: int = 0) -> list[tuple[int, int, int]] | ErrorCode:
        partition = {"partition_index": 0, "acknowledgement_batches": []}
        fields = {
            "group_id": "g",
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "batch_size": 100,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
        }
        answer = self.ask(ApiKey.SHARE_FETCH, 2, fields, broker=broker)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        got = [
            (each.first_offset, each.last_offset, each.delivery_count)
            for topic in answer.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]
        failed = [each.error_code for topic in answer.responses for each in topic.partitions if each.error_code]
        return ErrorCode(failed[0]) if failed else got

    def acknowledge(self, first: int, last: int, kind: int, *, broker: int = 1, renews: bool = False) -> ErrorCode:
        said = {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
        partition = {"partition_index": 0, "acknowledgement_batches": [said]}
        fields = {
            "group_id": "g",
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "is_renew_ack": renews,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
        }
        answer = self.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, fields, broker=broker)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def produce(self, count: int) -> None:
        batch = build_batch([Record(timestamp=1, value=b"v")] * count)
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
        answer = self.ask(ApiKey.PRODUCE, 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data})
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def named(settings: dict[str, object]) -> dict[str, object]:
    """Keys with their own names, of keyword arguments."""
    return {key.replace("_", "."): value for key, value in settings.items()}


@contextmanager
def members(*names: str, brokers: int = 1, **config: object) -> Iterator[tuple[Cluster, list[Member]]]:
    """A cluster that t-0 is led by broker 1 of, and members that begin with its first record."""
    with Cluster(brokers=brokers, topics="t", config={**CONFIG, **named(config)}, seed=1) as cluster:
        everybody = [Member(cluster, name) for name in names]
        try:
            config = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
            resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": [config]}
            everybody[0].ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
            cluster.move_leader("t", 0, to=1)
            for member in everybody:
                member.join()
            yield cluster, everybody
        finally:
            for member in everybody:
                member.close()


def test_a_lock_ends_when_its_time_has_come() -> None:
    with members("a", "b") as (cluster, (a, b)):
        a.produce(3)
        cluster.freeze()
        assert [(0, 2, 1)] == a.fetch()
        assert [] == b.fetch()

        cluster.advance(timedelta(seconds=29))
        assert [] == b.fetch()
        cluster.advance(timedelta(seconds=2))

        assert [(0, 2, 2)] == b.fetch()
        assert ErrorCode.INVALID_RECORD_STATE is a.acknowledge(0, 2, ACCEPT)
        assert ErrorCode.NONE is b.acknowledge(0, 2, ACCEPT)


def test_the_next_leader_goes_on_where_the_one_before_ended() -> None:
    with members("a", brokers=2) as (cluster, (a,)):
        a.produce(6)
        assert [(0, 5, 1)] == a.fetch()
        assert ErrorCode.NONE is a.acknowledge(0, 1, ACCEPT)
        assert ErrorCode.NONE is a.acknowledge(2, 2, RELEASE)

        cluster.move_leader("t", 0, to=2)

        assert ErrorCode.NOT_LEADER_OR_FOLLOWER is a.acknowledge(3, 5, ACCEPT)
        a.epoch = 0
        # What was only on its way is free again, and was delivered to nobody as far as the new leader can know.
        assert [(2, 2, 2), (3, 5, 1)] == a.fetch(broker=2)


def test_the_share_coordinator_may_move() -> None:
    with members("a", brokers=2) as (cluster, (a,)):
        a.produce(4)
        a.fetch()
        assert ErrorCode.NONE is a.acknowledge(0, 1, ACCEPT)

        for index in range(3):
            leader = cluster.leader("__share_group_state", index)
            cluster.move_leader("__share_group_state", index, to=3 - leader)

        assert ErrorCode.NONE is a.acknowledge(2, 3, ACCEPT)
        cluster.move_leader("t", 0, to=2)
        a.epoch = 0
        assert [] == a.fetch(broker=2)


def test_with_replicas_that_lag_everything_takes_its_time_and_works() -> None:
    replicated = {
        "default_replication_factor": 2,
        "offsets_topic_replication_factor": 2,
        "share_coordinator_state_topic_replication_factor": 2,
    }
    with members("a", "b", brokers=2, odradek_replica_lag_ms=20, **replicated) as (_, (a, b)):
        a.produce(3)
        assert [(0, 2, 1)] == a.fetch(wait_ms=5000)
        assert ErrorCode.NONE is a.acknowledge(0, 1, ACCEPT)
        assert ErrorCode.NONE is a.acknowledge(2, 2, RELEASE)
        assert [(2, 2, 2)] == b.fetch(wait_ms=5000)
        assert ErrorCode.NONE is b.acknowledge(2, 2, ACCEPT)


def test_records_come_back_when_a_connection_breaks() -> None:
    with members("a", "b") as (_, (a, b)):
        a.produce(2)
        assert [(0, 1, 1)] == a.fetch()

        a.close()

        assert [(0, 1, 2)] == b.fetch(wait_ms=5000)


@pytest.mark.parametrize("release", ["3.9", "4.0"])
def test_older_releases_have_no_share_groups(release: str) -> None:
    with Cluster(as_kafka=release) as cluster:
        member = Member(cluster, "a")
        told = member.ask(ApiKey.API_VERSIONS, 3, {"client_software_name": "x", "client_software_version": "1"})
        assert not {ApiKey.SHARE_FETCH, ApiKey.SHARE_GROUP_HEARTBEAT} & {each.api_key for each in told.api_keys}
        assert "share.version" not in {each.name for each in told.finalized_features}
        member.close()


def test_without_the_feature_members_are_refused() -> None:
    with Cluster(config={"odradek.share.version": 0}) as cluster:
        member = Member(cluster, "a")
        fields = {"group_id": "g", "member_id": "a", "member_epoch": 0, "subscribed_topic_names": ["t"]}
        answer = member.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)
        assert ErrorCode.UNSUPPORTED_VERSION == answer.error_code
        member.close()


def test_locks_are_not_renewed_where_the_group_does_not_allow_it() -> None:
    with members("a") as (_, (a,)):
        a.produce(2)
        a.fetch()
        fields = {"name": "share.renew.acknowledge.enable", "config_operation": 0, "value": "false"}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": [fields]}
        a.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})

        assert ErrorCode.INVALID_RECORD_STATE is a.acknowledge(0, 1, RENEW, renews=True)
        assert ErrorCode.NONE is a.acknowledge(0, 1, ACCEPT, renews=True)


def test_offsets_that_were_deleted_are_read_again_by_who_comes_next() -> None:
    with members("a") as (cluster, (a,)):
        a.produce(3)
        a.fetch()
        assert ErrorCode.NONE is a.acknowledge(0, 2, ACCEPT)
        a.leave()
        a.close()
        b = Member(cluster, "b")
        try:
            deleted = b.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": "g", "topics": [{"topic_name": "t"}]})
            assert ErrorCode.NONE == deleted.responses[0].error_code
            b.join()

            assert [(0, 2, 1)] == b.fetch()
        finally:
            b.close()
