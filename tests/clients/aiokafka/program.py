"""One scenario of aiokafka, whose event loop runs in a thread of its own."""

import asyncio
import contextlib
import ssl
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient
from interface import Client, Record, check, security
from scenarios import run

try:
    from aiokafka.admin import NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
except ImportError:  # before 0.9
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

PATIENCE = 30
RELEASE = tuple(map(int, aiokafka.__version__.split(".")[:2]))
ASKS_FOR_STABLE_OFFSETS = (0, 13)  # its ListOffsets say the isolation level; before, only fetches do
TOO_LATE = (kafka_errors.CommitFailedError, kafka_errors.RebalanceInProgressError, kafka_errors.IllegalStateError)
T = TypeVar("T")

LOOP = asyncio.new_event_loop()


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs it on the loop's thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result()


def on_loop(function: Callable[..., object], *arguments: object) -> None:
    """Calls a plain function that must run on the loop's thread."""

    async def call() -> None:
        function(*arguments)

    wait(call())


class Reading:
    """A consumer, alone or in a group."""

    def __init__(self, *topics: str, records_max: int = 5000, **settings: Any) -> None:
        self.group = settings.get("group_id")
        self._records_max = records_max
        self.consumer: AIOKafkaConsumer = wait(self._start(topics, settings))

    async def _start(self, topics: tuple[str, ...], settings: dict[str, Any]) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(*topics, enable_auto_commit=False, auto_offset_reset="earliest", **settings)
        await consumer.start()
        return consumer

    def poll(self, seconds: float) -> list[Record]:
        found = wait(self.consumer.getmany(timeout_ms=int(seconds * 1000), max_records=self._records_max))
        return [Record(r.partition, r.offset, r.key, r.value) for records in found.values() for r in records]

    def assigned(self) -> set[int]:
        return {at.partition for at in self.consumer.assignment()}

    def commit(self) -> None:
        with contextlib.suppress(TOO_LATE):
            wait(self.consumer.commit())

    def seek(self, partition: int, offset: int) -> None:
        (topic,) = {at.topic for at in self.consumer.assignment()}
        on_loop(self.consumer.seek, TopicPartition(topic, partition), offset)

    def close(self) -> None:
        # the consumer passes on that its own fetches were cancelled, if their connection was lost just then
        with contextlib.suppress(CancelledError):
            wait(self.consumer.stop())


def connection(bootstrap: str) -> dict[str, Any]:
    """What every client is told of the broker."""
    told: dict[str, Any] = {"bootstrap_servers": bootstrap}
    secured = security()
    if secured is not None:
        told |= {
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=secured.ca),
            "sasl_mechanism": secured.mechanism,
            "sasl_plain_username": secured.username,
            "sasl_plain_password": secured.password,
        }
    return told


class Transactions:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._sending: list[Any] = []
        self._producer: AIOKafkaProducer = wait(self._start(bootstrap, transactional_id, timeout_ms))

    async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> AIOKafkaProducer:
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        producer = AIOKafkaProducer(**connection(bootstrap), **settings)
        await producer.start()
        return producer

    def begin(self) -> None:
        self._sending.clear()
        wait(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        self._sending.append(wait(self._producer.send(topic, value, key, partition=partition)))

    def flush(self) -> None:
        async def all_sent() -> None:
            await asyncio.gather(*self._sending)

        wait(all_sent())

    def send_offsets(self, topic: str, offsets: dict[int, int], member: Reading) -> None:
        positions = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        wait(self._producer.send_offsets_to_transaction(positions, member.group))

    def commit(self) -> None:
        wait(self._producer.commit_transaction())

    def abort(self) -> None:
        wait(self._producer.abort_transaction())

    def close(self) -> None:
        wait(self._producer.stop())


class Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        self.version = f"aiokafka {aiokafka.__version__}"
        self._bootstrap = bootstrap
        self.consumer_protocol = False
        threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self._admin: AIOKafkaAdminClient = wait(self._start())

    async def _start(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(**connection(self._bootstrap))
        await admin.start()
        return admin

    def produce(
        self, topic: str, records: Iterable[tuple[int, bytes, bytes]], *, compression: str, idempotent: bool
    ) -> list[int]:
        return wait(self._produce(topic, records, None if compression == "none" else compression, idempotent))

    async def _produce(
        self, topic: str, records: Iterable[tuple[int, bytes, bytes]], compression: str | None, idempotent: bool
    ) -> list[int]:
        # It never has more than one request per partition in flight.
        settings: dict[str, Any] = {"enable_idempotence": idempotent, "acks": "all", "linger_ms": 5}
        settings["max_batch_size"] = 8192 if idempotent else 65536
        producer = AIOKafkaProducer(**connection(self._bootstrap), compression_type=compression, **settings)
        await producer.start()
        try:
            futures = [await producer.send(topic, value, key, partition=at) for at, key, value in records]
            await producer.flush()
            return [future.result().offset for future in futures]
        finally:
            await producer.stop()

    def reader(self, topic: str, partitions: int, isolation: str) -> Reading:
        reading = Reading(**connection(self._bootstrap), isolation_level=isolation)
        on_loop(reading.consumer.assign, [TopicPartition(topic, partition) for partition in range(partitions)])
        return reading

    def member(self, topic: str, group: str, *, records_max: int = 500) -> Reading:
        return Reading(
            topic,
            records_max=records_max,
            **connection(self._bootstrap),
            group_id=group,
            heartbeat_interval_ms=300,
            session_timeout_ms=6000,
            isolation_level="read_committed",
        )

    def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Transactions:
        return Transactions(self._bootstrap, transactional_id, timeout_ms)

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs)
        answer = wait(self._admin.create_topics([new]))
        for _, code, *_ in answer.topic_errors:
            if code:
                raise kafka_errors.for_code(code)(topic)

    def delete_topic(self, topic: str) -> None:
        answer = wait(self._admin.delete_topics([topic]))
        check(all(code == 0 for _, code, *_ in answer.topic_error_codes), f"delete_topics: {answer}")

    def topics(self) -> set[str]:
        return set(wait(self._admin.list_topics()))

    def partitions(self, topic: str) -> list[int]:
        (described,) = wait(self._admin.describe_topics([topic]))
        return [len(partition["isr"]) for partition in described["partitions"] if partition["leader"] >= 0]

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: ""})
        (answer,) = wait(self._admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = answer.resources
        check(code == 0, f"describe_configs: {code} {message}")
        return {entry[0]: entry[1] for entry in entries}[name]

    def alter_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (answer, *_) = wait(self._admin.alter_configs([resource]))
        check(all(code == 0 for code, *_ in answer.resources), f"alter_configs: {answer}")

    def create_partitions(self, topic: str, total: int) -> None:
        wait(self._admin.create_partitions({topic: NewPartitions(total)}))

    def start_offset(self, topic: str, partition: int) -> int:
        return self._offset("beginning_offsets", topic, partition, "read_uncommitted")

    def end_offset(self, topic: str, partition: int, isolation: str = "read_uncommitted") -> int:
        if isolation == "read_committed" and RELEASE < ASKS_FOR_STABLE_OFFSETS:
            return self._fetched_stable_offset(topic, partition)
        return self._offset("end_offsets", topic, partition, isolation)

    def _fetched_stable_offset(self, topic: str, partition: int) -> int:
        reading = Reading(**connection(self._bootstrap), isolation_level="read_committed", fetch_max_wait_ms=50)
        at = TopicPartition(topic, partition)
        on_loop(reading.consumer.assign, [at])
        end = time.monotonic() + PATIENCE
        try:
            while (offset := reading.consumer.last_stable_offset(at)) is None:
                check(time.monotonic() < end, "no fetch told the last stable offset")
                reading.poll(0.02)
            return int(offset)
        finally:
            reading.close()

    def _offset(self, method: str, topic: str, partition: int, isolation: str) -> int:
        reading = Reading(**connection(self._bootstrap), isolation_level=isolation)
        try:
            at = TopicPartition(topic, partition)
            offset: int = wait(getattr(reading.consumer, method)([at]))[at]
            return offset
        finally:
            reading.close()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        try:
            from aiokafka.admin import RecordsToDelete
        except ImportError:
            raise NotImplementedError("delete_records") from None
        wait(self._admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before_offset=before)}))

    def groups(self) -> set[str]:
        return {name for name, _ in wait(self._admin.list_consumer_groups())}

    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        found = wait(self._admin.list_consumer_group_offsets(group))
        return {at.partition: where.offset for at, where in found.items() if at.topic == topic and where.offset >= 0}

    def commit_outside(self, group: str, topic: str, partition: int, offset: int) -> None:
        reading = Reading(**connection(self._bootstrap), group_id=group)
        at = TopicPartition(topic, partition)
        on_loop(reading.consumer.assign, [at])
        wait(reading.consumer.commit({at: offset}))
        reading.close()

    def delete_group(self, group: str) -> None:
        raise NotImplementedError("delete_group")

    def brokers(self) -> int:
        return len(wait(self._admin.describe_cluster())["brokers"])


def connect(bootstrap: str) -> Client:
    return Aiokafka(bootstrap)


if __name__ == "__main__":
    run(connect)
