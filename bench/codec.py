"""Reading and writing the same bytes with Odradek's codec, kio and kafka-python.

The bytes come from kio; every codec must read them and write them back unchanged before it is measured.
"""

import datetime
import gc
import io
import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from kafka.protocol.consumer import FetchResponse as PythonFetchResponse
from kafka.protocol.metadata import MetadataResponse as PythonMetadataResponse
from kafka.protocol.producer import ProduceRequest as PythonProduceRequest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from odradek.wire import registry

__all__ = ["CODECS", "codec_rounds"]

kio_produce: Any = import_module("kio.schema.produce.v9.request")
kio_fetch: Any = import_module("kio.schema.fetch.v12.response")
kio_metadata: Any = import_module("kio.schema.metadata.v12.response")

CODECS = ["odradek", "kio", "kafka-python"]
SECONDS = 0.15


@dataclass(frozen=True)
class Sample:
    """A message in the three codecs: Odradek's module, kio's class, kafka-python's class."""

    name: str
    module: str
    version: int
    kio: Any
    python: Any

    def bytes(self) -> bytes:
        out = io.BytesIO()
        entity_writer(type(self.kio))(out, self.kio)
        return out.getvalue()


def produce(size: int) -> Any:
    inside = kio_produce.PartitionProduceData(index=0, records=bytes(size))
    topic = kio_produce.TopicProduceData(name="orders", partition_data=(inside,))
    timeout = datetime.timedelta(seconds=30)
    return kio_produce.ProduceRequest(transactional_id=None, acks=-1, timeout=timeout, topic_data=(topic,))


def fetch(size: int) -> Any:
    inside = kio_fetch.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=1000,
        last_stable_offset=1000,
        log_start_offset=0,
        aborted_transactions=(),
        records=bytes(size),
    )
    topic = kio_fetch.FetchableTopicResponse(topic="orders", partitions=(inside,))
    throttle = datetime.timedelta(0)
    return kio_fetch.FetchResponse(throttle_time=throttle, error_code=ErrorCode.none, responses=(topic,))


def metadata(topics: int, partitions: int) -> Any:
    nodes = (1, 2, 3)
    inside = tuple(
        kio_metadata.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=nodes[index % 3],
            leader_epoch=4,
            replica_nodes=nodes,
            isr_nodes=nodes,
            offline_replicas=(),
        )
        for index in range(partitions)
    )
    listed = tuple(
        kio_metadata.MetadataResponseTopic(
            error_code=ErrorCode.none, name=f"topic-{n}", topic_id=uuid.UUID(int=n + 1), partitions=inside
        )
        for n in range(topics)
    )
    brokers = tuple(kio_metadata.MetadataResponseBroker(node_id=n, host="127.0.0.1", port=9092 + n) for n in nodes)
    return kio_metadata.MetadataResponse(
        throttle_time=datetime.timedelta(0), brokers=brokers, cluster_id="odradek", controller_id=1, topics=listed
    )


def samples() -> list[Sample]:
    return [
        Sample("ProduceRequest 9, 1 KiB", "produce_request", 9, produce(1 << 10), PythonProduceRequest),
        Sample("ProduceRequest 9, 64 KiB", "produce_request", 9, produce(1 << 16), PythonProduceRequest),
        Sample("FetchResponse 12, 1 MiB", "fetch_response", 12, fetch(1 << 20), PythonFetchResponse),
        Sample("MetadataResponse 12, 20 topics of 6", "metadata_response", 12, metadata(20, 6), PythonMetadataResponse),
    ]


Reads = Callable[[], Any]
Writes = Callable[[Any], bytes]


def codec(name: str, sample: Sample, data: bytes) -> tuple[Reads, Writes]:
    """The reading of the bytes, and the writing of what was read as one bytes object."""
    if name == "odradek":
        message = import_module(f"odradek.wire.messages.{sample.module}").MESSAGE
        return partial(registry.decode, message, data, sample.version), partial(odradek_write, sample.version)
    if name == "kio":
        read, write = entity_reader(type(sample.kio)), entity_writer(type(sample.kio))
        return lambda: read(data, 0)[0], partial(kio_write, write)
    return partial(sample.python.decode, data, version=sample.version), lambda message: bytes(message.encode())


def odradek_write(version: int, message: Any) -> bytes:
    return registry.encode(message, version)


def kio_write(write: Callable[[Any, Any], None], message: Any) -> bytes:
    out = io.BytesIO()
    write(out, message)
    return out.getvalue()


def microseconds(call: Callable[[], object]) -> float:
    """The time of one call, from a loop of about SECONDS."""
    before = time.perf_counter()
    call()
    count = max(3, int(SECONDS / max(time.perf_counter() - before, 1e-7)))
    gc.collect()
    gc.disable()
    before = time.perf_counter()
    for _ in range(count):
        call()
    elapsed = time.perf_counter() - before
    gc.enable()
    return elapsed / count * 1e6


def codec_rounds(rounds: int) -> dict[str, dict[str, float]]:
    """The medians of interleaved rounds, in microseconds: by message and direction, then by codec."""
    found: dict[str, dict[str, list[float]]] = {}
    for sample in samples():
        data = sample.bytes()
        pairs = {name: codec(name, sample, data) for name in CODECS}
        for name, (read, write) in pairs.items():
            if write(read()) != data:
                raise AssertionError(f"{name} does not write back {sample.name}")
        for _ in range(rounds):
            for name, (read, write) in pairs.items():
                message = read()
                found.setdefault(f"read {sample.name}", {}).setdefault(name, []).append(microseconds(read))
                writing = microseconds(partial(write, message))
                found.setdefault(f"write {sample.name}", {}).setdefault(name, []).append(writing)
    return {title: {name: statistics.median(all_) for name, all_ in times.items()} for title, times in found.items()}
