"""One scenario of confluent-kafka (librdkafka)."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from interface import Client, Record, check, security
from scenarios import run

PATIENCE = 30.0
SENDING: dict[bool, dict[str, Any]] = {
    False: {"enable.idempotence": False, "max.in.flight": 1},
    True: {"enable.idempotence": True, "batch.size": 8192},
}
# Before 2.0 a batch consumed after a seek throws away what was fetched of other partitions, on any broker.
SEEKS_IN_BATCHES = confluent_kafka.libversion()[1] >= 0x02000000
TOO_LATE = {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID}


class Reading:
    """A consumer, alone or in a group."""

    def __init__(self, settings: dict[str, Any], *, records_max: int = 5000) -> None:
        self.consumer = Consumer({"enable.auto.commit": False, "auto.offset.reset": "earliest", **settings})
        self._records_max = records_max

    def poll(self, seconds: float) -> list[Record]:
        messages = self._batch(seconds) if SEEKS_IN_BATCHES else self._one_by_one(seconds)
        for message in messages:
            check(message.error() is None, f"consume: {message.error()}")
        return [Record(m.partition(), m.offset(), m.key(), m.value()) for m in messages]

    def _batch(self, seconds: float) -> list[Any]:
        messages: list[Any] = self.consumer.consume(self._records_max, seconds)
        return messages

    def _one_by_one(self, seconds: float) -> list[Any]:
        messages: list[Any] = []
        while len(messages) < self._records_max:
            message = self.consumer.poll(0 if messages else seconds)
            if message is None:
                break
            messages.append(message)
        return messages

    def assigned(self) -> set[int]:
        return {at.partition for at in self.consumer.assignment()}

    def commit(self) -> None:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in TOO_LATE:
                raise

    def seek(self, partition: int, offset: int) -> None:
        (topic,) = {at.topic for at in self.consumer.assignment()}
        self.consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self.consumer.close()


class Transactions:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)
        self._failures: list[KafkaError] = []
        self._producer.init_transactions(PATIENCE)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        self._producer.produce(topic, value, key, partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failures.append(error)

    def flush(self) -> None:
        check(self._producer.flush(PATIENCE) == 0, "records are left after a flush")
        check(not self._failures, f"produce: {self._failures}")

    def send_offsets(self, topic: str, offsets: dict[int, int], member: Reading) -> None:
        positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        metadata = member.consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(positions, metadata, PATIENCE)

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE)

    def close(self) -> None:
        self._producer.flush(PATIENCE)


class Confluent:
    def __init__(self, bootstrap: str) -> None:
        self.version = f"confluent-kafka {confluent_kafka.__version__} librdkafka {confluent_kafka.libversion()[0]}"
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
        secured = security()
        if secured is not None:
            self._settings |= {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": secured.ca,
                "sasl.mechanism": secured.mechanism,
                "sasl.username": secured.username,
                "sasl.password": secured.password,
            }
        self.consumer_protocol = False
        self._admin = AdminClient(self._settings)

    def produce(
        self, topic: str, records: Iterable[tuple[int, bytes, bytes]], *, compression: str, idempotent: bool
    ) -> list[int]:
        settings: dict[str, Any] = {"acks": "all", "compression.type": compression, "linger.ms": 5}
        settings |= {"queue.buffering.max.messages": 1_000_000, **SENDING[idempotent]}
        producer = Producer({**self._settings, **settings})
        of_record: dict[tuple[int, bytes], int] = {}
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append(error)
            else:
                of_record[message.partition(), message.key()] = message.offset()

        sent = []
        for n, (partition, key, value) in enumerate(records):
            producer.produce(topic, value, key, partition, on_delivery=delivered)
            sent.append((partition, key))
            if n % 1000 == 0:
                producer.poll(0)
        check(producer.flush(2 * PATIENCE) == 0 and not failures, f"produce: {failures[:3]}")
        return [of_record[at] for at in sent]

    def reader(self, topic: str, partitions: int, isolation: str) -> Reading:
        settings = {"group.id": f"{topic}-unused", "isolation.level": isolation}
        reading = Reading({**self._settings, **settings})
        reading.consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        return reading

    def member(self, topic: str, group: str, *, records_max: int = 500) -> Reading:
        timing: dict[str, Any] = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6000}
        if self.consumer_protocol:
            timing = {"group.protocol": "consumer"}  # the broker says how often a member reports
        isolation = {"isolation.level": "read_committed"}
        reading = Reading({**self._settings, **timing, **isolation, "group.id": group}, records_max=records_max)
        reading.consumer.subscribe([topic])
        return reading

    def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Transactions:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        return Transactions({**self._settings, **settings})

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs)
        self._admin.create_topics([new], operation_timeout=PATIENCE)[topic].result()

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic], operation_timeout=PATIENCE)[topic].result()

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE).topics)

    def partitions(self, topic: str) -> list[int]:
        described = self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions.values()
        return [len(partition.isrs) for partition in described if partition.leader >= 0]

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        value: str = self._admin.describe_configs([resource])[resource].result()[name].value
        return value

    def alter_config(self, topic: str, name: str, value: str) -> None:
        try:
            from confluent_kafka.admin import AlterConfigOpType, ConfigEntry
        except ImportError:
            raise NotImplementedError("incremental_alter_configs") from None
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result()

    def create_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result()

    def _watermarks(self, topic: str, partition: int, isolation: str) -> tuple[int, int]:
        consumer = Consumer({**self._settings, "group.id": f"{topic}-unused", "isolation.level": isolation})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE)
            return low, high
        finally:
            consumer.close()

    def start_offset(self, topic: str, partition: int) -> int:
        return self._watermarks(topic, partition, "read_uncommitted")[0]

    def end_offset(self, topic: str, partition: int, isolation: str = "read_uncommitted") -> int:
        return self._watermarks(topic, partition, isolation)[1]

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        if not hasattr(self._admin, "delete_records"):
            raise NotImplementedError("delete_records")
        at = TopicPartition(topic, partition, before)
        for answer in self._admin.delete_records([at]).values():
            answer.result()

    def groups(self) -> set[str]:
        if not hasattr(self._admin, "list_consumer_groups"):
            return {group.id for group in self._admin.list_groups(timeout=PATIENCE)}
        return {group.group_id for group in self._admin.list_consumer_groups().result().valid}

    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        consumer = Consumer({**self._settings, "group.id": group})
        try:
            asked = [TopicPartition(topic, partition) for partition in range(partitions)]
            return {at.partition: at.offset for at in consumer.committed(asked, timeout=PATIENCE) if at.offset >= 0}
        finally:
            consumer.close()

    def commit_outside(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        finally:
            consumer.close()

    def delete_group(self, group: str) -> None:
        if not hasattr(self._admin, "delete_consumer_groups"):
            raise NotImplementedError("delete_consumer_groups")
        self._admin.delete_consumer_groups([group])[group].result()

    def brokers(self) -> int:
        return len(self._admin.list_topics(timeout=PATIENCE).brokers)


def connect(bootstrap: str) -> Client:
    return Confluent(bootstrap)


if __name__ == "__main__":
    run(connect)
