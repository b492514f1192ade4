"""confluent-kafka: librdkafka from Python."""

import sys
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from driver import Driver, Failure, Unsupported, run

PATIENCE_S = 20
OWN_NAMES = {"_FENCED": "PRODUCER_FENCED"}
# Settings of the Java client that librdkafka has under the same name.
BOTH = """client.id retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms
 metadata.max.age.ms allow.auto.create.topics connections.max.idle.ms client.rack request.timeout.ms"""
SETTINGS = {
    "producer": f"""{BOTH} transactional.id transaction.timeout.ms enable.idempotence acks retries linger.ms batch.size
 max.in.flight.requests.per.connection delivery.timeout.ms compression.type message.max.bytes""".split(),
    "consumer": f"""{BOTH} group.id group.instance.id group.protocol group.remote.assignor
 isolation.level auto.offset.reset enable.auto.commit auto.commit.interval.ms session.timeout.ms
 heartbeat.interval.ms max.poll.interval.ms
 partition.assignment.strategy fetch.min.bytes fetch.max.bytes check.crcs""".split(),
}
CONSUMING = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
SINCE_2_4 = {"group.protocol", "group.remote.assignor", "retry.backoff.max.ms"}
LACKS = SINCE_2_4 if confluent_kafka.libversion()[1] < 0x02040000 else set()


class Producing:
    def __init__(self, config: dict[str, Any]) -> None:
        self.transactional = "transactional.id" in config
        self.producer = Producer(config)
        self.failed: list[KafkaError] = []

    def flush(self) -> int:
        """A fatal error comes out of a flush: from 2.16 on as a KafkaError, which is no exception for Python."""
        try:
            return int(self.producer.flush(PATIENCE_S))
        except:  # noqa: E722
            raised = sys.exc_info()[1]
            raise (KafkaException(raised) if isinstance(raised, KafkaError) else raised.__cause__ or raised) from None

    def delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.failed.append(error)

    def send_and_wait(self, *record: Any) -> Any:
        told: list[tuple[KafkaError | None, Any]] = []
        self.producer.produce(*record, on_delivery=lambda *said: told.append(said))
        self.flush()
        ((error, message),) = told or [(KafkaError(KafkaError._TIMED_OUT), None)]
        if error is not None:
            raise KafkaException(error)
        return message


class ConfluentKafka(Driver):
    library = "confluent-kafka (librdkafka)"
    version = f"{confluent_kafka.__version__} ({confluent_kafka.libversion()[0]})"

    def __init__(self) -> None:
        self.producers: dict[str, Producing] = {}
        self.consumers: dict[str, Consumer] = {}

    def failure(self, client: str, error: BaseException) -> Failure:
        code = error.args[0] if isinstance(error, KafkaException) else None
        if not isinstance(code, KafkaError):
            return super().failure(client, error)
        kinds = {"fatal": code.fatal(), "abortable": code.txn_requires_abort(), "retriable": code.retriable()}
        category = next((kind for kind, holds in kinds.items() if holds), "unknown")
        return Failure(OWN_NAMES.get(code.name(), code.name()), category, code.str())

    def init(
        self, client: str, role: str, bootstrap: str, config: dict[str, Any], needs: list[str], lazy: bool
    ) -> None:
        known = set(SETTINGS[role]) - LACKS
        for key in needs:
            if key not in known:
                raise Unsupported(f"librdkafka has no {key}")
        told = {"client.id": client, **{key: value for key, value in config.items() if key in known}}
        told["bootstrap.servers"] = bootstrap
        if role == "consumer":
            self.consumers[client] = Consumer({**CONSUMING, **told})
            return
        if client not in self.producers:
            self.producers[client] = Producing(told)
        if self.producers[client].transactional and not lazy:
            self.producers[client].producer.init_transactions(PATIENCE_S)

    def begin(self, client: str) -> None:
        self.producers[client].failed.clear()
        self.producers[client].producer.begin_transaction()

    def send(
        self, client: str, topic: str, value: str, partition: int | None, key: str | None, wait: bool
    ) -> dict[str, Any] | None:
        record = (topic, value, key, -1 if partition is None else partition)
        if wait:
            at = self.producers[client].send_and_wait(*record)
            return {"partition": at.partition(), "offset": at.offset()}
        self.producers[client].producer.produce(*record, on_delivery=self.producers[client].delivered)
        return None

    def flush(self, client: str) -> None:
        left = self.producers[client].flush()
        failed, self.producers[client].failed = self.producers[client].failed, []
        for error in failed or [KafkaError(KafkaError._TIMED_OUT)] * left:
            raise KafkaException(error)

    def send_offsets(self, client: str, group: str, consumer: str | None, offsets: list[dict[str, Any]]) -> None:
        positions = [TopicPartition(at["topic"], at["partition"], at["offset"]) for at in offsets]
        if consumer is None:
            raise Unsupported("the metadata of a group comes from a consumer")
        metadata = self.consumers[consumer].consumer_group_metadata()
        self.producers[client].producer.send_offsets_to_transaction(positions, metadata, PATIENCE_S)

    def commit(self, client: str) -> None:
        if client in self.consumers:
            self.consumers[client].commit(asynchronous=False)
        else:
            self.producers[client].producer.commit_transaction(PATIENCE_S)

    def abort(self, client: str) -> None:
        self.producers[client].producer.abort_transaction(PATIENCE_S)

    def subscribe(self, client: str, topics: list[str], mode: str) -> None:
        self.consumers[client].subscribe(topics)

    def poll(self, client: str, max: int, timeout_ms: int) -> dict[str, Any]:
        messages = self.consumers[client].consume(max, timeout_ms / 1000)
        for message in messages:
            if message.error() is not None and not message.error().retriable():
                raise KafkaException(message.error())
        return {"records": [fields(message) for message in messages if message.error() is None]}

    def close(self, client: str) -> None:
        if client in self.producers:
            self.producers.pop(client).producer.purge()
        if client in self.consumers:
            self.consumers.pop(client).close()


def fields(message: Any) -> dict[str, Any]:
    key = None if message.key() is None else message.key().decode()
    where = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return {**where, "key": key, "value": message.value().decode()}


run(ConfluentKafka())
