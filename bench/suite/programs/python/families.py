"""The Python clients of the suite: python families.py confluent-kafka --producer linger.ms=0.

They are those of tests/clients, with the settings that a client has by itself (it says if a producer is idempotent)
and those of the command line.
"""

import argparse
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parents[3] / "tests" / "clients"
sys.path[:0] = [str(HERE), str(CLIENTS)]

from interface import Client, check  # noqa: E402
from plays import serve  # noqa: E402

PATIENCE = 30.0
Records = Iterable[tuple[int, bytes, bytes]]


def program(family: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", CLIENTS / family / "program.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def confluent(settings: dict[str, Any]) -> Callable[[str], Client]:
    here = program("confluent-kafka")
    from confluent_kafka import Producer, TopicPartition

    class Reading(here.Reading):
        def poll(self, seconds: float) -> list[Any]:
            """What is there once the first has come: `consume` would wait until so many have, or the time is over."""
            messages = self._one_by_one(seconds)
            for message in messages:
                check(message.error() is None, f"consume: {message.error()}")
            return [here.Record(m.partition(), m.offset(), m.key(), m.value()) for m in messages]

    class Confluent(here.Confluent):
        def _consumer(self, group: str, isolation: str, records_max: int) -> Reading:
            own = {"group.id": group, "isolation.level": isolation}
            return Reading({**self._settings, **settings["consumer"], **own}, records_max=records_max)

        def produce(self, topic: str, records: Records, *, compression: str, idempotent: bool) -> list[int]:
            own = {"compression.type": compression}
            producer = Producer({**self._settings, **settings["producer"], **own})
            offsets: list[int] = []

            def delivered(error: object, message: Any) -> None:
                check(error is None, f"produce: {error}")
                offsets.append(message.offset())

            for partition, key, value in records:
                producer.produce(topic, value, key, partition, on_delivery=delivered)
            check(producer.flush(PATIENCE) == 0, "records are left after a flush")
            return offsets

        def reader(self, topic: str, partitions: int, isolation: str) -> Reading:
            reading = self._consumer(f"{topic}-unused", isolation, 5000)
            reading.consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
            return reading

        def member(self, topic: str, group: str, *, records_max: int = 500) -> Reading:
            reading = self._consumer(group, "read_committed", records_max)
            reading.consumer.subscribe([topic])
            return reading

        def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Any:
            own = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
            return here.Transactions({**self._settings, **settings["producer"], **own})

    return Confluent


def aiokafka(settings: dict[str, Any]) -> Callable[[str], Client]:
    here = program("aiokafka")
    from aiokafka import AIOKafkaProducer, TopicPartition

    consumer, producing = settings["consumer"], settings["producer"]

    class Transactions(here.Transactions):
        async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> AIOKafkaProducer:
            own = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **producing, **own)
            await producer.start()
            return producer

    threading.Thread(target=here.LOOP.run_forever, daemon=True).start()

    class Aiokafka(here.Aiokafka):
        def __init__(self, bootstrap: str) -> None:
            self._bootstrap = bootstrap
            self._admin = here.wait(self._start())

        async def _produce(self, topic: str, records: Records, compression: str | None, idempotent: bool) -> list[int]:
            own = {"bootstrap_servers": self._bootstrap, "compression_type": compression}
            async with AIOKafkaProducer(**producing, **own) as producer:
                futures = [await producer.send(topic, value, key, partition=at) for at, key, value in records]
                await producer.flush()
                return [future.result().offset for future in futures]

        def reader(self, topic: str, partitions: int, isolation: str) -> Any:
            reading = here.Reading(bootstrap_servers=self._bootstrap, isolation_level=isolation, **consumer)
            here.on_loop(reading.consumer.assign, [TopicPartition(topic, at) for at in range(partitions)])
            return reading

        def member(self, topic: str, group: str, *, records_max: int = 500) -> Any:
            own = {"bootstrap_servers": self._bootstrap, "group_id": group, "isolation_level": "read_committed"}
            return here.Reading(topic, records_max=records_max, **consumer, **own)

        def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Any:
            return Transactions(self._bootstrap, transactional_id, timeout_ms)

        def _offset(self, method: str, topic: str, partition: int, isolation: str) -> int:
            own = {"bootstrap_servers": self._bootstrap, "isolation_level": isolation}
            with contextlib.closing(here.Reading(**consumer, **own)) as reading:
                at = TopicPartition(topic, partition)
                offset: int = here.wait(getattr(reading.consumer, method)([at]))[at]
                return offset

        def close(self) -> None:
            here.wait(self._admin.close())

    return Aiokafka


FAMILIES = {"confluent-kafka": confluent, "aiokafka": aiokafka}


def told(words: list[str]) -> dict[str, Any]:
    """`name=value` as settings; numbers are numbers, because aiokafka wants them so."""
    pairs = [word.split("=", 1) for word in words]
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--consumer", action="append", default=[], help="a setting of consumers, name=value")
    parser.add_argument("--producer", action="append", default=[], help="a setting of producers, name=value")
    given = parser.parse_args()
    settings = {"consumer": told(given.consumer), "producer": told(given.producer)}
    serve(FAMILIES[given.family](settings))


if __name__ == "__main__":
    main()
