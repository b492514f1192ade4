"""One scenario of kafka-python."""

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import kafka
from interface import Client, Record, security
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata
from scenarios import run

PATIENCE = 30
# 3.0.12 loses the assignment of a rejoin that ends between two polls (`join_group_async` looks at the finished task
# only while a rejoin is needed). Its metadata refresh 100 ms after subscribing starts one, so polls of 100 ms lose it
# now and then where the broker answers within a few milliseconds.
MEMBER_POLL_SECONDS = 1.0 if kafka.__version__ >= "3" else 0.0
SENDING: dict[bool, dict[str, Any]] = {
    False: {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "batch_size": 65536},
    True: {"enable_idempotence": True, "batch_size": 8192},
}
# 2.x never ends an abort that finds a batch in flight: `abort_undrained_batches` looks for it among those not yet sent.
ABORTS_ONLY_FLUSHED = kafka.__version__ < "3"
TOO_LATE = (kafka_errors.CommitFailedError, kafka_errors.RebalanceInProgressError)


def position(offset: int) -> OffsetAndMetadata:
    """The releases differ in the number of fields: offset, metadata and (2.1) leader epoch."""
    return OffsetAndMetadata(offset, "", *[-1] * (len(OffsetAndMetadata._fields) - 2))


class Reading:
    """A consumer, alone or in a group."""

    def __init__(self, *, records_max: int = 5000, **settings: Any) -> None:
        if "isolation_level" not in KafkaConsumer.DEFAULT_CONFIG:
            settings.pop("isolation_level", None)
        self.consumer = KafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **settings)
        self._records_max = records_max

    def poll(self, seconds: float) -> list[Record]:
        if self.consumer.config["group_id"] is not None:
            seconds = max(seconds, MEMBER_POLL_SECONDS)
        found = self.consumer.poll(timeout_ms=int(seconds * 1000), max_records=self._records_max)
        return [Record(r.partition, r.offset, r.key, r.value) for records in found.values() for r in records]

    def assigned(self) -> set[int]:
        return {at.partition for at in self.consumer.assignment()}

    def commit(self) -> None:
        with contextlib.suppress(TOO_LATE):
            self.consumer.commit()

    def seek(self, partition: int, offset: int) -> None:
        (topic,) = {at.topic for at in self.consumer.assignment()}
        self.consumer.seek(TopicPartition(topic, partition), offset)

    def close(self) -> None:
        self.consumer.close()


def connection(bootstrap: str) -> dict[str, Any]:
    """What every client is told of the broker."""
    told: dict[str, Any] = {"bootstrap_servers": bootstrap}
    secured = security()
    if secured is not None:
        told |= {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": secured.ca,
            "sasl_mechanism": secured.mechanism,
            "sasl_plain_username": secured.username,
            "sasl_plain_password": secured.password,
        }
    return told


class Transactions:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        if "transactional_id" not in KafkaProducer.DEFAULT_CONFIG:
            raise NotImplementedError("transactions")
        self._producer = KafkaProducer(
            **connection(bootstrap),
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._sent: list[Any] = []
        self._producer.init_transactions()

    def begin(self) -> None:
        self._sent.clear()
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        self._sent.append(self._producer.send(topic, value, key, partition=partition))

    def flush(self) -> None:
        self._producer.flush(PATIENCE)
        for future in self._sent:
            future.get(timeout=0)

    def send_offsets(self, topic: str, offsets: dict[int, int], member: Reading) -> None:
        positions = {TopicPartition(topic, partition): position(offset) for partition, offset in offsets.items()}
        whole = getattr(member.consumer, "group_metadata", None)  # 3.0: with member and generation
        self._producer.send_offsets_to_transaction(positions, whole() if whole else member.consumer.config["group_id"])

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        if ABORTS_ONLY_FLUSHED:
            self._producer.flush(PATIENCE)
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(PATIENCE)


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self.version = f"kafka-python {kafka.__version__}"
        self._bootstrap = bootstrap
        self.consumer_protocol = False
        self._admin = KafkaAdminClient(**connection(bootstrap))

    def produce(
        self, topic: str, records: Iterable[tuple[int, bytes, bytes]], *, compression: str, idempotent: bool
    ) -> list[int]:
        settings: dict[str, Any] = {"acks": "all", "linger_ms": 5, **SENDING[idempotent]}
        if compression != "none":
            settings["compression_type"] = compression
        if "enable_idempotence" not in KafkaProducer.DEFAULT_CONFIG:  # before 2.1
            if idempotent:
                raise NotImplementedError("idempotent producer")
            del settings["enable_idempotence"]
        try:
            producer = KafkaProducer(**connection(self._bootstrap), **settings)
        except AssertionError as error:
            if "ibraries for" in str(error):
                raise NotImplementedError(str(error)) from None
            raise
        futures = [producer.send(topic, value, key, partition=partition) for partition, key, value in records]
        producer.flush(2 * PATIENCE)
        offsets = [future.get(timeout=0).offset for future in futures]
        producer.close()
        return offsets

    def reader(self, topic: str, partitions: int, isolation: str) -> Reading:
        reading = Reading(**connection(self._bootstrap), isolation_level=isolation)
        reading.consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        reading.consumer.seek_to_beginning()
        return reading

    def member(self, topic: str, group: str, *, records_max: int = 500) -> Reading:
        reading = Reading(
            records_max=records_max,
            **connection(self._bootstrap),
            group_id=group,
            heartbeat_interval_ms=300,
            session_timeout_ms=6000,
            isolation_level="read_committed",
        )
        reading.consumer.subscribe([topic])
        return reading

    def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Transactions:
        return Transactions(self._bootstrap, transactional_id, timeout_ms)

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs)
        self._admin.create_topics([new])

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, topic: str) -> list[int]:
        (described,) = self._admin.describe_topics([topic])
        return [
            len(partition.get("isr_nodes", partition.get("isr")))
            for partition in described["partitions"]
            if partition.get("leader_id", partition.get("leader")) >= 0
        ]

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})
        if kafka.__version__ >= "3":
            found = self._admin.describe_configs([resource], config_filter="all")
            value: str = found["topic"][topic][name]["value"]
            return value
        (answer,) = self._admin.describe_configs([resource])
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}[name]

    def alter_config(self, topic: str, name: str, value: str) -> None:
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def create_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: NewPartitions(total)})

    def start_offset(self, topic: str, partition: int) -> int:
        return self._offset("beginning_offsets", topic, partition, "read_uncommitted")

    def end_offset(self, topic: str, partition: int, isolation: str = "read_uncommitted") -> int:
        return self._offset("end_offsets", topic, partition, isolation)

    def _offset(self, method: str, topic: str, partition: int, isolation: str) -> int:
        reading = Reading(**connection(self._bootstrap), isolation_level=isolation)
        try:
            offset: int = getattr(reading.consumer, method)([TopicPartition(topic, partition)])[topic, partition]
            return offset
        finally:
            reading.close()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        if not hasattr(self._admin, "delete_records"):
            raise NotImplementedError("delete_records")
        self._admin.delete_records({TopicPartition(topic, partition): before})

    def groups(self) -> set[str]:
        if hasattr(self._admin, "list_groups"):
            return {group["group_id"] for group in self._admin.list_groups()}
        return {name for name, _ in self._admin.list_consumer_groups()}

    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        if hasattr(self._admin, "list_group_offsets"):
            found = self._admin.list_group_offsets([group])[group]
        else:
            found = self._admin.list_consumer_group_offsets(group)
        return {at.partition: where.offset for at, where in found.items() if at.topic == topic and where.offset >= 0}

    def commit_outside(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = KafkaConsumer(**connection(self._bootstrap), group_id=group, enable_auto_commit=False)
        at = TopicPartition(topic, partition)
        consumer.assign([at])
        consumer.commit({at: position(offset)})
        consumer.close()

    def delete_group(self, group: str) -> None:
        delete = getattr(self._admin, "delete_groups", None) or self._admin.delete_consumer_groups
        answers = delete([group])
        if isinstance(answers, dict) and answers != {group: "OK"}:
            raise RuntimeError(f"delete_groups answered {answers}")

    def brokers(self) -> int:
        return len(self._admin.describe_cluster()["brokers"])


def connect(bootstrap: str) -> Client:
    return KafkaPython(bootstrap)


if __name__ == "__main__":
    run(connect)
