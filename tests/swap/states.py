"""The states that a cluster is put into before it is given to the other system, and how each goes on there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.swap.look import Brokers, is_compacted
from tests.swap.members import KINDS, Member, SharedRecords, set_configs, wait_for

from odradek.net.client import BlockingClient
from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

__all__ = ["OLDER", "OLDER_END", "STATES", "TIMEOUT_S", "UPGRADE", "WORN", "Clients", "State", "set_features"]

TIMEOUT_S = 120
OLD_MS = 1_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OLDER = "older"
"""A topic with messages of magic 0 and 1, in files that were written for it (`plant_older`)."""
OLDER_END = 24
LONGEST = ("long.name_of-a." * 20)[:249]
TOPICS: Mapping[str, Mapping[str, str]] = {
    "orders": {},
    "ledger": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
    "packed": {"compression.type": "producer"},
    "shared": {},
    "empty": {},
    "emptied": {"retention.ms": "86400000"},
    "cut": {},
    OLDER: {},
    LONGEST: {},
}
WORN = "worn"
"""A transactional id whose producer id has come to its last epoch, in files that were written for it (`wear_out`)."""
LARGE = "v" * 60_000
UPGRADE, UNSAFE_DOWNGRADE = 1, 3
LASTING = {"log_level": 0, "reconnect.backoff.max.ms": 1000, "socket.max.fails": 0}
"""What clients are configured with that live through a change of systems.

A producer of librdkafka 2.16 that looks for the coordinator of its transaction asks each half second, and once a second
lets a request that has just been queued time out unsent ("Timed out in queue"). By its default it disconnects then, and
when it asks next the second is over again: for minutes no commit arrives, at Odradek as at Kafka.
"""
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
FEATURES = {"consumer": "group.version", "share": "share.version", "streams": "streams.version"}
"""What a kind of group needs."""
CONFIGS = (
    (TOPIC, "orders", "max.message.bytes", "1000001"),
    (BROKER, "", "message.max.bytes", "1048590"),
    (CLIENT_METRICS, "watched", "interval.ms", "300000"),
    (GROUP, "kept-share", "share.auto.offset.reset", "earliest"),
    (GROUP, "kept-consumer", "consumer.heartbeat.interval.ms", "6000"),
)
"""A config of each kind of resource."""


class Clients:
    """Real clients that live through all changes of systems, and what they have reason to expect."""

    def __init__(self, bootstrap: str, *, replicas: int = 1, features: Mapping[str, int] | None = None) -> None:
        """`features` are those that have other levels than in a new cluster."""
        self.bootstrap = bootstrap
        self.replicas = replicas
        self.features = features or {}
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **LASTING})
        self.round = 0
        self.committed: list[str] = []
        """Values of `orders` that a reader of committed records has to see, in no order."""
        self.offset = 0
        """What the group `readers` has committed."""
        self.open: Producer | None = None
        """A producer within a transaction."""
        self.open_offset = 0
        self.worn: Producer | None = None
        """A producer within a transaction, in the last epoch of its producer id."""
        self.members = [Member(kind, bootstrap) for kind in KINDS if self.has(FEATURES.get(kind, ""))]
        self.shared = SharedRecords(Member("share", bootstrap))

    def has(self, feature: str) -> bool:
        """Whether a feature is not at level 0; no feature is always there."""
        return self.features.get(feature, 1) > 0

    def states(self) -> list[State]:
        """Those that the cluster can come into."""
        return [state for state in STATES if self.has(state.needs)]

    def producer(self, **settings: object) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, **LASTING, **settings})

    def transactional(self, name: str) -> Producer:
        producer = self.producer(**{"transactional.id": name, "transaction.timeout.ms": 3_000_000})
        producer.init_transactions(TIMEOUT_S)
        return producer

    @contextmanager
    def consumer(self, group: str, **settings: object) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **settings,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # ------------------------------------------------------------------ once

    def prepare(self) -> None:
        """Topics, settings, permissions, users."""
        admin = self.admin
        if self.features:
            self.set_features()
        self.make_topics(dict.fromkeys(TOPICS, 2))
        acl = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for added in admin.create_acls([acl]).values():
            added.result(TIMEOUT_S)
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        upsertion = UserScramCredentialUpsertion("alice", credential, b"secret", b"salt" * 8)
        for altered in admin.alter_user_scram_credentials([upsertion]).values():
            altered.result(TIMEOUT_S)
        set_configs(self.bootstrap, *CONFIGS)
        quota = EntryData(entity=[EntityData("user", "alice")], ops=[OpData("producer_byte_rate", 1_000_000.0)])
        with BlockingClient(self.bootstrap, client_id="admin") as client:
            [set_quota] = client.ask(AlterClientQuotasRequest(entries=[quota]), 1).entries
        assert 0 == set_quota.error_code

    def make_topics(self, partitions: Mapping[str, int]) -> None:
        """Make topics; those of `TOPICS` with their configs."""
        new = [
            NewTopic(name, count, self.replicas, config=dict(TOPICS.get(name, {})))
            for name, count in partitions.items()
        ]
        for made in self.admin.create_topics(new).values():
            made.result(TIMEOUT_S)

    def set_features(self) -> None:
        set_features(
            self.bootstrap,
            *(
                FeatureUpdateKey(name, level, upgrade_type=UPGRADE if level else UNSAFE_DOWNGRADE)
                for name, level in self.features.items()
            ),
        )

    # ------------------------------------------------------------------ in each system

    def work(self) -> None:
        """Put the cluster into its states, or go on from those that the other system was given."""
        self.end_what_is_open()
        self.round += 1
        for state in self.states():
            if state.put is not None:
                state.put(self)
        self.check_what_is_committed()

    def write_plain(self) -> None:
        producer = self.producer(**{"enable.idempotence": True})
        for number in range(20):
            self.add(producer, f"plain-{self.round}-{number}")
        producer.flush(TIMEOUT_S)

    def add(self, producer: Producer, value: str, *, stays: bool = True) -> None:
        producer.produce("orders", value, partition=0, on_delivery=_delivered)
        if stays:
            self.committed.append(value)

    def write_packed(self) -> None:
        for codec in CODECS:
            producer = self.producer(**{"compression.type": codec, "linger.ms": 50})
            for number in range(30):
                producer.produce("packed", f"{codec}-{self.round}-{number}" * 5, partition=1, on_delivery=_delivered)
            producer.flush(TIMEOUT_S)

    def write_keys(self) -> None:
        producer = self.producer()
        for number in range(30):
            producer.produce(
                "ledger", f"{self.round}-{number}{LARGE}", key=f"k{number % 5}", partition=0, on_delivery=_delivered
            )
        producer.produce("ledger", None, key="k0", partition=0, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        wait_for(self.is_compacted, "a log is compacted")

    def is_compacted(self) -> bool:
        """Whether the first of this round's records have gone."""
        with self.consumer("gaps", **{"enable.partition.eof": True}) as consumer:
            _, end = consumer.get_watermark_offsets(TopicPartition("ledger", 0), TIMEOUT_S)
            first = end - 31
            consumer.assign([TopicPartition("ledger", 0, first)])
            [message] = consumer.consume(1, TIMEOUT_S)
        return bool(message.error() is None and (message.offset() or 0) > first)

    def share_records(self) -> None:
        """A share group accepts all records but the last one, which it releases."""
        producer = self.producer()
        for number in range(5):
            producer.produce("shared", f"{self.round}-{number}", partition=0, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        self.shared.take(5 * self.round)

    def keep_members(self) -> None:
        """Members of each kind join once, and go on in each system."""
        for member in self.members:
            if member.epoch:
                member.beat()
            else:
                member.join()

    def use_the_last_epoch(self) -> None:
        """The next transaction in each system is the last one of its producer id; then comes another producer id."""
        self.worn = self.transactional(WORN)
        self.worn.begin_transaction()
        self.add(self.worn, f"worn-{self.round}")
        self.worn.flush(TIMEOUT_S)

    def complete_transactions(self) -> None:
        producer = self.transactional("complete")
        for number, commits in enumerate((True, False, True)):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("packed", f"txn-{self.round}-{number}", partition=partition, on_delivery=_delivered)
            self.add(producer, f"txn-{self.round}-{number}", stays=commits)
            with self.consumer("copiers") as consumer:
                metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(
                [TopicPartition("packed", 0, self.round * 10 + number)], metadata, TIMEOUT_S
            )
            producer.flush(TIMEOUT_S)
            if commits:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)

    def commit_offsets(self) -> None:
        with self.consumer("readers") as consumer:
            [found] = consumer.committed([TopicPartition("orders", 0)], TIMEOUT_S)
            assert found.offset == (self.offset or -1001), (found.offset, self.offset)
            self.offset = self.round * 7
            consumer.commit(offsets=[TopicPartition("orders", 0, self.offset)], asynchronous=False)

    def join_a_new_group(self) -> None:
        """A member of the consumer protocol (KIP-848) reads, commits and leaves."""
        with self.consumer("modern", **{"group.protocol": "consumer"}) as consumer:
            consumer.subscribe(["ledger"])
            _until(lambda: (message := consumer.poll(0.2)) is not None and message.error() is None)
            consumer.commit(asynchronous=False)

    def delete_a_topic(self) -> None:
        """One of a short name, and one of the longest: its folder gets a longer name on its way out."""
        names = [f"gone-{self.round}", f"gone-{self.round}{LONGEST}"[: len(LONGEST)]]
        self.make_topics(dict.fromkeys(names, 1))
        producer = self.producer()
        for name in names:
            producer.produce(name, b"v", on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        for gone in self.admin.delete_topics(names).values():
            gone.result(TIMEOUT_S)

    def write_to_the_longest_name(self) -> None:
        producer = self.transactional("longest")
        producer.begin_transaction()
        producer.produce(LONGEST, f"{self.round}", partition=0, on_delivery=_delivered)
        producer.commit_transaction(TIMEOUT_S)

    def empty_a_log(self) -> None:
        """All records are older than `retention.ms`, so that they go with their segments, the last one among them."""
        producer = self.producer()
        for number in range(5):
            producer.produce("emptied", f"{self.round}-{number}", partition=0, timestamp=OLD_MS, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        wait_for(lambda: 0 == sum(self.sizes("emptied")), "a log has no bytes")

    def cut_a_log(self) -> None:
        """DeleteRecords lets a log begin within a batch."""
        producer = self.producer(**{"linger.ms": 1000})
        for number in range(5):
            producer.produce("cut", f"{self.round}-{number}", partition=0, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        wait_for(lambda: self.delete_until("cut", 5 * self.round - 2), "records are deleted")

    def follow_older(self) -> None:
        """Batches follow messages of magic 0 and 1, in the same segment; DeleteRecords lets it begin within one."""
        producer = self.producer()
        producer.produce(OLDER, f"{self.round}", partition=0, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        wait_for(lambda: self.delete_until(OLDER, min(self.round, 8)), "records are deleted")

    def delete_until(self, topic: str, offset: int) -> bool:
        """False if there was no leader yet where the client has asked. It asks there again and again, so it is new."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        [gone] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
        try:
            gone.result(TIMEOUT_S)
        except KafkaException as error:
            if KafkaError.NOT_LEADER_FOR_PARTITION != error.args[0].code():
                raise
            return False
        return True

    def sizes(self, topic: str) -> Iterator[int]:
        """The sizes of the replicas of a topic's partitions."""
        with Brokers(self.bootstrap) as brokers:
            for client in brokers.all:
                asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0, 1])])
                for found in client.ask(asked, 4).results:
                    assert 0 == found.error_code, found
                    yield from (part.partition_size for each in found.topics for part in each.partitions)

    def leave_open(self) -> None:
        """A transaction that is ongoing, with records and offsets in it."""
        self.open = self.transactional("open")
        self.open.begin_transaction()
        self.add(self.open, f"open-{self.round}")
        self.open.flush(TIMEOUT_S)
        with self.consumer("pending") as consumer:
            metadata = consumer.consumer_group_metadata()
        self.open_offset = self.round * 11
        self.open.send_offsets_to_transaction([TopicPartition("packed", 0, self.open_offset)], metadata, TIMEOUT_S)

    def end_what_is_open(self) -> None:
        """The producer that began it in the other system goes on, and commits here."""
        if self.open is None:
            return
        if self.worn is not None:
            self.worn.commit_transaction(TIMEOUT_S)
        producer, self.open = self.open, None
        self.add(producer, f"goes-on-{self.round}")
        assert 0 == producer.flush(TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        _until(lambda: self.open_offset == self.committed_by("pending"))

    def committed_by(self, group: str) -> int:
        with self.consumer(group) as consumer:
            [found] = consumer.committed([TopicPartition("packed", 0)], TIMEOUT_S)
            offset: int = found.offset
            return offset

    def check_what_is_committed(self) -> None:
        """A reader of committed records sees all that was committed up to the open transaction, and nothing aborted."""
        expected = sorted(
            value for value in self.committed if value not in (f"open-{self.round}", f"worn-{self.round}")
        )
        found: list[str] = []
        with self.consumer(f"check-{self.round}", **{"isolation.level": "read_committed"}) as consumer:
            consumer.assign([TopicPartition("orders", 0, 0)])
            ends = time.monotonic() + TIMEOUT_S
            while len(found) < len(expected) and time.monotonic() < ends:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append((message.value() or b"").decode())
            last = consumer.poll(0.3)
        assert expected == sorted(found)
        assert last is None or last.error() is not None, last.value()


def set_features(bootstrap: str, *updates: FeatureUpdateKey) -> None:
    """Ask until it is done: a Kafka raises kraft.version when it has heard from each voter that it can."""
    request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_S * 1000, feature_updates=[*updates])
    with BlockingClient(bootstrap, client_id="admin", timeout_s=TIMEOUT_S) as client:
        wait_for(lambda: 0 == client.ask(request, 2).error_code, f"{updates} are set")


def _delivered(error: KafkaError | None, message: object) -> None:
    if error is not None:
        raise KafkaException(error)


def _until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < ends, "it has not come to hold"
        time.sleep(0.02)


Seen = Any
"""What `look` has found."""


class State(NamedTuple):
    """A state of a cluster that has to survive a change of systems."""

    name: str
    put: Callable[[Clients], None] | None
    """Put the cluster into it, in each system anew; None if `Clients.prepare` or another row does."""
    is_there: Callable[[Seen], bool]
    """Whether the cluster is in it."""
    needs: str = ""
    """A feature; at level 0 the cluster cannot come into this state."""


def _members_of(kind: str) -> Callable[[Seen], bool]:
    return lambda seen: (
        [f"{kind}-member"]
        == [name if kind != "classic" else "classic-member" for name, *_ in seen["members"][f"kept-{kind}"][2]]
    )


def _codecs(seen: Seen) -> set[int]:
    return {record[-1] & 7 for record in seen["logs"]["packed-1"]["records"]}


STATES = (
    State("plain and idempotent records", Clients.write_plain, lambda seen: seen["logs"]["orders-0"]["end"] >= 20),
    State("record sets of every codec", Clients.write_packed, lambda seen: _codecs(seen) == {0, 1, 2, 3, 4}),
    State(
        "a compacted topic",
        Clients.write_keys,
        lambda seen: is_compacted(seen["configs"], "ledger") and 5 == len(seen["logs"]["ledger-0"]["records"]),
    ),
    State(
        "transactions that are complete, committed and aborted",
        Clients.complete_transactions,
        lambda seen: (
            bool(seen["logs"]["packed-0"]["aborted"]) and seen["transactions"]["complete"][0] == "CompleteCommit"
        ),
    ),
    State(
        "offsets of a group",
        Clients.commit_offsets,
        lambda seen: seen["groups"]["readers"][1][0][:2] == ("orders", 0),
    ),
    State(
        "a group of the consumer protocol whose member has left",
        Clients.join_a_new_group,
        lambda seen: "modern" in seen["groups"],
        FEATURES["consumer"],
    ),
    State(
        "a deleted topic",
        Clients.delete_a_topic,
        lambda seen: not any(name.startswith("gone-") for name in seen["topics"]),
    ),
    State("a member of a classic group", Clients.keep_members, _members_of("classic")),
    State("a member of a consumer group", None, _members_of("consumer"), FEATURES["consumer"]),
    State("a member of a share group", None, _members_of("share"), FEATURES["share"]),
    State("a member of a streams group", None, _members_of("streams"), FEATURES["streams"]),
    State(
        "a share group's state",
        Clients.share_records,
        lambda seen: seen["shares"]["kept-share"][0][2] >= 0,
        FEATURES["share"],
    ),
    State(
        "a share group's state that was written as a whole again and again",
        None,
        lambda seen: max(seen["share_snapshots"].values()) >= 2,
        FEATURES["share"],
    ),
    State(
        "a topic of the longest name",
        Clients.write_to_the_longest_name,
        lambda seen: len(LONGEST) == 249 and seen["logs"][f"{LONGEST}-0"]["end"] > 0,
    ),
    State(
        "a topic without records",
        None,
        lambda seen: (0, 0, []) == tuple(seen["logs"]["empty-1"][key] for key in ("start", "end", "records")),
    ),
    State(
        "a log whose records have all gone with their segments",
        Clients.empty_a_log,
        lambda seen: 0 < seen["logs"]["emptied-0"]["start"] == seen["logs"]["emptied-0"]["end"],
    ),
    State(
        "a log that begins within a batch",
        Clients.cut_a_log,
        lambda seen: 2 == seen["logs"]["cut-0"]["end"] - seen["logs"]["cut-0"]["start"],
    ),
    State(
        "old message sets",
        Clients.follow_older,
        lambda seen: (
            {0, 1, 2} == {record[4] for record in seen["logs"][f"{OLDER}-0"]["records"]}
            and OLDER_END < seen["logs"][f"{OLDER}-0"]["end"]
        ),
    ),
    State(
        "an ongoing transaction",
        Clients.leave_open,
        lambda seen: seen["transactions"]["open"][0] == "Ongoing",
    ),
    State(
        "offsets pending in a transaction",
        None,
        lambda seen: "__consumer_offsets" in [topic for topic, _ in seen["transactions"]["open"][4]],
    ),
    State(
        "a transaction in the last epoch of its producer id",
        Clients.use_the_last_epoch,
        lambda seen: seen["transactions"][WORN][0] == "Ongoing",
    ),
    State("configs of every kind of resource", None, lambda seen: len(seen["configs"]) >= len(CONFIGS)),
    State("a quota", None, lambda seen: seen["quotas"] == [([("user", "alice")], [("producer_byte_rate", 1e6)])]),
    State("an ACL", None, lambda seen: "User:alice" in seen["acls"][0]),
    State("a SCRAM user", None, lambda seen: seen["users"][0][0] == "alice"),
)
"""A transaction that is prepared and whose markers wait, and a metadata transaction that is left open, have tests of
their own: the other system does not keep them, but ends them. Levels of transaction.version are a parameter.
"""
