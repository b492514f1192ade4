"""The states that a cluster is put into before it is given to the other system, and how each goes on there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

__all__ = ["TIMEOUT_S", "Clients"]

TIMEOUT_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = {
    "orders": {},
    "ledger": {"cleanup.policy": "compact", "segment.bytes": "1048576"},
    "packed": {"compression.type": "producer"},
    "short": {"retention.bytes": "100000", "segment.bytes": "1048576"},
    "gone": {},
}


class Clients:
    """Real clients that live through all changes of systems, and what they have reason to expect."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.round = 0
        self.committed: list[str] = []
        """Values of `orders` that a reader of committed records has to see, in no order."""
        self.offset = 0
        """What the group `readers` has committed."""
        self.open: Producer | None = None
        """A producer within a transaction."""
        self.open_offset = 0

    def producer(self, **settings: object) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0, **settings})

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
        for made in admin.create_topics(
            [NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]
        ).values():
            made.result(TIMEOUT_S)
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
        self.set_config("orders", "max.message.bytes", "1000001")

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for altered in self.admin.incremental_alter_configs([resource]).values():
            altered.result(TIMEOUT_S)

    # ------------------------------------------------------------------ in each system

    def work(self) -> None:
        """Put the cluster into its states, or go on from those that the other system was given."""
        self.end_what_is_open()
        self.round += 1
        self.write_plain()
        self.write_packed()
        self.write_keys()
        self.complete_transactions()
        self.commit_offsets()
        self.join_a_new_group()
        self.delete_a_topic()
        self.leave_open()
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
                "ledger", f"{self.round}-{number}", key=f"k{number % 5}", partition=0, on_delivery=_delivered
            )
        producer.produce("ledger", None, key="k0", partition=0, on_delivery=_delivered)
        producer.flush(TIMEOUT_S)

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
            _until(lambda: consumer.poll(0.2) is not None)
            consumer.commit(asynchronous=False)

    def delete_a_topic(self) -> None:
        name = f"gone-{self.round}"
        for made in self.admin.create_topics([NewTopic(name, 1, 1)]).values():
            made.result(TIMEOUT_S)
        producer = self.producer()
        producer.produce(name, b"v", on_delivery=_delivered)
        producer.flush(TIMEOUT_S)
        for gone in self.admin.delete_topics([name]).values():
            gone.result(TIMEOUT_S)

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
        producer, self.open = self.open, None
        self.add(producer, f"goes-on-{self.round}")
        producer.flush(TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        _until(lambda: self.open_offset == self.committed_by("pending"))

    def committed_by(self, group: str) -> int:
        with self.consumer(group) as consumer:
            [found] = consumer.committed([TopicPartition("packed", 0)], TIMEOUT_S)
            offset: int = found.offset
            return offset

    def check_what_is_committed(self) -> None:
        """A reader of committed records sees all that was committed up to the open transaction, and nothing aborted."""
        expected = sorted(value for value in self.committed if value != f"open-{self.round}")
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


def _delivered(error: KafkaError | None, message: object) -> None:
    if error is not None:
        raise KafkaException(error)


def _until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < ends, "it has not come to hold"
        time.sleep(0.02)
