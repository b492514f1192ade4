"""aiokafka, whose event loop has a thread of its own."""

import asyncio
import inspect
import threading
import time
from collections.abc import Coroutine
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka_errors
from driver import Driver, Failure, Unsupported, run

LOOP = asyncio.new_event_loop()
MADE = {"producer": AIOKafkaProducer, "consumer": AIOKafkaConsumer}
CONSUMING = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
# After these its manual has the producer closed.
FATAL = (kafka_errors.ProducerFenced, kafka_errors.OutOfOrderSequenceNumber)
FATAL += (kafka_errors.TransactionalIdAuthorizationFailed, kafka_errors.InvalidProducerEpoch)
OWN_NAMES = {"ProducerFenced": "PRODUCER_FENCED"}


def on_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result()


async def made(kind: type, config: dict[str, Any]) -> Any:
    """The clients ask for the running loop when they are made."""
    return kind(**config)


class Producing:
    def __init__(self, config: dict[str, Any]) -> None:
        self.producer = on_loop(made(AIOKafkaProducer, config))
        self.started = False
        self.sent: list[Any] = []

    async def start(self) -> None:
        if not self.started:
            await self.producer.start()  # initialises the transactions, too
            self.started = True

    async def send(self, topic: str, value: bytes, key: bytes | None, partition: int | None) -> Any:
        return await self.producer.send(topic, value, key, partition=partition)

    async def flush(self) -> None:
        sent, self.sent = self.sent, []
        await self.producer.flush()
        await asyncio.gather(*sent)


class Aiokafka(Driver):
    library = "aiokafka"
    version = aiokafka.__version__

    def __init__(self) -> None:
        self.producers: dict[str, Producing] = {}
        self.consumers: dict[str, AIOKafkaConsumer] = {}
        threading.Thread(target=LOOP.run_forever, daemon=True).start()

    def failure(self, client: str, error: BaseException) -> Failure:
        if not isinstance(error, kafka_errors.KafkaError):
            return super().failure(client, error)
        own = type(error).__name__
        name = getattr(error, "message", None) or OWN_NAMES.get(own, own)
        category = "fatal" if isinstance(error, FATAL) else "retriable" if error.retriable else "abortable"
        return Failure(name, "unknown" if name == own else category, repr(error))

    def init(
        self, client: str, role: str, bootstrap: str, config: dict[str, Any], needs: list[str], lazy: bool
    ) -> None:
        known = inspect.signature(MADE[role].__init__).parameters
        for key in needs:
            if key.replace(".", "_") not in known:
                raise Unsupported(f"aiokafka has no {key}")
        mapped = {key.replace(".", "_"): value for key, value in config.items()}
        if "acks" in mapped:
            mapped["acks"] = {"0": 0, "1": 1, "-1": -1}.get(mapped["acks"], "all")
        told = {"client_id": client, **{key: value for key, value in mapped.items() if key in known}}
        told["bootstrap_servers"] = bootstrap.split(",")
        if role == "consumer":
            self.consumers[client] = on_loop(made(AIOKafkaConsumer, {**CONSUMING, **told}))
            return
        if client not in self.producers:
            self.producers[client] = Producing(told)
        if not lazy:
            on_loop(self.producers[client].start())

    def begin(self, client: str) -> None:
        self.producers[client].sent.clear()
        on_loop(self.producers[client].producer.begin_transaction())

    def send(
        self, client: str, topic: str, value: str, partition: int | None, key: str | None, wait: bool
    ) -> dict[str, Any] | None:
        as_bytes = None if key is None else key.encode()
        sent = on_loop(self.producers[client].send(topic, value.encode(), as_bytes, partition))
        if not wait:
            self.producers[client].sent.append(sent)
            return None
        at = on_loop(asyncio.wait_for(sent, None))
        return {"partition": at.partition, "offset": at.offset}

    def flush(self, client: str) -> None:
        on_loop(self.producers[client].flush())

    def send_offsets(self, client: str, group: str, consumer: str | None, offsets: list[dict[str, Any]]) -> None:
        positions = {TopicPartition(at["topic"], at["partition"]): at["offset"] for at in offsets}
        on_loop(self.producers[client].producer.send_offsets_to_transaction(positions, group))

    def commit(self, client: str) -> None:
        consumer = self.consumers.get(client)
        on_loop(consumer.commit() if consumer else self.producers[client].producer.commit_transaction())

    def abort(self, client: str) -> None:
        on_loop(self.producers[client].producer.abort_transaction())

    def subscribe(self, client: str, topics: list[str], mode: str) -> None:
        if mode == "consumer":
            raise Unsupported("aiokafka knows classic groups only")

        async def subscribed() -> None:
            self.consumers[client].subscribe(topics)
            await self.consumers[client].start()

        on_loop(subscribed())

    def poll(self, client: str, max: int, timeout_ms: int) -> dict[str, Any]:
        end, records = time.monotonic() + timeout_ms / 1000, []
        while (left := end - time.monotonic()) > 0 and len(records) < max:
            found = on_loop(self.consumers[client].getmany(timeout_ms=int(left * 1000), max_records=max - len(records)))
            records += [fields(record) for each in found.values() for record in each]
        return {"records": records}

    def close(self, client: str) -> None:
        if client in self.producers:
            on_loop(self.producers.pop(client).producer.stop())
        if client in self.consumers:
            on_loop(self.consumers.pop(client).stop())


def fields(of: Any) -> dict[str, Any]:
    key = None if of.key is None else of.key.decode()
    return {"topic": of.topic, "partition": of.partition, "offset": of.offset, "key": key, "value": of.value.decode()}


run(Aiokafka())
