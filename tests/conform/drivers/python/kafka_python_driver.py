"""kafka-python."""

import re
import time
from typing import Any

import kafka
from driver import Driver, Failure, Unsupported, run
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

PATIENCE_S = 20
MADE = {"producer": KafkaProducer, "consumer": KafkaConsumer}
CONSUMING = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
FATAL = {
    "PRODUCER_FENCED",
    "FENCED_INSTANCE_ID",
    "INVALID_PRODUCER_ID_MAPPING",
    "UNSUPPORTED_VERSION",
    "INVALID_TXN_STATE",
}
FATAL |= {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TRANSACTION_TIMEOUT"}


def position(offset: int) -> OffsetAndMetadata:
    """The releases differ in the number of fields: offset, metadata and (2.1) leader epoch."""
    return OffsetAndMetadata(offset, "", *[-1] * (len(OffsetAndMetadata._fields) - 2))


class Producing:
    def __init__(self, config: dict[str, Any]) -> None:
        self.transactional = "transactional_id" in config
        self.producer = KafkaProducer(**config)
        self.sent: list[Any] = []


class KafkaPython(Driver):
    library = "kafka-python"
    version = kafka.__version__

    def __init__(self) -> None:
        self.producers: dict[str, Producing] = {}
        self.consumers: dict[str, KafkaConsumer] = {}

    def failure(self, client: str, error: BaseException) -> Failure:
        """In an error state the client puts the error that led to it into a text; that one is told."""
        said = re.search(r"\[Error (\d+)\]", str(error))
        at = error if getattr(error, "errno", None) or not said else kafka_errors.for_code(int(said[1]))()
        if not isinstance(at, kafka_errors.KafkaError) or not getattr(at, "errno", None):
            category = "retriable" if getattr(at, "retriable", False) else "unknown"
            return Failure(type(at).__name__, category, repr(error))
        category = "fatal" if at.message in FATAL else "retriable" if at.retriable else "abortable"
        return Failure(at.message, category, repr(error))

    def init(
        self, client: str, role: str, bootstrap: str, config: dict[str, Any], needs: list[str], lazy: bool
    ) -> None:
        known = MADE[role].DEFAULT_CONFIG
        for key in needs:
            if key.replace(".", "_") not in known:
                raise Unsupported(f"kafka-python {kafka.__version__} has no {key}")
        mapped = {key.replace(".", "_"): value for key, value in config.items()}
        if "acks" in mapped:
            mapped["acks"] = {"0": 0, "1": 1, "-1": -1}.get(mapped["acks"], "all")
        told = {"client_id": client, **{key: value for key, value in mapped.items() if key in known}}
        told["bootstrap_servers"] = bootstrap.split(",")
        if role == "consumer":
            self.consumers[client] = KafkaConsumer(**{**CONSUMING, **told})
            return
        if client not in self.producers:
            self.producers[client] = Producing(told)
        if self.producers[client].transactional and not lazy:
            self.producers[client].producer.init_transactions()

    def begin(self, client: str) -> None:
        self.producers[client].sent.clear()
        self.producers[client].producer.begin_transaction()

    def send(
        self, client: str, topic: str, value: str, partition: int | None, key: str | None, wait: bool
    ) -> dict[str, Any] | None:
        as_bytes = None if key is None else key.encode()
        sent = self.producers[client].producer.send(topic, value.encode(), as_bytes, partition=partition)
        if not wait:
            self.producers[client].sent.append(sent)
            return None
        at = sent.get(timeout=PATIENCE_S)
        return {"partition": at.partition, "offset": at.offset}

    def flush(self, client: str) -> None:
        self.producers[client].producer.flush(PATIENCE_S)
        sent, self.producers[client].sent = self.producers[client].sent, []
        for each in sent:
            each.get(timeout=0)

    def send_offsets(self, client: str, group: str, consumer: str | None, offsets: list[dict[str, Any]]) -> None:
        positions = {TopicPartition(at["topic"], at["partition"]): position(at["offset"]) for at in offsets}
        member = None if consumer is None else self.consumers[consumer]
        whole = getattr(member, "group_metadata", None)  # 3.0: with member and generation
        self.producers[client].producer.send_offsets_to_transaction(positions, whole() if whole else group)

    def commit(self, client: str) -> None:
        if client in self.consumers:
            self.consumers[client].commit()
        else:
            self.producers[client].producer.commit_transaction()

    def abort(self, client: str) -> None:
        self.producers[client].producer.abort_transaction()

    def subscribe(self, client: str, topics: list[str], mode: str) -> None:
        if mode == "consumer":
            raise Unsupported("kafka-python knows classic groups only")
        self.consumers[client].subscribe(topics)

    def poll(self, client: str, max: int, timeout_ms: int) -> dict[str, Any]:
        end, records = time.monotonic() + timeout_ms / 1000, []
        while (left := end - time.monotonic()) > 0 and len(records) < max:
            found = self.consumers[client].poll(timeout_ms=int(left * 1000), max_records=max - len(records))
            records += [fields(record) for each in found.values() for record in each]
        return {"records": records}

    def close(self, client: str) -> None:
        if client in self.producers:
            self.producers.pop(client).producer.close(timeout=0)
        if client in self.consumers:
            self.consumers.pop(client).close()


def fields(of: Any) -> dict[str, Any]:
    key = None if of.key is None else of.key.decode()
    return {"topic": of.topic, "partition": of.partition, "offset": of.offset, "key": key, "value": of.value.decode()}


run(KafkaPython())
